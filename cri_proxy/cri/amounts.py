"""Compute a container's CPU, memory and huge page figures from CRI's linux fields, and which field gave each. Pure."""

import re
from dataclasses import dataclass
from typing import Final

from cri_proxy.cri.linux_resources import MIN_QUOTA_US, mcpu_of_quota, mcpu_of_shares, memory_request_of
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import HugePageLimit, QosClass

SHARES = "cpu_shares"
QUOTA = "cpu_quota, cpu_period"
MEMORY_LIMIT = "memory_limit_in_bytes"
OOM_SCORE_ADJ = "oom_score_adj"
HUGE_PAGES = "hugepage_limits"
# A kernel has at most four sizes of huge pages; each is planned when a container is created.
MAX_PAGE_SIZES: Final = 8
# Far above any machine's memory: what is not below it is no limit.
_UNLIMITED_BYTES: Final = 1 << 60

# As libcontainer and the kubelet write the size of a page: in units of 1024 (HugePageUnitSizeFromByteSize).
_PAGE_SIZE: Final = re.compile(r"([1-9][0-9]{0,9})([KMGTP]?)B", re.ASCII)


@dataclass(frozen=True, slots=True)
class Figures:
    """Requests and limits (None = no limit); ``origins`` are (field of ``Request``, CRI field) of each known one."""

    cpu_request_mcpu: int
    cpu_limit_mcpu: int | None
    memory_request_bytes: int
    memory_limit_bytes: int | None
    origins: tuple[tuple[str, str], ...] = ()
    huge_pages: tuple[HugePageLimit, ...] = ()


def figures_of(qos: QosClass, resources: pb.LinuxContainerResources, node_memory_bytes: int) -> Figures:
    """Return the figures behind these fields; ``node_memory_bytes`` 0: Burstable memory requests are not estimated."""
    cpu_request_mcpu, cpu_origin = _cpu_request(qos, resources)
    limit_mcpu = mcpu_of_quota(resources.cpu_quota, resources.cpu_period)
    limit_bytes = resources.memory_limit_in_bytes if resources.memory_limit_in_bytes > 0 else None
    memory_request_bytes, memory_origin = _memory_request(qos, resources, limit_bytes, node_memory_bytes)
    origins = [("cpu_request_mcpu", cpu_origin), ("memory_request_bytes", memory_origin)]
    origins += [("cpu_limit_mcpu", QUOTA)] if limit_mcpu is not None else []
    origins += [("memory_limit_bytes", MEMORY_LIMIT)] if limit_bytes is not None else []
    huge_pages = _huge_pages(resources)
    origins += [("huge_pages", HUGE_PAGES)] if huge_pages else []
    return Figures(cpu_request_mcpu, limit_mcpu, memory_request_bytes, limit_bytes, tuple(origins), huge_pages)


def page_bytes_of(text: str) -> int:
    """Return the bytes of a page size in CRI's words; 0 for anything else.

    >>> page_bytes_of("2MB") >> 20, page_bytes_of("1GB") >> 20, page_bytes_of("2Mi")
    (2, 1024, 0)
    """
    match = _PAGE_SIZE.fullmatch(text)
    return int(match[1]) << 10 * " KMGTP".index(match[2] or " ") if match else 0


def _huge_pages(resources: pb.LinuxContainerResources) -> tuple[HugePageLimit, ...]:
    """Return the limits by ascending size; the kubelet sends 0 for each size that the container did not ask for."""
    limits = {
        size: each.limit
        for each in resources.hugepage_limits
        if 0 < each.limit < _UNLIMITED_BYTES and (size := page_bytes_of(each.page_size))
    }
    return tuple(HugePageLimit(size, limits[size]) for size in sorted(limits)[:MAX_PAGE_SIZES])


def _cpu_request(qos: QosClass, resources: pb.LinuxContainerResources) -> tuple[int, str]:
    """Return the CPU request and its field."""
    by_shares = mcpu_of_shares(resources.cpu_shares)
    by_quota = mcpu_of_quota(resources.cpu_quota, resources.cpu_period)
    if qos is not QosClass.GUARANTEED or by_quota is None:
        return by_shares, SHARES
    # The quota of a Guaranteed container is exact, and shares end at 256 CPUs. But no quota is below 1 ms.
    if resources.cpu_quota <= MIN_QUOTA_US and resources.cpu_shares and by_shares < by_quota:
        return by_shares, SHARES
    return by_quota, QUOTA


def _memory_request(
    qos: QosClass, resources: pb.LinuxContainerResources, limit_bytes: int | None, node_memory_bytes: int
) -> tuple[int, str]:
    if qos is QosClass.GUARANTEED:
        return limit_bytes or 0, MEMORY_LIMIT
    if qos is QosClass.BEST_EFFORT:
        return 0, "QoS class"
    estimated_bytes = memory_request_of(resources.oom_score_adj, node_memory_bytes)
    # The estimate is as coarse as the score, a thousandth of the node's memory; no request exceeds its limit.
    return min(estimated_bytes, limit_bytes or estimated_bytes), OOM_SCORE_ADJ
