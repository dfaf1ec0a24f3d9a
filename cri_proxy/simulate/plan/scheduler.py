"""Choose nodes for pods as Kubernetes' default scheduler: what fits by requests, then the emptiest or fullest. Pure.

Source: kubernetes.io, "Scheduling Framework" and the plugin NodeResourcesFit (LeastAllocated, MostAllocated with equal
weights of CPU and memory; a container without a request counts as 100m and 200Mi in scores, as nothing in what fits).
Taints, selectors, affinities of pods and topology spread are not looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from cri_proxy.cri_client.pods import ContainerRole, PodSpec
from sysfs.model import Machine

Strategy = Literal["spread", "pack"]
PODS_PER_NODE: Final = 110
"""The kubelet's default maxPods."""
EVICTION_BYTES: Final = 100 << 20
"""The kubelet's default evictionHard memory.available, which is no part of what pods can be given."""
_SCORED_MCPU: Final = 100
_SCORED_BYTES: Final = 200 << 20


@dataclass(frozen=True, slots=True)
class PodRequests:
    """CPU in thousandths, and bytes of memory."""

    mcpu: int = 0
    memory_bytes: int = 0

    def plus(self, other: "PodRequests") -> "PodRequests":
        """Return the sum."""
        return PodRequests(self.mcpu + other.mcpu, self.memory_bytes + other.memory_bytes)


@dataclass(slots=True)
class NodeLoad:
    """A node as the scheduler sees it. ``allocatable`` is what the kubelet reports, the others what pods request."""

    name: str
    allocatable: PodRequests
    requested: PodRequests = PodRequests()
    scored: PodRequests = PodRequests()
    pods: int = 0
    by_workload: dict[str, int] = field(default_factory=dict)

    def add(self, pod: PodSpec, workload: str) -> None:
        """Count a pod that is bound to this node."""
        self.requested = self.requested.plus(requested_by(pod))
        self.scored = self.scored.plus(_scored(pod))
        self.pods += 1
        self.by_workload[workload] = self.by_workload.get(workload, 0) + 1


def allocatable_of(machine: Machine, reserved_mcpu: int) -> PodRequests:
    """Return what a kubelet with this reservation reports: capacity, less the reservation and eviction threshold."""
    memory = sum(node.memory_bytes - node.reserved_bytes for node in machine.nodes)
    return PodRequests(max(0, 1000 * len(machine.online) - reserved_mcpu), max(0, memory - EVICTION_BYTES))


def requested_by(pod: PodSpec) -> PodRequests:
    """Return what the scheduler counts for a pod, its overhead included."""
    return PodRequests(pod.cpu_request_mcpu + pod.overhead_mcpu, pod.memory_request_bytes + pod.overhead_bytes)


def _scored(pod: PodSpec) -> PodRequests:
    asked = requested_by(pod)
    lasting = [c for c in pod.containers if c.role not in (ContainerRole.INIT, ContainerRole.EPHEMERAL)]
    mcpu = sum(_SCORED_MCPU for c in lasting if not c.effective_cpu_request_mcpu)
    size = sum(_SCORED_BYTES for c in lasting if not c.effective_memory_request_bytes)
    return asked.plus(PodRequests(mcpu, size))


def choose_node(nodes: Sequence[NodeLoad], pod: PodSpec, workload: str, strategy: Strategy) -> int | str:
    """Return the index of the node for this pod; or, in the scheduler's words, why there is none.

    Of equal ones the scheduler takes any; here it is the one with the fewest pods of the workload, then the first.
    """
    asked, scored = requested_by(pod), _scored(pod)
    lacks = [_lacks(node, asked) for node in nodes]
    fitting = [index for index, lack in enumerate(lacks) if not lack]
    if not fitting:
        reasons = [reason for lack in lacks for reason in lack]
        counted = [f"{reasons.count(reason)} {reason}" for reason in sorted(set(reasons))]
        return f"0/{len(nodes)} nodes are available: {', '.join(counted)}"
    return max(
        fitting,
        key=lambda i: (_score(nodes[i], scored, strategy), -nodes[i].by_workload.get(workload, 0), -i),
    )


def _lacks(node: NodeLoad, asked: PodRequests) -> list[str]:
    lacks = []
    # As in NodeResourcesFit, a resource that the pod does not request is not compared, be the node full.
    if asked.mcpu and node.requested.mcpu + asked.mcpu > node.allocatable.mcpu:
        lacks.append("Insufficient cpu")
    if asked.memory_bytes and node.requested.memory_bytes + asked.memory_bytes > node.allocatable.memory_bytes:
        lacks.append("Insufficient memory")
    if node.pods >= PODS_PER_NODE:
        lacks.append("Too many pods")
    return lacks


def _score(node: NodeLoad, asked: PodRequests, strategy: Strategy) -> int:
    """Return 0 to 100, the mean of CPU and memory, each rounded down as the scheduler does."""
    after = node.scored.plus(asked)
    scores = []
    for used, most in (
        (after.mcpu, node.allocatable.mcpu),
        (after.memory_bytes, node.allocatable.memory_bytes),
    ):
        bounded = min(used, most)
        taken = bounded if strategy == "pack" else most - bounded
        scores.append(taken * 100 // most if most else 0)
    return sum(scores) // len(scores)
