"""What a kubelet uses: flags beat drop-ins, those beat the file, and every value knows its place."""

import pytest

from cri_proxy.kubelet.settings import (
    CONFIG,
    CPU_OPTIONS,
    CPU_POLICY,
    ENDPOINT,
    ENFORCED,
    FEATURE_GATES,
    HOSTNAME,
    RESERVED_MEMORY,
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
    found = merged("--kube-reserved=cpu=250m,memory=1Gi", config='systemReserved: {cpu: "1"}').reserve
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


OPTIONS = 'cpuManagerPolicyOptions: {full-pcpus-only: "true"}'


def test_entries_of_mappings_are_settings_of_their_own() -> None:
    found = merged(config=OPTIONS, drop_in='cpuManagerPolicyOptions: {align-by-socket: "true"}')
    names = [each.key.partition(".")[2] for each in found.entries(CPU_OPTIONS)]
    assert names == ["full-pcpus-only", "align-by-socket"]
    assert found.places(CPU_OPTIONS) == ("/config", "/drop_in")


@pytest.mark.parametrize("text", ["cpuManagerPolicyOptions: null", "cpuManagerPolicyOptions: {full-pcpus-only: null}"])
def test_null_in_a_drop_in_takes_a_value_away(text: str) -> None:
    assert merged(config=OPTIONS, drop_in=text).entries(CPU_OPTIONS) == ()


def test_a_flag_replaces_the_options_and_knows_the_places_behind_it() -> None:
    found = merged("--cpu-manager-policy-options=align-by-socket=true", config=OPTIONS)
    assert [each.key for each in found.entries(CPU_OPTIONS)] == [f"{CPU_OPTIONS}.align-by-socket"]
    assert found.places(CPU_OPTIONS) == ("process 7, --cpu-manager-policy-options", "/config")


def test_feature_gates_of_a_flag_are_merged() -> None:
    found = merged("--feature-gates=A=true", config="featureGates: {B: false}")
    assert {each.key: each.value for each in found.entries(FEATURE_GATES)} == {
        "featureGates.A": "true",
        "featureGates.B": "false",
    }


def test_lists_read_as_their_flags() -> None:
    found = merged(
        config="enforceNodeAllocatable: [pods, kube-reserved]\n"
        "reservedMemory: [{numaNode: 0, limits: {memory: 1Gi, hugepages-2Mi: 4Mi}}, {numaNode: 1}]"
    )
    assert found.get(ENFORCED).value == "pods,kube-reserved"
    assert found.get(RESERVED_MEMORY).value == "0:memory=1Gi,hugepages-2Mi=4Mi;1:"
    assert merged(config="enforceNodeAllocatable: []").get(ENFORCED).value == "none"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("reservedSystemCPUs: 0", 'reservedSystemCPUs: expected text, got the int 0: write "0"'),
        (
            "cpuManagerPolicyOptions: {a: true}",
            'cpuManagerPolicyOptions.a: expected text, got the bool true: write "true"',
        ),
        ('featureGates: {A: "true"}', "featureGates.A: expected true or false, got 'true'"),
    ],
)
def test_a_value_of_another_type_is_a_problem_as_the_kubelet_cannot_decode_it(text: str, problem: str) -> None:
    assert merged(config=text).problems == (("/config", problem),)


@pytest.mark.parametrize(
    "text", ["cpuManagerPolicy: none", "kind: KubeletConfiguration", "", "apiVersion: kubelet.config.k8s.io/v1beta1"]
)
def test_a_drop_in_without_its_kind_stops_the_kubelet(text: str) -> None:
    ((_, problem),) = merge_settings((), [KubeletFile("/k.d/20.conf", text, is_drop_in=True)]).problems
    assert "a drop-in begins with apiVersion: kubelet.config.k8s.io/v1beta1 and kind: KubeletConfiguration" in problem


def test_a_drop_in_with_its_kind_is_read() -> None:
    text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
    found = merge_settings((), [KubeletFile("/k.d/20.conf", text, is_drop_in=True)])
    assert (found.problems, found.get(CPU_POLICY).value) == ((), "static")
