"""Find the thread count that fits a container, and the variables of its environment to set to it. Pure.

Libraries that start a thread for each CPU count those of the machine, or of the cpuset at the start; Go and OpenMP read
a variable first. The environment of a container is that of its creation: no resize changes it.
"""

from collections.abc import Iterable, Sequence

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import CpuKind, Grant, Pinning, QosClass
from policies.preferences import ThreadCounts


def thread_count(grant: Grant, pinning: Pinning, source: ThreadCounts) -> int:
    """Return the thread count for a container with this grant; 0 = none is to be set.

    Of CPUs that it has alone those count on which it may run: ``hide`` leaves one thread of each core.
    """
    request = grant.request
    owned = grant.owned if pinning.cpus is None else grant.owned & pinning.cpus
    match source:
        case ThreadCounts.OWNED:
            return len(owned)
        case ThreadCounts.REQUEST if grant.kind in (CpuKind.EXCLUSIVE, CpuKind.ISOLATED):
            return len(owned)  # whole cores may be more than it asked for
        case ThreadCounts.REQUEST if request.pod.qos is not QosClass.BEST_EFFORT:
            return -(-request.cpu_request_mcpu // 1000)
        case _:
            return 0


def variables_to_set(envs: Iterable[pb.KeyValue], names: Sequence[str], count: int) -> tuple[tuple[str, str], ...]:
    """Return the variables to add to a container's own; none of those that it has, whatever their value.

    >>> variables_to_set([pb.KeyValue(key="GOMAXPROCS", value=b"1")], ["GOMAXPROCS", "OMP_NUM_THREADS"], 4)
    (('OMP_NUM_THREADS', '4'),)
    """
    own = {env.key for env in envs} if count else set()
    return tuple((name, str(count)) for name in dict.fromkeys(names) if name not in own) if count else ()
