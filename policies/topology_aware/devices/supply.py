"""Tell how many CPUs, and how much memory, parts of the machine could give a container that gets devices. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

from policies.base import CpuKind
from policies.hardware.pools import memory_at
from policies.preferences import Threads
from policies.topology_aware.cpus.cores import on_free_cores
from policies.topology_aware.locality.devices import aligned_cpus
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.memory_account import promised_bytes, wanted_kinds
from policies.topology_aware.supply.supply import room_of
from sysfs.model import NumaNode

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
    # All or none, as pools offer them.
    if demand.isolation is Isolation.PREFER and isolated.bit_count() >= demand.whole:
        return isolated
    ordinary = supply.shared[0] & ~supply.withheld
    if demand.threads is Threads.ANY:
        return ordinary
    # Whole cores that are only preferred are done without where they are too few.
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
        # Isolated CPUs alone are bounded by no pool: no share runs on them.
        if cpus & tree.root.sharable:
            around = tree.around(part).index
            most = room.give[around] if whole else room.free_mcpu[around] // 1000
            count = min(count, max(most, 0)) if whole or context.demand.shared_mcpu else count
        found.append(count)
    return found


@dataclass(frozen=True, slots=True, order=True)
class Shortage:
    """The CPUs and memory that a set of nodes lacks; the smaller, the better."""

    is_short: bool = False
    cpus: int = 0
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class NodeRoom:
    """The CPUs and bytes of memory that a container asks for, and what each node could give, by node id."""

    cpus: int
    memory_bytes: int
    by_node: dict[int, tuple[int, int]]

    def shortage(self, nodes: int) -> Shortage:
        """Return what these nodes, a mask, lack together; nothing where no node is named."""
        if not nodes:
            return Shortage()
        here = [room for node, room in self.by_node.items() if nodes >> node & 1]
        cpus = max(0, self.cpus - sum(count for count, _ in here))
        memory_bytes = max(0, self.memory_bytes - sum(amount for _, amount in here))
        return Shortage(bool(cpus or memory_bytes), cpus, memory_bytes)


def node_room(context: PlacementContext, nodes: tuple[NumaNode, ...]) -> NodeRoom:
    """Return the room on these nodes. Of more than ``MOST_CPUS`` CPUs that many are counted, as for cost devices.

    Memory is an estimate: a promise lies on the nodes of its zone that have CPUs, as evenly as they are free. CPUs that
    another allocator has chosen are where they are.
    """
    account, request = context.supply.memory, context.request
    if request.claim is not None:
        claimed = tuple(len(node.cpus & request.claim.cpus) for node in nodes)
        has = CpuRoom(len(request.claim.cpus), sum(claimed), claimed)
    else:
        has = cpu_room(context, tuple(node.cpus.mask for node in nodes))
    wanted = promised_bytes(request) if account.nodes.every else 0
    free = account.free_bytes() if wanted else {}
    kinds = account.nodes.of_kinds(wanted_kinds(request))
    by_node = {}
    for node, count in zip(nodes, has.parts, strict=True):
        zone = memory_at(context.tree.machine, node.cpus.mask) & kinds
        by_node[node.id] = (count, sum(amount for at, amount in free.items() if zone >> at & 1))
    return NodeRoom(has.asked if request.claim is not None else min(has.asked, MOST_CPUS), wanted, by_node)


def sets_by_room(
    room: NodeRoom, nodes: Sequence[int], size: int, has_enough: Callable[[int], bool]
) -> list[tuple[Shortage, int]]:
    """Return the sets of so many of these nodes that have enough devices, with what they lack: most room first.

    >>> sets_by_room(NodeRoom(2, 0, {0: (1, 0), 1: (2, 0)}), [0, 1], 1, lambda nodes: True)
    [(Shortage(is_short=False, cpus=0, memory_bytes=0), 2), (Shortage(is_short=True, cpus=1, memory_bytes=0), 1)]
    """
    found = (sum(1 << node for node in some) for some in combinations(nodes, size))
    return sorted((room.shortage(some), some) for some in found if has_enough(some))
