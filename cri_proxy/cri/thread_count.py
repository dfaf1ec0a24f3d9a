"""Find the thread count that fits a container, and the variables of its environment to set to it. Pure.

Libraries that start a thread for each CPU count those of the machine, or of the cpuset at the start; Go and OpenMP read
a variable first. The environment of a container is that of its creation: no resize changes it.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from policies.base import CpuKind, Grant, Pinning, QosClass, ThreadCounts

VARIABLES: Final = (
    *("GOMAXPROCS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("NUMEXPR_NUM_THREADS", "RAYON_NUM_THREADS", "JULIA_NUM_THREADS"),
)
MAX_VARIABLES: Final = 32  # each is looked up and written at every create
# A name as POSIX has it (XBD 8.1), in either case; far longer than any that is read.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)
# What the dynamic loader and shells read: a number there breaks every program of a container.
_LOADED: Final = ("LD_", "PATH", "IFS", "ENV", "BASH_ENV")


def variable_name(text: str) -> str:
    """Return the name of a variable that may be set to a number. Raises ValueError.

    >>> variable_name("GOMAXPROCS")
    'GOMAXPROCS'
    """
    if not _NAME.fullmatch(text):
        raise ValueError(f"expected the name of a variable, letters, digits and _, at most 64, got {text!r:.80}")
    if text.startswith(_LOADED[0]) or text in _LOADED:
        raise ValueError(f"expected a variable that is a number of threads, got {text}")
    return text


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
