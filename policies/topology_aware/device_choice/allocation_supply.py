"""Tell which NUMA nodes have room for the CPUs and memory of a container that gets devices. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

from policies.hardware.pools import memory_at
from policies.topology_aware.device_choice.cpu_supply import MOST_CPUS, CpuRoom, cpu_room
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.memory_account import promised_bytes, wanted_kinds
from sysfs.model import NumaNode


@dataclass(frozen=True, slots=True, order=True)
class Shortage:
    """What a set of nodes has too little of; the smaller, the better."""

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
