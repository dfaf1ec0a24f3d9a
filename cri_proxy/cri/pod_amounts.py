"""Read from a sandbox's figures what its pod asks for as a whole, and what a container of it has of that. Pure.

Sources: KEP-2837, and the kubelet's ``calculateSandboxResources`` (kuberuntime_sandbox_linux.go), ``getCPULimit``,
``getMemoryLimit`` and ``calculateLinuxResources`` (kuberuntime_container_linux.go), restated from their behaviour.
"""

from dataclasses import replace
from typing import Final

from cri_proxy.cri.amounts import Figures
from cri_proxy.cri.linux_resources import MAX_SHARES, MIN_SHARES, mcpu_of_quota, mcpu_of_shares, shares_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import QosClass, Request
from policies.pod_share import PodShare, PodTotals

SHARES_IN_POD: Final = "cpu_shares, as the quota is the pod's"


def pod_totals_of(
    qos: QosClass, pod: pb.LinuxContainerResources, container: pb.LinuxContainerResources, figures: Figures
) -> PodTotals | None:
    """Return the totals of a pod, where its container's figures may be the pod's own (KEP-2837).

    To a container without a limit of its own the kubelet writes the pod's limit, and to one without a request the
    shares of that limit; the sandbox has the pod's request and limits. None where the container lacks a limit that the
    pod has, or the pod's request exceeds its limit: then these are sums over containers. So are those of a pod whose
    containers ask for themselves, and no two of its live containers have all of its sum.
    """
    # Without figures, as from crictl, or with nothing requested, there is nothing to have in common.
    if not pod.cpu_shares or qos is QosClass.BEST_EFFORT:
        return None
    limit_mcpu = mcpu_of_quota(pod.cpu_quota, pod.cpu_period)
    request_mcpu = pod_request_mcpu(qos, pod)
    limit_bytes = pod.memory_limit_in_bytes if pod.memory_limit_in_bytes > 0 else None
    is_of_cpu = _may_inherit(limit_mcpu, figures.cpu_limit_mcpu) and request_mcpu <= (limit_mcpu or request_mcpu)
    is_of_memory = limit_bytes is not None and _may_inherit(limit_bytes, figures.memory_limit_bytes)
    if not is_of_cpu and not is_of_memory:
        return None
    has_no_request = qos is QosClass.GUARANTEED or not figures.memory_request_bytes
    return PodTotals(
        request_mcpu if is_of_cpu else 0,
        limit_mcpu if is_of_cpu else None,
        limit_bytes if is_of_memory else None,
        shares_cpu=is_of_cpu and _shares_cpu(pod, container, limit_mcpu),
        shares_memory=is_of_memory and limit_bytes == figures.memory_limit_bytes and has_no_request,
    )


def resized_totals(share: PodShare, request: Request, pod: pb.LinuxContainerResources) -> PodTotals:
    """Return the totals of a pod after an update of a container that shares with its others.

    The limit of such a container is its pod's, and newer than the sandbox's where both shrink: the kubelet writes what
    shrinks to the containers first (KEP-1287, "Container resource limit update ordering").
    """
    shares_cpu, shares_memory = share.cpu_mcpu is not None, share.memory_bytes is not None
    limit_mcpu = request.cpu_limit_mcpu if shares_cpu else mcpu_of_quota(pod.cpu_quota, pod.cpu_period)
    request_mcpu = pod_request_mcpu(request.pod.qos, pod)
    # The sandbox still has the former request where the limit shrank first; none is above its limit.
    if limit_mcpu is not None and (request.pod.qos is QosClass.GUARANTEED or request_mcpu > limit_mcpu):
        request_mcpu = limit_mcpu
    limit_bytes = request.memory_limit_bytes if shares_memory else pod.memory_limit_in_bytes or None
    return PodTotals(request_mcpu, limit_mcpu, limit_bytes, shares_cpu=shares_cpu, shares_memory=shares_memory)


def _may_inherit(pod_limit: int | None, limit: int | None) -> bool:
    return pod_limit is None or (limit is not None and limit <= pod_limit)


def pod_request_mcpu(qos: QosClass, pod: pb.LinuxContainerResources) -> int:
    """Return the CPU request of a pod as its sandbox has it; 0 where it requests none, or that is not known.

    Shares end at 256 CPUs. Beyond, the quota tells the request of a Guaranteed pod; others may request less than that.
    """
    limit_mcpu = mcpu_of_quota(pod.cpu_quota, pod.cpu_period)
    if qos is QosClass.GUARANTEED and limit_mcpu is not None and pod.cpu_shares == shares_of(limit_mcpu):
        return limit_mcpu
    return mcpu_of_shares(pod.cpu_shares)


def _shares_cpu(pod: pb.LinuxContainerResources, container: pb.LinuxContainerResources, limit_mcpu: int | None) -> bool:
    """Return whether the container's figures are those of the pod's limit.

    A kubelet that enforces no quotas writes shares alone: no container of a sum has more than the sum.
    """
    if limit_mcpu is None:
        return pod.cpu_shares > MIN_SHARES and container.cpu_shares >= pod.cpu_shares
    same_quota = mcpu_of_quota(container.cpu_quota, container.cpu_period) == limit_mcpu
    return same_quota and container.cpu_shares == shares_of(limit_mcpu)


def with_own_request(figures: Figures, totals: PodTotals | None, container: pb.LinuxContainerResources) -> Figures:
    """Return the figures with the container's own CPU request, where its quota is not what it requests.

    The quota of a Guaranteed container is its request, unless the quota is the pod's or the pod's resources are what
    makes it Guaranteed.
    """
    own_mcpu = mcpu_of_shares(container.cpu_shares)
    if totals is None or totals.cpu_limit_mcpu is None or totals.shares_cpu or not container.cpu_shares:
        return figures
    # Saturated shares tell less than the quota does.
    if own_mcpu >= figures.cpu_request_mcpu or container.cpu_shares >= MAX_SHARES:
        return figures
    origins = {**dict(figures.origins), "cpu_request_mcpu": SHARES_IN_POD}
    return replace(figures, cpu_request_mcpu=own_mcpu, origins=tuple(origins.items()))
