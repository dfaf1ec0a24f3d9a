"""How long a thread waited for a CPU: a daemon that was starved of CPU time was late, and is not stuck."""

from pathlib import Path
from typing import Final

# Time on a CPU, time ready to run without one, time slices; a cgroup's cpu.max counts as waiting (sched-stats.rst).
_SCHEDSTAT: Final = Path("/proc/thread-self/schedstat")
# Half a CPU for the daemon and its runtime: 0.65 to 0.92 of the time. A loop that waits for an answer: next to nothing.
_STARVED_SHARE: Final = 0.5


def waited_seconds() -> float:
    """Return how long this thread has been ready to run without a CPU since its start; 0.0 where that is not known."""
    try:
        return int(_SCHEDSTAT.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0  # built without CONFIG_SCHED_INFO


def is_starved(waited: float, of_seconds: float) -> bool:
    """Return whether a thread that waited for a CPU so long of this time was kept from its work by others."""
    return waited > 0 and waited >= _STARVED_SHARE * of_seconds
