"""The kubelet's own reasons to end while it starts, one row each."""

import pytest

from cri_proxy.kubelet.start_rules.problem import StartHost
from cri_proxy.kubelet.start_rules.rules import start_problems
from tests.fakes.kubelet_starts import OPTIONS, STATIC, problems, settings


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
        (
            f'{STATIC}cpuManagerPolicyOptions: {{numa: "true"}}',
            "options that the kubelet does not know",
            "remove cpuManagerPolicyOptions",
        ),
        (
            f'{STATIC}topologyManagerPolicy: single-numa-node\ncpuManagerPolicyOptions: {{align-by-socket: "true"}}',
            "exclude each other: ",
            "remove cpuManagerPolicyOptions",
        ),
        (
            f'{STATIC}cpuManagerPolicyOptions: {{full-pcpus-only: "true", distribute-cpus-across-cores: "true"}}',
            "exclude each other: ",
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
        f"{STATIC}{OPTIONS}\nmemoryManagerPolicy: Static\nreservedMemory: [{{numaNode: 0, limits: {{memory: 100Mi}}}}]",
        'kubeReserved: {cpu: "1"}\nkubeReservedCgroup: /runtime\nenforceNodeAllocatable: [pods, kube-reserved]',
        "cgroupsPerQOS: false\nenforceNodeAllocatable: []",
        "cpuManagerReconcilePeriod: 1m30s",
        "featureGates: {CPUManager: true}",
    ],
)
def test_a_kubelet_that_starts_is_left_alone(text: str) -> None:
    assert problems(settings(text), (1, 30)) == []


@pytest.mark.parametrize(
    ("gate", "version", "count"),
    [
        ("CPUManager: true", (1, 33), 1),
        ("CPUManager: true", (1, 32), 0),
        ("CPUManager: true", None, 0),
        ("MemoryManager: false", (1, 32), 1),
        ("MemoryManager: true", (1, 36), 0),
        ("CPUManagerPolicyOptions: false", (1, 33), 1),
        ("CPUManagerPolicyAlphaOptions: true", (1, 37), 0),
        ("KubeletCgroupDriverFromCRI: false", (1, 33), 0),
        ("KubeletCgroupDriverFromCRI: false", (1, 34), 1),
    ],
)
def test_gates_are_judged_by_the_version(gate: str, version: tuple[int, int] | None, count: int) -> None:
    assert len(problems(settings(f"featureGates: {{{gate}}}"), version)) == count


@pytest.mark.parametrize(
    ("text", "version", "cgroups", "why"),
    [
        ("", (1, 34), 1, ""),
        ("", (1, 35), 1, "kubelet 1.35 takes cgroup v1 with failCgroupV1: false, and this node has cgroup v1"),
        ("", (1, 35), 2, ""),
        ("", None, 1, ""),
        ("failCgroupV1: false", (1, 35), 1, ""),
        ("failCgroupV1: true", None, 1, "/k.yaml sets failCgroupV1: true, which excludes cgroup v1, and this node"),
    ],
)
def test_cgroup_v1_has_to_be_allowed(text: str, version: tuple[int, int] | None, cgroups: int, why: str) -> None:
    found = list(start_problems(settings(text, "--config=/k.yaml"), StartHost(version, cgroups=cgroups)))
    assert [problem.text.startswith(why) for problem in found] == ([True] if why else [])
    assert all(str(edit) == "set failCgroupV1: false in /k.yaml" for each in found for edit in each.edits)
