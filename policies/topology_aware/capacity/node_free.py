"""Find what each NUMA node could still give to one Guaranteed container: CPUs, memory, huge pages. Pure.

Schedulers compare the figures with requests, a NUMA node and a resource at a time. Within one node a topology policy
that refuses (``alignment``) admits up to these figures, and no more.
"""

from policies.answers import FreeOnNode
from policies.hardware.pools import memory_at
from policies.topology_aware.alignment.offers import MOST_TRIED, cpu_nodes
from policies.topology_aware.capacity.largest_fit import largest_fit, with_room_made
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.memory_nodes import DEFAULT_KINDS
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import NodeSet


def node_free(context: PlacementContext) -> tuple[FreeOnNode, ...]:
    """Return what is free on each node with CPUs, by id, for a container like that of ``context``."""
    tree, account = context.tree, context.supply.memory
    ownable = {fit.node: fit.cpus_with_moves for fit in largest_fit(context).nodes}
    room, kinds = room_of(with_room_made(context).supply, keep_busy=False), account.nodes.of_kinds(DEFAULT_KINDS)
    isolated = context.supply.free_isolated(0) if context.options.prefer_isolated else 0
    nodes, found = cpu_nodes(tree.machine), []
    # Of many nodes hints count what is estimated to be left.
    left = account.free_bytes() if len(nodes) > MOST_TRIED else account.nodes.capacity_bytes
    for node in nodes:
        zone = memory_at(tree.machine, node.cpus.mask) & account.nodes.every
        pool = tree.by_hardware.get(node.cpus.mask)
        shared_mcpu = max(0, room.free_mcpu[pool]) if pool is not None else 0
        cpu_mcpu = _figure(ownable.get(node.id, 0), shared_mcpu)
        if isolated & node.cpus.mask:  # a container of just one CPU prefers an isolated one
            cpu_mcpu = max(cpu_mcpu, 1000)
        pages = tuple((size, account.huge_pages.most(size, zone)) for size in sorted(account.huge_pages.pools))
        memory_bytes = max(0, min(account.most(zone & kinds), sum(left[n] for n in NodeSet(zone & kinds))))
        found.append(FreeOnNode(node.id, NodeSet(zone), cpu_mcpu, memory_bytes, pages))
    return tuple(found)


def _figure(whole: int, shared_mcpu: int) -> int:
    """Return the one figure that admits owners of up to so many CPUs, no larger one, and as many sharers as it can.

    >>> _figure(3, 3500), _figure(3, 2500), _figure(3, 9000)
    (3500, 3000, 3999)
    """
    return max(1000 * whole, min(shared_mcpu, 1000 * whole + 999))
