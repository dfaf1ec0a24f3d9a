"""An in-place resize of a pod as kubelet 1.35 carries it out, step by step. Pure.

Memory first, then CPU. For each: what grows is written to the pod's cgroup before the containers (limit before
request), what shrinks after them (request before limit); containers that shrink come before those that grow. Every
write of the pod's cgroup is followed by UpdatePodSandboxResources with all figures as they are by then.
Source: KEP-1287, "Container resource limit update ordering".
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from cri_proxy.cri.linux_resources import DEFAULT_PERIOD_US, shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri_client.pods import ContainerRole, ContainerSpec, KubeletNode, PodSpec, cpu_quota, resources
from policies.base import QosClass

Resource = Literal["memory", "cpu"]


@dataclass(frozen=True, slots=True)
class PodFigures:
    """The figures of a pod's cgroup, its overhead included; None = not limited, and not written."""

    cpu_shares: int
    cpu_quota: int | None
    memory_bytes: int | None


@dataclass(frozen=True, slots=True)
class PodCgroupWrite:
    """The kubelet writes one figure to the pod's cgroup, named as in ``PodFigures``, and tells the runtime of all."""

    field: str
    figures: PodFigures


@dataclass(frozen=True, slots=True)
class ContainerUpdate:
    """One UpdateContainerResources."""

    name: str
    resource: Resource
    linux: pb.LinuxContainerResources


def pod_figures(pod: PodSpec) -> PodFigures:
    """Return the figures of a pod's cgroup: a limit only where every container has one (ResourceConfigForPod)."""
    if pod.qos is QosClass.BEST_EFFORT:
        return PodFigures(shares_of(0), None, None)
    counted = [c for c in pod.containers if c.role is not ContainerRole.EPHEMERAL]
    has_cpu_limit = pod.amounts.cpu_limit_mcpu or all(c.cpu_limit_mcpu for c in counted)
    has_memory_limit = pod.amounts.memory_limit_bytes or all(c.memory_limit_bytes for c in counted)
    return PodFigures(
        shares_of(pod.cpu_request_mcpu + pod.overhead_mcpu),
        cpu_quota(pod.cpu_limit_mcpu + pod.overhead_mcpu) if has_cpu_limit else None,
        pod.memory_limit_bytes + pod.overhead_bytes if has_memory_limit else None,
    )


def sandbox_resources(figures: PodFigures, pod: PodSpec) -> pb.LinuxContainerResources:
    """Return the figures as UpdatePodSandboxResources words them: the overhead is told apart."""
    found = pb.LinuxContainerResources()
    request_mcpu = -(-figures.cpu_shares * 1000 // 1024)
    found.cpu_shares = shares_of(request_mcpu - pod.overhead_mcpu)
    if figures.cpu_quota is not None:
        found.cpu_period = DEFAULT_PERIOD_US
        found.cpu_quota = figures.cpu_quota - cpu_quota(pod.overhead_mcpu)
    if figures.memory_bytes is not None:
        found.memory_limit_in_bytes = figures.memory_bytes - pod.overhead_bytes
    return found


def resize_steps(before: PodSpec, after: PodSpec, node: KubeletNode) -> Iterator[PodCgroupWrite | ContainerUpdate]:
    """Yield the kubelet's steps from one pod to the other: the same containers, of other sizes."""
    old, new = pod_figures(before), pod_figures(after)
    pairs = [(a, b) for a, b in zip(before.containers, after.containers, strict=True) if a != b]
    # What every container has of the other resource: a call has all figures, those of memory with the old CPU.
    midway = [(a, replace(b, cpu_request_mcpu=a.cpu_request_mcpu, cpu_limit_mcpu=a.cpu_limit_mcpu)) for a, b in pairs]
    yield from _resized(("memory_bytes",), (old, new), _updates("memory", after, midway, node))
    figures = old if new.memory_bytes is None else replace(old, memory_bytes=new.memory_bytes)
    ends = [(middle, b) for (_, middle), (_, b) in zip(midway, pairs, strict=True)]
    yield from _resized(("cpu_quota", "cpu_shares"), (figures, new), _updates("cpu", after, ends, node))


def _resized(
    fields: tuple[str, ...], change: tuple[PodFigures, PodFigures], updates: Sequence[ContainerUpdate]
) -> Iterator[PodCgroupWrite | ContainerUpdate]:
    """Yield the writes that grow the pod, the updates, and the writes that shrink it; ``fields`` limit first."""
    figures, new = change
    if not updates:
        return

    def written(field: str) -> Iterator[PodCgroupWrite]:
        nonlocal figures
        figures = replace(figures, **{field: getattr(new, field)})
        yield PodCgroupWrite(field, figures)

    def differs(field: str, by: Callable[[int, int], bool]) -> bool:
        now, then = getattr(figures, field), getattr(new, field)
        return then is not None and by(then, now if now is not None else 0)

    for field in fields:
        if differs(field, int.__gt__):
            yield from written(field)
    yield from updates
    for field in reversed(fields):
        if differs(field, int.__lt__):
            yield from written(field)


def _updates(
    resource: Resource, pod: PodSpec, pairs: Sequence[tuple[ContainerSpec, ContainerSpec]], node: KubeletNode
) -> list[ContainerUpdate]:
    """Return the updates of containers whose amount of this resource changes, those that shrink first."""

    def amounts(container: ContainerSpec) -> tuple[int, ...]:
        # A memory request is not enforced: its change alone takes no call.
        if resource == "memory":
            return (container.memory_limit_bytes,)
        return (container.cpu_limit_mcpu, container.effective_cpu_request_mcpu)

    changed = [(a, b) for a, b in pairs if amounts(a) != amounts(b)]
    shrinking = [b for a, b in reversed(changed) if _first_difference(amounts(a), amounts(b)) < 0]
    growing = [b for a, b in changed if _first_difference(amounts(a), amounts(b)) > 0]
    return [ContainerUpdate(b.name, resource, resources(pod, b, node)) for b in (*shrinking, *growing)]


def _first_difference(before: tuple[int, ...], after: tuple[int, ...]) -> int:
    return next((b - a for a, b in zip(before, after, strict=True) if a != b), 0)
