"""What a kubelet uses: flags beat drop-ins, those beat the file, and every value knows its place."""

import pytest

from cri_proxy.kubelet.settings import (
    CONFIG,
    CPU_POLICY,
    ENDPOINT,
    HOSTNAME,
    SYSTEM_CPU,
    KubeletFile,
    KubeletSettings,
    Word,
    merge_settings,
)
from sysfs.cpuset import CpuSet

OURS, THEIRS = "unix:///run/cri-proxy/cri-proxy.sock", "unix:///run/containerd/containerd.sock"


def merged(*words: str, **files: str) -> KubeletSettings:
    """Settings of a process with these words and of files by name, the weakest first."""
    return merge_settings(
        [Word(word, "process 7") for word in words], [KubeletFile(f"/{name}", text) for name, text in files.items()]
    )


def test_without_any_place_the_kubelet_takes_its_defaults() -> None:
    found = merged()
    assert found.get(ENDPOINT).value == THEIRS
    assert found.get(CPU_POLICY).value == "none"
    assert found.get(CPU_POLICY).is_default


def test_a_drop_in_beats_the_file_and_says_what_it_beats() -> None:
    found = merged(config="cpuManagerPolicy: none", drop_in="cpuManagerPolicy: static").get(CPU_POLICY)
    assert (found.value, found.where) == ("static", "/drop_in")
    assert [(each.value, each.where) for each in found.beaten] == [("none", "/config")]


def test_a_flag_beats_files() -> None:
    found = merged(f"--container-runtime-endpoint={OURS}", config=f"containerRuntimeEndpoint: {THEIRS}").get(ENDPOINT)
    assert (found.value, found.where) == (OURS, "process 7, --container-runtime-endpoint")


@pytest.mark.parametrize(
    "words",
    [
        ("--container-runtime-endpoint", OURS),
        (f"--container_runtime_endpoint={OURS}",),
        (f"--container-runtime-endpoint={THEIRS}", f"--container-runtime-endpoint={OURS}"),
    ],
)
def test_the_last_flag_counts_however_it_is_written(words: tuple[str, ...]) -> None:
    assert merged("kubelet", *words).get(ENDPOINT).value == OURS


def test_a_flag_without_a_value_at_the_end_is_empty() -> None:
    assert merged("--hostname-override").get(HOSTNAME).value == ""


def test_mappings_of_drop_ins_are_merged() -> None:
    found = merged(config="systemReserved: {cpu: 500m, memory: 1Gi}", drop_in="systemReserved: {memory: 2Gi}")
    assert found.get(SYSTEM_CPU).value == "500m"


def test_a_flag_replaces_a_whole_mapping() -> None:
    found = merged("--system-reserved=memory=1Gi", config="systemReserved: {cpu: 500m}")
    assert found.reserve.mcpu == 0


def test_the_reservation_is_read_from_all_keys() -> None:
    found = merged("--kube-reserved=cpu=250m,memory=1Gi", config="systemReserved: {cpu: 1}").reserve
    assert (found.system_mcpu, found.kube_mcpu) == (1000, 250)
    assert merged("--reserved-cpus=0-1").reserve.cpus == CpuSet.parse("0-1")


def test_values_that_no_kubelet_can_read_reserve_nothing() -> None:
    found = merged(config='reservedSystemCPUs: "x"\nsystemReserved: {cpu: much}').reserve
    assert found.mcpu == 0


def test_json_is_read_too() -> None:
    assert merged(config='{"cpuManagerPolicy": "static"}').get(CPU_POLICY).value == "static"


@pytest.mark.parametrize("text", ["- a", "cpuManagerPolicy: [", "a: b\n---\nc: d"])
def test_a_file_that_is_no_configuration_is_a_problem(text: str) -> None:
    ((path, _),) = merged(config=text).problems
    assert path == "/config"


def test_a_file_that_cannot_be_read_is_a_problem_and_an_empty_one_is_none() -> None:
    assert merge_settings([], [KubeletFile("/config", None)]).problems == (("/config", "cannot be read"),)
    assert merged(config="").problems == ()


def test_a_flag_without_a_key_is_found() -> None:
    assert merged("--config", "/etc/k.yaml").get(CONFIG).value == "/etc/k.yaml"


def test_a_setting_prints_its_place() -> None:
    assert str(merged(config="cpuManagerPolicy: static").get(CPU_POLICY)) == "/config: cpuManagerPolicy: static"
