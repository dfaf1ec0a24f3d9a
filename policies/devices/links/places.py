"""Where GPUs are, and how near to each other: what decides between sets whose links are worth as much."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policies.devices.links.matrix import MAX_DEVICES, Link, LinkMatrix, PairPoints

_SWITCH: Final = frozenset(("PSB", "PIX"))
_FARTHEST: Final = 255  # of a SLIT
# Each outweighs what all pairs of a machine can have of the next.
_OF_SWITCH: Final = MAX_DEVICES**2 * _FARTHEST
_OF_NODE: Final = MAX_DEVICES**2 * 2 * _OF_SWITCH

NodeDistance = Callable[[int, int], int]
"""The distance of two NUMA nodes as in the kernel's node*/distance: 10 to 255."""


@dataclass(frozen=True, slots=True)
class GpuPlace:
    """The NUMA node of a GPU, and what tells its PCIe switch from others; None where that is not known."""

    node: int | None = None
    switch: object = None


GpuPlaces = Mapping[int, GpuPlace]


def places_of(matrix: LinkMatrix) -> GpuPlaces:
    """Return the places that a matrix tells: the first node of NUMA Affinity, and the NICs on the same switch."""
    found = {}
    for gpu in matrix.gpus:
        links = {nic.name: matrix.links.get((gpu.name, nic.name), Link()) for nic in matrix.nics}
        # The matrix names no switches: the NICs on a switch identify it.
        near = tuple(name for name, link in links.items() if link.pcie in _SWITCH)
        found[gpu.index] = GpuPlace(min(gpu.nodes, default=None), near or None)
    return found


def place_points(places: GpuPlaces, gpus: Sequence[int], distance: NodeDistance | None = None) -> PairPoints:
    """Return how near each two of these GPUs are: the same node before the same switch before the distance of nodes."""

    def points(one: GpuPlace, other: GpuPlace) -> int:
        if one.node is None or other.node is None:
            return 0
        same_switch = one.switch is not None and one.switch == other.switch
        apart = 0 if distance is None or one.node == other.node else distance(one.node, other.node)
        near = _FARTHEST - min(apart, _FARTHEST) if distance is not None else 0
        return _OF_NODE * (one.node == other.node) + _OF_SWITCH * same_switch + near

    known = [places.get(gpu, GpuPlace()) for gpu in gpus]
    return [[0 if i == j else points(one, other) for j, other in enumerate(known)] for i, one in enumerate(known)]


def used_first(places: GpuPlaces, free: Iterable[int]) -> list[int]:
    """Return the free GPUs in the order in which equal ones are given: those on nodes and switches in use."""
    free = set(free)
    taken = [place for gpu, place in places.items() if gpu not in free]
    nodes, switches = {place.node for place in taken}, {place.switch for place in taken}

    def order(gpu: int) -> tuple[bool, bool, int]:
        place = places.get(gpu, GpuPlace())
        is_idle = place.node is not None and place.node not in nodes
        return is_idle, place.switch is not None and place.switch not in switches, gpu

    return sorted(free, key=order)
