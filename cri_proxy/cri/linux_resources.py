"""Convert between pod resources and CRI's LinuxContainerResources (cpu_shares, cpu_quota, oom_score_adj). Pure.

Sources: kubelet's ``MilliCPUToShares`` and ``MilliCPUToQuota`` (pkg/kubelet/cm/helpers_linux.go) and
``GetContainerOOMScoreAdjust`` (pkg/kubelet/qos/policy.go), restated from their documented behaviour.
"""

MIN_SHARES = 2  # what a request of nothing becomes, since the kernel takes no less
MAX_SHARES = 262144  # the kernel's limit: 256 CPUs
DEFAULT_PERIOD_US = 100_000
MIN_QUOTA_US = 1000  # the kernel takes no less
MIN_BURSTABLE_OOM_SCORE_ADJ = 3
MAX_BURSTABLE_OOM_SCORE_ADJ = 999


def shares_of(mcpu: int) -> int:
    """Return the cpu.shares that the kubelet writes for this many milli-CPUs."""
    return min(MAX_SHARES, max(MIN_SHARES, mcpu * 1024 // 1000))


def mcpu_of_shares(shares: int) -> int:
    """Return the CPU request behind cpu.shares; 0 and 2 mean none.

    Exact for what the kubelet writes up to 256 CPUs: no two requests above 2m share a value. A value that it would not
    write (205) gives the nearest request, the maximum gives the least request that saturates.

    >>> [mcpu_of_shares(s) for s in (2, 102, 204, 768, 262144)]
    [0, 100, 200, 750, 256000]
    """
    if shares <= MIN_SHARES:
        return 0
    if shares >= MAX_SHARES:
        return MAX_SHARES * 1000 // 1024
    # Up, as the kubelet rounds down; and of two requests with the same shares this is the least.
    lowest = -(-shares * 1000 // 1024)
    return lowest if shares_of(lowest) == shares else round(shares * 1000 / 1024)


def mcpu_of_quota(quota_us: int, period_us: int) -> int | None:
    """Return the CPU limit behind a CFS quota; None when there is none (0 unset, negative unlimited).

    >>> mcpu_of_quota(250_000, 100_000)
    2500
    """
    if quota_us <= 0:
        return None
    # Up, as the kubelet rounds down (``quota_of``).
    return -(-quota_us * 1000 // (period_us if period_us > 0 else DEFAULT_PERIOD_US))


def quota_of(mcpu: int, period_us: int = DEFAULT_PERIOD_US) -> int:
    """Return the CFS quota that the kubelet writes for this CPU limit, in microseconds.

    >>> quota_of(2500), quota_of(3)
    (250000, 1000)
    """
    return max(MIN_QUOTA_US, mcpu * (period_us if period_us > 0 else DEFAULT_PERIOD_US) // 1000)


def burstable_oom_score_adj(memory_request_bytes: int, node_memory_bytes: int) -> int:
    """Return the oom_score_adj that the kubelet gives a Burstable container with this memory request.

    >>> burstable_oom_score_adj(1 << 30, 10 << 30)
    900
    """
    score = 1000 - 1000 * memory_request_bytes // node_memory_bytes
    return max(MIN_BURSTABLE_OOM_SCORE_ADJ, min(MAX_BURSTABLE_OOM_SCORE_ADJ, score))


def memory_request_of(oom_score_adj: int, node_memory_bytes: int) -> int:
    """Return the least memory request that gives a Burstable container this oom_score_adj; 0 when it is unknown.

    The kubelet's formula is 1000 - 1000 * request / node memory, in whole numbers, cut to 3..999: the answer is exact
    to a thousandth of the node's memory. 999 stands for the smallest requests and for none.
    """
    if not node_memory_bytes or not MIN_BURSTABLE_OOM_SCORE_ADJ <= oom_score_adj < MAX_BURSTABLE_OOM_SCORE_ADJ:
        return 0
    return -(-(1000 - oom_score_adj) * node_memory_bytes // 1000)
