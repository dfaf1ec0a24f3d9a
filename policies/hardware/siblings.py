"""Thread siblings as masks: one thread of each core, for all cores of a set at once."""

from collections.abc import Iterable

Shifts = tuple[tuple[int, int], ...]  # (n, mask of the CPUs that have a sibling n below them), ascending


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
    """Return how far apart siblings are numbered, given the masks of the cores.

    Kernels number regularly, so there are few entries.
    """
    masks: dict[int, int] = {}
    for core in cores:
        rest = core
        while rest:
            low = rest & -rest
            rest ^= low
            higher = rest
            while higher:
                high = higher & -higher
                higher ^= high
                shift = high.bit_length() - low.bit_length()
                masks[shift] = masks.get(shift, 0) | high
    return tuple(sorted(masks.items()))
