from dataclasses import replace

import pytest

from cri_proxy.doctor.facts.model import Access, ProcessFacts, RuntimeFacts
from cri_proxy.doctor.rules.proxy import (
    access,
    daemon_is_alone,
    daemon_runs,
    daemon_starts_at_boot,
    devices,
    runtime_socket,
)
from cri_proxy.kubelet.distributions import DISTRIBUTIONS
from tests.fakes.node_facts import DAEMON, codes, healthy, kubelet, only, proxy

SYSTEMD = ProcessFacts(1, "systemd")


def test_a_missing_socket_of_the_runtime_is_named() -> None:
    found = only(runtime_socket, healthy(runtime=RuntimeFacts("/r.sock", "No such file or directory")))
    assert found.text == "nothing listens on the runtime's socket /r.sock: No such file or directory"
    assert codes(runtime_socket, healthy()) == []


def test_a_distribution_with_a_containerd_of_its_own_is_told_of_no_other() -> None:
    k3s = next(each for each in DISTRIBUTIONS if each.name == "k3s")
    silent = replace(healthy(kubelet=kubelet(distribution=k3s)), runtime=RuntimeFacts("/r.sock", "no such file"))
    assert codes(runtime_socket, silent) == []  # own_runtime says which it is
    own = replace(silent, runtime=RuntimeFacts(k3s.runtime, "no such file"))
    assert only(runtime_socket, own).remedy.startswith("systemctl restart k3s")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"is_running": False, "silence": "Connection refused"}, ["proxy-stopped"]),
        ({"is_running": False, "silence": "no", "unusable": "x: bad"}, ["config-invalid", "proxy-stopped"]),
        ({"silence": "no answer within 5 seconds"}, ["proxy-silent"]),
        ({"is_running": False, "unreachable": "no answer"}, ["proxy-not-ready"]),
        ({"problems": ("a", "b")}, ["proxy-not-ready", "proxy-not-ready"]),
    ],
)
def test_the_daemon_must_run_answer_and_be_ready(change: dict[str, object], found: list[str]) -> None:
    assert codes(daemon_runs, healthy(proxy=proxy(**change))) == found


@pytest.mark.parametrize(
    ("is_enabled", "remedy"),
    [
        (True, "systemctl start cri-proxy; `journalctl -u cri-proxy` shows why it has stopped"),
        (None, "install packaging/cri-proxy.service, or the Debian package; then systemctl start cri-proxy"),
    ],
)
def test_a_daemon_without_a_unit_is_not_to_be_started_by_one(is_enabled: bool | None, remedy: str) -> None:
    facts = healthy(proxy=proxy(is_running=False, silence="Connection refused", is_enabled=is_enabled))
    assert only(daemon_runs, facts).remedy == remedy


def test_a_silence_that_the_runtimes_absence_explains_is_said_once() -> None:
    facts = healthy(proxy=proxy(silence="closed"), runtime=RuntimeFacts("/r.sock", "gone"))
    assert codes(daemon_runs, facts) == []


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, []),
        ({"holders": (SYSTEMD,)}, []),
        ({"holders": (SYSTEMD, DAEMON)}, []),
        ({"holders": None}, []),
        ({"holders": (ProcessFacts(7, "socat"),)}, ["socket-owner"]),
        ({"processes": (DAEMON, ProcessFacts(700, "python3"))}, ["second-proxy"]),
    ],
)
def test_one_daemon_listens_and_nothing_else(change: dict[str, object], found: list[str]) -> None:
    assert codes(daemon_is_alone, healthy(proxy=proxy(**change))) == found


@pytest.mark.parametrize(("is_enabled", "found"), [(True, []), (False, ["proxy-disabled"]), (None, ["no-unit"])])
def test_a_boot_must_start_it(is_enabled: bool | None, found: list[str]) -> None:
    assert codes(daemon_starts_at_boot, healthy(proxy=proxy(is_enabled=is_enabled))) == found


def test_what_others_can_change_is_named_with_the_command_that_closes_it() -> None:
    open_one = Access("/s/state.db", "has mode 0666, others may write to it: chmod go-w /s/state.db")
    found = only(access, healthy(access=(Access("/s"), open_one)))
    assert (found.text, found.remedy) == (
        "/s/state.db has mode 0666, others may write to it",
        "chmod go-w /s/state.db",
    )


def test_a_cost_file_that_cannot_be_used_is_found() -> None:
    (found,) = devices(healthy(proxy=proxy(cost_problems=("/d/a.yaml:3: not YAML",))))
    assert (found.code, found.text) == ("cost-file", "a file of devices cannot be used: /d/a.yaml:3: not YAML")
    assert codes(devices, healthy(proxy=proxy())) == []


def test_sources_that_disagree_about_a_device_are_found() -> None:
    found = only(devices, healthy(proxy=proxy(disagreements=("gpu 0: x at node 0, y at node 1",))))
    assert (found.code, found.text) == (
        "devices-disagree",
        "sources of devices disagree: gpu 0: x at node 0, y at node 1",
    )
    assert "correct the source that is wrong" in found.remedy
    assert codes(devices, healthy()) == []


def test_a_device_with_two_holders_is_found() -> None:
    found = only(devices, healthy(proxy=proxy(held_twice=("gpu 0 has 2 holders: default/a/c, default/b/c",))))
    assert (found.code, found.text) == ("device-held-twice", "gpu 0 has 2 holders: default/a/c, default/b/c")
    assert "in resources or by annotation" in found.remedy


def test_a_health_of_devices_that_cannot_be_read_is_found() -> None:
    found = only(devices, healthy(proxy=proxy(health_problem="/bin/probe: exit status 6")))
    assert (found.code, found.text) == (
        "device-health",
        "the health of devices cannot be read, what was known last stays: /bin/probe: exit status 6",
    )
    assert "devices list --health FILE" in found.remedy


def test_gpus_that_containers_see_by_their_own_variable_are_found() -> None:
    found = only(devices, healthy(proxy=proxy(shows_gpus=True)))
    assert (found.code, "set visibleDevices: void" in found.remedy) == ("visible-gpus", True)


def test_cdi_devices_that_nobody_adds_are_found_with_the_remedy() -> None:
    found = only(devices, healthy(proxy=proxy(cdi_problems=("cdi is runtime, and so; update it",))))
    assert (found.code, found.text, found.remedy) == ("cdi", "cdi is runtime, and so", "update it")
    assert only(devices, healthy(proxy=proxy(cdi_problems=("so it is",)))).text == "so it is"
    assert codes(devices, healthy()) == []
