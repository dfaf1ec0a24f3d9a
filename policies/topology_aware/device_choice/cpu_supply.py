"""Count the CPUs that each part of the machine could give a container, for the choice of its devices. Pure."""

from dataclasses import dataclass
from typing import Final

from policies.base import CpuKind
from policies.preferences import Threads
from policies.topology_aware.cpus.cores import on_free_cores
from policies.topology_aware.locality.devices import aligned_cpus
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.supply import room_of

MOST_CPUS: Final = 64
"""CPUs that a choice counts: the time of a choice grows with them. Of a larger request, and of what each part of the
machine has for it, the same share is counted."""


@dataclass(frozen=True, slots=True)
class CpuRoom:
    """How many CPUs a choice counts, of how many the container asks for; what each part has of them."""

    count: int
    asked: int
    parts: tuple[int, ...]


def cpu_room(context: PlacementContext, parts: tuple[int, ...]) -> CpuRoom:
    """Return the room for the container's CPUs in each of these parts (masks of CPUs).

    One that owns CPUs counts those; one that shares, what it asks for rounded up, at least one. Where there is not room
    for all of them, as many as there is room for: whether it fits is decided by its placement.
    """
    demand = context.demand
    if demand.kind is CpuKind.PRESERVE:
        return CpuRoom(0, 0, (0,) * len(parts))
    whole = demand.whole if demand.kind is CpuKind.SHARED else 0
    asked = whole or max(1, -(-(demand.shared_mcpu or demand.reserved_mcpu) // 1000))
    if demand.kind is CpuKind.RESERVED:
        has = [(part & context.supply.reserved_set()).bit_count() for part in parts]
    else:
        has = _in_pools(context, parts, _usable(context) & aligned_cpus(context))
    if asked > MOST_CPUS:
        has = [-(-count * MOST_CPUS // asked) for count in has]
    return CpuRoom(min(asked, MOST_CPUS, sum(has)), asked, tuple(has))


def _usable(context: PlacementContext) -> int:
    """Return the CPUs that the container could own, or share."""
    demand, supply = context.demand, context.supply
    if not demand.whole:
        return supply.shared[0]
    isolated = supply.free_isolated(0)
    if demand.isolation is Isolation.REQUIRE:
        return isolated
    if demand.isolation is Isolation.PREFER and isolated.bit_count() >= demand.whole:
        return isolated
    ordinary = supply.shared[0] & ~supply.withheld
    if demand.threads is Threads.ANY:
        return ordinary
    on_cores = on_free_cores(context.tree, ordinary)
    return on_cores if demand.strict_threads or on_cores.bit_count() >= demand.whole else ordinary


def _in_pools(context: PlacementContext, parts: tuple[int, ...], usable: int) -> list[int]:
    """Return how many of these CPUs each part has, no more than the narrowest pool around it can give."""
    tree, whole = context.tree, context.demand.whole
    room = room_of(context.supply, keep_busy=False)
    found = []
    for part in parts:
        cpus = part & usable
        count = cpus.bit_count()
        if cpus & tree.root.sharable:
            around = max((p for p in tree.pools if not part & ~p.hardware), key=lambda p: p.depth, default=tree.root)
            most = room.give[around.index] if whole else room.free_mcpu[around.index] // 1000
            count = min(count, max(most, 0)) if whole or context.demand.shared_mcpu else count
        found.append(count)
    return found
