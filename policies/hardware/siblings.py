"""Thread siblings by mask arithmetic: one thread per core, the siblings of a CPU set, the table of shifts for both."""

from collections.abc import Iterable
from itertools import combinations

from sysfs.cpuset import CpuSet

Shifts = tuple[tuple[int, int], ...]  # (n, mask of the CPUs that have a sibling n below them)


def one_thread_per_core(shifts: Shifts, cpus: int) -> int:
    """Return the lowest of the CPUs of each core; never empty unless ``cpus`` is."""
    hidden = 0
    for shift, siblings in shifts:
        hidden |= cpus << shift & siblings
    return cpus & ~hidden


def siblings_of(shifts: Shifts, cpus: int) -> int:
    """Return the other threads of the cores of these CPUs."""
    found = 0
    for shift, siblings in shifts:
        found |= cpus << shift & siblings | (cpus & siblings) >> shift
    return found


def sibling_shifts(cores: Iterable[int]) -> Shifts:
    """Return how far apart siblings are numbered, given the masks of the cores: few entries, as kernels are regular."""
    masks: dict[int, int] = {}
    for core in cores:
        for low, high in combinations(CpuSet(core), 2):
            masks[high - low] = masks.get(high - low, 0) | 1 << high
    return tuple(masks.items())
