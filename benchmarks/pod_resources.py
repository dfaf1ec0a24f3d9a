"""How long an answer of the pod resources socket takes. Run: python benchmarks/pod_resources.py [ROUNDS].

A node of 500 pods with two containers each, half of which own CPUs: the kubelet's list is read, completed and written.
Prints the median of CPU time, and its ratio to a fixed pure-Python loop of the same process: of an answer while nothing
changes, and of the first one after a change, for which the grants are indexed.
"""

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.decision import reference_seconds
from cri_proxy.kubelet.lister.answers import NodeGrants
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.state.rows import Row
from policies.base import ContainerKey, CpuKind, Grant, Pod, QosClass, Request
from policies.builder import build_policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.descriptions.machine import describe

PODS = 500
BAR_MS = 5.0


def grants() -> Iterator[Grant]:
    """Yield two grants a pod: one that owns two CPUs, one that shares."""
    for number in range(PODS):
        pod = Pod(f"uid-{number}", f"pod-{number}", "default", QosClass.GUARANTEED)
        base = Request(ContainerKey(pod.uid, "app"), pod, 2000, 2000, 1 << 30, 1 << 30)
        mems = NodeSet.of((number % 4,))
        owned = CpuSet.of((2 * number % 1024, 2 * number % 1024 + 1))
        yield Grant(base, "root", CpuKind.EXCLUSIVE, owned, mems=mems)
        sidecar = replace(base, container=ContainerKey(pod.uid, "proxy"), cpu_request_mcpu=100)
        yield Grant(sidecar, "root", CpuKind.SHARED, shared_mcpu=100, mems=mems)


def kubelet_list() -> bytes:
    """Return what the kubelet answers, with a device in each first container."""
    answer = pb.ListPodResourcesResponse()
    for number in range(PODS):
        pod = answer.pod_resources.add(name=f"pod-{number}", namespace="default")
        app = pod.containers.add(name="app")
        app.devices.add(resource_name="example.com/nic", device_ids=[f"eth{number}"])
        pod.containers.add(name="proxy")
    return answer.SerializeToString()


def answered(granted: Callable[[], NodeGrants], listed: bytes) -> int:
    """Answer List once and return the bytes of the answer."""
    answer = pb.ListPodResourcesResponse.FromString(listed)
    granted().add_to_pods(answer.pod_resources)
    return len(answer.SerializeToString())


def measured(granted: Callable[[], NodeGrants], listed: bytes, rounds: int) -> float:
    """Return the median of CPU seconds."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        answered(granted, listed)
        times.append(time.process_time() - begun)
    return median(times)


_MACHINE = describe({"packages": 2, "nodes": 2, "cores": 256, "memory": "256Gi"})
_POLICY = build_policy("topology-aware", _MACHINE, TopologyAwareOptions(_MACHINE.online, CpuSet()))


def main() -> int:
    """Measure and print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    held = tuple(Row(grant, "sandbox", "id", "running", None, order) for order, grant in enumerate(grants()))
    listed, reference = kubelet_list(), reference_seconds()
    indexed = NodeGrants.of(_POLICY, held)
    found = measured(lambda: indexed, listed, rounds)
    first = measured(lambda: NodeGrants.of(_POLICY, held), listed, rounds)
    print(f"List of {PODS} pods: {found * 1e3:.2f} ms (bar {BAR_MS:g}), {found / reference:.2f} of the reference loop")
    print(f"after a change: {first * 1e3:.2f} ms, {first / reference:.2f} of the reference loop")
    print(f"{len(listed)} bytes of the kubelet, {answered(lambda: indexed, listed)} answered")
    return int(max(found, first) * 1e3 > BAR_MS)


if __name__ == "__main__":
    raise SystemExit(main())
