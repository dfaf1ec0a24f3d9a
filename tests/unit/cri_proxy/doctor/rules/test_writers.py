import pytest

from cri_proxy.doctor.facts.model import ClaimFacts, NriFacts, ProcessFacts
from cri_proxy.doctor.rules.writers import cpuset_writers, ignored_claims, nri_plugins, writer
from tests.fakes.node_facts import codes, healthy, only


@pytest.mark.parametrize(
    "name",
    [
        "cri-resmgr",
        "nri-resource-policy-topology-aware",
        "nri-resource-policy-balloons",
        "nri-resource-policy-static",
        "10-nri-resource-policy-balloons",
        "koordlet",
    ],
)
def test_a_program_that_writes_cpusets_is_known_by_its_name(name: str) -> None:
    assert writer(name)
    assert codes(cpuset_writers, healthy(processes=(ProcessFacts(9, name),))) == ["cpuset-writer"]


def test_many_processes_of_a_program_are_one_finding() -> None:
    found = only(cpuset_writers, healthy(processes=tuple(ProcessFacts(pid, "koordlet") for pid in (7, 8, 9))))
    assert found.text.startswith("koordlet, process 7 and 2 more of them runs (Koordinator")


def test_other_programs_are_not() -> None:
    assert codes(cpuset_writers, healthy(processes=(ProcessFacts(9, "sh"), ProcessFacts(8, "my-koordlet")))) == []


def test_an_installed_plugin_is_known_or_noted() -> None:
    plugins = ("/opt/nri/plugins/10-nri-resource-policy-balloons", "/opt/nri/plugins/90-logger")
    found = list(nri_plugins(healthy(nri=NriFacts(installed=plugins))))
    assert [finding.code for finding in found] == ["nri-plugin", "nri-unknown"]
    assert found[0].remedy == f"remove {plugins[0]} and restart containerd"


def test_a_connected_plugin_is_noted_unless_its_process_has_been_found() -> None:
    clients = (ProcessFacts(9, "logger"), ProcessFacts(8, "nri-resource-policy-balloons"))
    assert only(nri_plugins, healthy(nri=NriFacts(clients))).text == (
        "logger, process 9 is connected to the runtime's NRI socket"
    )


def test_cpus_that_others_choose_must_count() -> None:
    files, koordlet = ("/var/run/cdi/cpu.json", "/var/run/cdi/cpu2.json"), (ProcessFacts(9, "koordlet"),)
    ignored = healthy(claims=ClaimFacts(False, files), processes=koordlet)
    found = list(ignored_claims(ignored))
    assert [finding.code for finding in found] == ["claims-ignored", "claims-ignored"]
    assert (found[0].text.partition(" ")[0], found[1].text.partition(" runs")[0]) == (files[0], "koordlet, process 9")
    assert codes(ignored_claims, healthy(claims=ClaimFacts(True, files), processes=koordlet)) == []
    assert codes(ignored_claims, healthy(claims=ClaimFacts(False))) == []
