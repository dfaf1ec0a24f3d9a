"""A machine's memory nodes by kind and distance: capacity, nearest nodes, nodes by distance. Sets are masks."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from sysfs.model import UNKNOWN_DISTANCE, Machine, MemoryKind

# The order in which other kinds are added where those that were asked for run out.
KINDS = (MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM)
# What a container gets that names no kind. HBM is scarce: only a container that asks for it gets it.
DEFAULT_KINDS = (MemoryKind.DRAM, MemoryKind.PMEM)


@lru_cache(maxsize=512)  # a decision lays the same few zones out again and again
def node_ids(mask: int) -> tuple[int, ...]:
    """Return the nodes of a mask, lowest first.

    >>> node_ids(0b1010)
    (1, 3)
    """
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


@dataclass(frozen=True, slots=True)
class MemoryNodes:
    """The nodes that have memory.

    ``normal`` are those that are not movable-only: the kernel's own objects for a container must have one of them
    (Documentation/admin-guide/mm/memory-hotplug.rst). ``local`` are those with CPUs. ``near`` has for each node all
    nodes by growing distance, those at the same distance as one mask.
    """

    every: int
    normal: int
    local: int
    dram: int
    pmem: int
    hbm: int
    capacity_bytes: Mapping[int, int]
    near: Mapping[int, tuple[tuple[int, int], ...]]

    def of_kind(self, kind: MemoryKind) -> int:
        """Return the nodes of one kind."""
        match kind:
            case MemoryKind.DRAM:
                return self.dram
            case MemoryKind.PMEM:
                return self.pmem
            case MemoryKind.HBM:
                return self.hbm

    def of_kinds(self, kinds: Iterable[MemoryKind]) -> int:
        """Return the nodes of any of these kinds."""
        mask = 0
        for kind in kinds:
            mask |= self.of_kind(kind)
        return mask

    def kinds_in(self, zone: int) -> tuple[MemoryKind, ...]:
        """Return the kinds of memory in a zone, DRAM first."""
        return tuple(kind for kind in KINDS if zone & self.of_kind(kind))

    def capacity(self, zone: int) -> int:
        """Return the bytes of a zone."""
        return sum(map(self.capacity_bytes.__getitem__, node_ids(zone & self.every)))

    def nearest(self, zone: int, wanted: int) -> int:
        """Return the wanted nodes outside the zone that are closest to any node of it; 0 = none."""
        found, least = 0, UNKNOWN_DISTANCE
        wanted &= self.every & ~zone
        for node in node_ids(zone & self.every) if wanted else ():
            for distance, group in self.near[node]:
                if distance > least:
                    break
                if group & wanted:
                    found = group & wanted | (found if distance == least else 0)
                    least = distance
                    break
        return found

    def by_distance(self, zone: int, wanted: int, order: Callable[[int], tuple[int, ...]]) -> list[int]:
        """Return the wanted nodes outside the zone, those closest to any node of it first, equals by ``order``."""
        least: dict[int, int] = {}
        wanted &= self.every & ~zone
        for node in node_ids(zone & self.every):
            for distance, group in self.near[node]:
                for other in node_ids(group & wanted):
                    least[other] = min(distance, least.get(other, UNKNOWN_DISTANCE))
        return sorted(least, key=lambda node: (least[node], order(node), node))


def memory_nodes_of(machine: Machine) -> MemoryNodes:
    """Return the memory of this machine."""
    nodes = [n for n in machine.nodes if n.memory_bytes]
    near = {}
    for node in nodes:
        distances = dict(node.distances)
        groups: dict[int, int] = {}
        for other in nodes:
            distance = distances.get(other.id, UNKNOWN_DISTANCE)
            groups[distance] = groups.get(distance, 0) | 1 << other.id
        near[node.id] = tuple(sorted(groups.items()))
    kinds = {kind: sum(1 << n.id for n in nodes if n.kind is kind) for kind in KINDS}
    return MemoryNodes(
        every=sum(1 << n.id for n in nodes),
        normal=sum(1 << n.id for n in nodes if n.is_normal_memory),
        local=sum(1 << n.id for n in nodes if n.cpus),
        dram=kinds[MemoryKind.DRAM],
        pmem=kinds[MemoryKind.PMEM],
        hbm=kinds[MemoryKind.HBM],
        # Huge pages, free or not, are no room for other memory; nor is what is reserved for the system.
        capacity_bytes=MappingProxyType({n.id: n.ordinary_bytes for n in nodes}),
        near=MappingProxyType(near),
    )
