"""Find the most CPUs that a container could own, per NUMA node: with others where they are, and if sharers may move.

The figures are those by which the passes of a placement decide (``place``): ``decide`` grants so many, and no more.
"""

from dataclasses import replace

from policies.alignment import TopologyPolicy
from policies.answers import LargestFit, NodeFit
from policies.base import ContainerKey, CpuKind, Grant, Pod, QosClass, Request
from policies.preferences import Preferences, Threads
from policies.topology_aware.cpus.offer import on_whole_cores
from policies.topology_aware.migration import with_shares_in_root
from policies.topology_aware.supply.context import PlacementContext, with_moved
from policies.topology_aware.supply.demand import has_overflowed
from policies.topology_aware.supply.supply import room_of

_POD = Pod("", "", "", QosClass.GUARANTEED)
ASKING = Request(
    ContainerKey("", ""),
    _POD,
    cpu_request_mcpu=1000,
    preferences=Preferences(prefer_isolated=False, prefer_shared=False, prefer_reserved=False),
)
"""A container that owns CPUs under all options."""


def largest_fit(context: PlacementContext) -> LargestFit:
    """Return the fits for a container like that of ``context``, of any number of whole CPUs.

    A NUMA node that is no pool of its own is left out.
    """
    tree = context.tree
    stay, move = _ownable(context), _ownable(with_room_made(context))
    nodes = []
    for node in tree.machine.nodes:
        pool = tree.around(node.cpus.mask) if node.cpus else None
        if pool is not None and pool.hardware == node.cpus.mask:
            nodes.append(NodeFit(node.id, stay[pool.index], move[pool.index]))
    policy = context.options.topology.policy
    fits = [(fit.cpus, fit.cpus_with_moves) for fit in nodes]
    # Across NUMA nodes only where neither an option nor a topology policy refuses that.
    if not context.demand.single_node and policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        fits.append((stay[0], move[0]))
    return LargestFit(
        free_cpus=stay[0],
        free_isolated=context.supply.free_isolated(0).bit_count(),
        cpus=max((alone for alone, _ in fits), default=0),
        cpus_with_moves=max((moved for _, moved in fits), default=0),
        nodes=tuple(nodes),
    )


def _ownable(context: PlacementContext) -> list[int]:
    """Return how many CPUs of each pool one container could own: the pools above it bound that too."""
    room = room_of(context.supply, keep_busy=False)
    needs_cores = context.demand.threads is not Threads.ANY and context.demand.strict_threads
    give = on_whole_cores(context, room) if needs_cores else room.give
    bounds = zip(give, room.free_mcpu, room.spare, strict=True)
    step = context.tree.threads_per_core if needs_cores else 1
    return [max(0, min(most, free // 1000, spare)) // step * step for most, free, spare in bounds]


def with_room_made(context: PlacementContext) -> PlacementContext:
    """Return the context as if all that overflowed were on the reserved CPUs again, and all shares in the root."""
    back = {grant.container: _on_reserved(grant) for grant in context.others if has_overflowed(grant)}
    if back:
        others = tuple(back.get(grant.container, grant) for grant in context.others)
        context = replace(context, supply=with_moved(context, tuple(back.values())), others=others)
    return with_shares_in_root(context)


def _on_reserved(grant: Grant) -> Grant:
    return replace(grant, kind=CpuKind.RESERVED, shared_mcpu=0)
