"""The kubelet's own reasons to end while it starts, one row each."""

import pytest

from cri_proxy.kubelet.settings import KubeletFile, KubeletSettings, Word, merge_settings
from cri_proxy.kubelet.start_rules import StartHost, StartProblem, start_problems
from sysfs.cpuset import CpuSet

OPTIONS = 'cpuManagerPolicyOptions: {full-pcpus-only: "true"}'
STATIC = 'cpuManagerPolicy: static\nreservedSystemCPUs: "0"\n'
EIGHT = CpuSet.parse("0-7")


def settings(text: str = "", *words: str, drop_in: str = "") -> KubeletSettings:
    files = [KubeletFile("/k.yaml", text), *([KubeletFile("/k.d/20.conf", drop_in)] if drop_in else [])]
    return merge_settings([Word(word, "/k.env") for word in words], files)


def problems(found: KubeletSettings, version: tuple[int, int] | None = None) -> list[StartProblem]:
    return list(start_problems(found, StartHost(version, EIGHT)))


@pytest.mark.parametrize(
    ("text", "named", "remedy"),
    [
        (OPTIONS, "full-pcpus-only: true (/k.yaml)", "remove cpuManagerPolicyOptions from /k.yaml"),
        ("memoryManagerPolicy: none", "knows None, Static", "set memoryManagerPolicy: None in /k.yaml"),
        ("memoryManagerPolicy: Static", "without reservedMemory", "set memoryManagerPolicy: None in /k.yaml"),
        ("cpuManagerPolicy: Static", "knows none, static", "set cpuManagerPolicy: static in /k.yaml"),
        ("cpuManagerPolicy: static", "needs a reservation", "set cpuManagerPolicy: none in /k.yaml"),
        ("topologyManagerPolicy: strict", "strict", "set topologyManagerPolicy: none in /k.yaml"),
        ("topologyManagerScope: node", "node", "set topologyManagerScope: container in /k.yaml"),
        ('reservedSystemCPUs: "0-9"', "CPUs 8-9 are not online", 'set reservedSystemCPUs: "0-7" in /k.yaml'),
        ('reservedSystemCPUs: "9"', "CPUs 9 are not online", 'set reservedSystemCPUs: "0" in /k.yaml'),
        ('reservedSystemCPUs: "x"', "no CPU list", 'set reservedSystemCPUs: "0" in /k.yaml'),
        (
            'reservedSystemCPUs: "0"\nkubeReservedCgroup: /runtime',
            "excludes kubeReservedCgroup: /runtime (/k.yaml)",
            "remove reservedSystemCPUs from /k.yaml, set kubeReserved.cpu: 1000m in /k.yaml",
        ),
        ('kubeReserved: {cpu: "9"}', "than the 8 CPUs", "set kubeReserved.cpu: 500m in /k.yaml"),
        (
            "enforceNodeAllocatable: [pods, kube-reserved]",
            "takes pods:",
            "set enforceNodeAllocatable: [pods] in /k.yaml",
        ),
        ("enforceNodeAllocatable: [none, pods]", "takes pods:", "set enforceNodeAllocatable: [pods] in /k.yaml"),
        ("cgroupsPerQOS: false", "needs enforceNodeAllocatable: none", "set cgroupsPerQOS: true in /k.yaml"),
        ("cpuManagerReconcilePeriod: ten", "no duration", "remove cpuManagerReconcilePeriod from /k.yaml"),
        ("containerRuntimeEndpoint: tcp://1.2.3.4:1", "no Unix socket", "remove containerRuntimeEndpoint from /k.yaml"),
        ("reservedMemory: [{numaNode: 0, limits: {memory: 0Mi}}]", "of zero", "remove reservedMemory from /k.yaml"),
        ("reservedMemory: [{numaNode: 0, limits: {cpu: 1Gi}}]", "neither memory", "remove reservedMemory from /k.yaml"),
        (f'{STATIC}cpuManagerPolicyOptions: {{numa: "true"}}', "no options", "remove cpuManagerPolicyOptions"),
        (
            f'{STATIC}topologyManagerPolicy: single-numa-node\ncpuManagerPolicyOptions: {{align-by-socket: "true"}}',
            "exclude each other",
            "remove cpuManagerPolicyOptions",
        ),
        (
            f'{STATIC}cpuManagerPolicyOptions: {{full-pcpus-only: "true", distribute-cpus-across-cores: "true"}}',
            "exclude each other",
            "remove cpuManagerPolicyOptions",
        ),
    ],
)
def test_a_kubelet_that_ends_is_said_with_key_place_and_remedy(text: str, named: str, remedy: str) -> None:
    (found,) = problems(settings(text))
    assert named in found.text
    assert remedy in ", ".join(map(str, found.edits))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "cpuManagerPolicyOptions: {}",
        'topologyManagerPolicyOptions: {prefer-closest-numa-nodes: "true"}',
        f"{STATIC}{OPTIONS}\nmemoryManagerPolicy: Static\nreservedMemory: [{{numaNode: 0, limits: {{memory: 1Gi}}}}]",
        'kubeReserved: {cpu: "1"}\nkubeReservedCgroup: /runtime\nenforceNodeAllocatable: [pods, kube-reserved]',
        "cgroupsPerQOS: false\nenforceNodeAllocatable: []",
        "cpuManagerReconcilePeriod: 1m30s",
        "featureGates: {CPUManager: true}",
    ],
)
def test_a_kubelet_that_starts_is_left_alone(text: str) -> None:
    assert problems(settings(text), (1, 30)) == []


def test_options_go_from_every_place_that_has_them() -> None:
    (found,) = problems(settings(OPTIONS, drop_in=OPTIONS))
    assert {edit.place for edit in found.edits} == {"/k.yaml", "/k.d/20.conf"}
    (found,) = problems(settings(OPTIONS, "--cpu-manager-policy-options=full-pcpus-only=true"))
    assert [str(edit) for edit in found.edits] == [
        "remove --cpu-manager-policy-options from /k.env",
        "remove cpuManagerPolicyOptions from /k.yaml",
    ]


UNCORE = "prefer-align-cpus-by-uncorecache"
ALPHA = "featureGates: {CPUManagerPolicyAlphaOptions: true}"


@pytest.mark.parametrize(
    ("options", "version", "why"),
    [
        ("full-pcpus-only: 'True'", (1, 30), ""),
        ("full-pcpus-only: 'yes'", None, "must be true or false"),
        ("strict-cpu-reservation: 'true'", (1, 31), "are no options that kubelet 1.31 knows"),
        ("strict-cpu-reservation: 'true'", (1, 32), "need featureGates.CPUManagerPolicyAlphaOptions: true"),
        ("strict-cpu-reservation: 'true'", (1, 33), ""),
        (f"{UNCORE}: 'true'", (1, 33), "need featureGates.CPUManagerPolicyAlphaOptions: true in kubelet 1.33"),
        (f"{UNCORE}: 'true'", (1, 34), ""),
        ("align-by-socket: 'true'", (1, 34), "need featureGates.CPUManagerPolicyAlphaOptions: true in kubelet 1.34"),
        ("align-by-socket: 'true'", (1, 37), ""),
        ("align-by-socket: 'true'", None, ""),
    ],
)
def test_an_option_is_judged_by_its_value_and_by_the_version(
    options: str, version: tuple[int, int] | None, why: str
) -> None:
    text = f"{STATIC}cpuManagerPolicyOptions: {{{options}}}\n"
    found = problems(settings(text), version)
    assert [why in problem.text for problem in found] == ([True] if why else [])
    assert problems(settings(text + ALPHA), version) == (found if why[:4] != "need" else [])


@pytest.mark.parametrize(
    ("value", "version", "why"),
    [
        ("12", (1, 31), ""),
        ("7", (1, 31), "must be a number of at least 8"),
        ("many", (1, 31), "must be a number of at least 8"),
        ("12", (1, 30), "are no options that kubelet 1.30 knows"),
    ],
)
def test_the_limit_of_numa_nodes_is_judged(value: str, version: tuple[int, int], why: str) -> None:
    options = f'topologyManagerPolicyOptions: {{max-allowable-numa-nodes: "{value}"}}'
    found = problems(settings(f"topologyManagerPolicy: restricted\n{options}"), version)
    assert [why in problem.text for problem in found] == ([True] if why else [])


def test_options_exclude_each_other_in_any_spelling_of_true() -> None:
    options = 'cpuManagerPolicyOptions: {full-pcpus-only: "1", distribute-cpus-across-cores: "T"}'
    (found,) = problems(settings(f"{STATIC}{options}"))
    assert "exclude each other" in found.text


def test_compressible_reservations_are_enforced_from_1_32_on() -> None:
    given = settings("kubeReservedCgroup: /r\nenforceNodeAllocatable: [pods, kube-reserved-compressible]")
    assert problems(given, (1, 32)) == problems(given) == []
    (found,) = problems(given, (1, 31))
    assert [str(edit) for edit in found.edits] == ["set enforceNodeAllocatable: [pods] in /k.yaml"]


@pytest.mark.parametrize(
    ("gate", "version", "count"),
    [
        ("CPUManager: true", (1, 33), 1),
        ("CPUManager: true", (1, 32), 0),
        ("CPUManager: true", None, 0),
        ("MemoryManager: false", (1, 32), 1),
        ("MemoryManager: true", (1, 36), 1),
        ("CPUManagerPolicyOptions: false", (1, 33), 1),
        ("CPUManagerPolicyAlphaOptions: true", (1, 37), 0),
        ("KubeletCgroupDriverFromCRI: false", (1, 33), 0),
        ("KubeletCgroupDriverFromCRI: false", (1, 34), 1),
    ],
)
def test_gates_are_judged_by_the_version(gate: str, version: tuple[int, int] | None, count: int) -> None:
    assert len(problems(settings(f"featureGates: {{{gate}}}"), version)) == count
