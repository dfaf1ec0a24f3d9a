"""Find memory nodes for existing grants: replace lost nodes, drop strict preferences, keep zones, widen for promises.

A grant never loses its CPUs over memory.
"""

from collections.abc import Sequence
from dataclasses import replace

from policies.base import Grant, Request
from policies.topology_aware.memory.home import LocalMemory, after_cold_start, is_ours, local_memory
from policies.topology_aware.memory.plan import MemoryPlan, plan_memory
from policies.topology_aware.memory.widen import widened
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import NodeSet


def missing_nodes(supply: Supply, grant: Grant) -> int:
    """Return the memory nodes of the grant that this machine lacks."""
    return grant.mems.mask & ~supply.memory.nodes.every if is_ours(grant) else 0


def rezoned(supply: Supply, others: Sequence[Grant], grant: Grant) -> tuple[Grant, ...]:
    """Return grants of others that get more nodes, and last this grant with a zone of nodes that exist.

    ``supply`` is that of ``others``. What is left of its zone is kept.
    """
    request, tree = grant.request, supply.tree
    # Its cold start is over: no DRAM is withheld a second time.
    if not grant.is_cold:
        request = replace(request, preferences=replace(request.preferences, cold_start_seconds=0))
    local = local_memory(tree.machine, tree.named(grant.pool), grant.owned, shares=bool(grant.shared_mcpu))
    plan = plan_leniently(supply, others, request, local, held=grant.mems)
    return (*plan.widened, replace(grant, mems=plan.mems, is_cold=plan.is_cold))


def plan_leniently(
    supply: Supply, others: Sequence[Grant], request: Request, local: LocalMemory, *, held: NodeSet = NodeSet()
) -> MemoryPlan:
    """Plan for a container that runs already. A strict preference that would refuse it is dropped."""
    alignment = request.alignment and replace(request.alignment, is_strict=False)
    preferences = replace(request.preferences, strict_memory=False, strict_huge_pages=False)
    # What runs is never refused, whatever a strict preference says of the memory that is left.
    lenient = replace(request, preferences=preferences, alignment=alignment)
    plans = (plan_memory(supply, others, one, local, held=held) for one in (request, lenient))
    every = MemoryPlan(NodeSet(supply.memory.nodes.every))
    return next((plan for plan in plans if isinstance(plan, MemoryPlan)), every)


def keeping_zone(supply: Supply, old: Grant, new: Grant) -> Grant:
    """Return the new grant with the zone of the old one as well, on which the container runs: no page moves."""
    if not is_ours(old) or not is_ours(new):
        return new
    # It has pages in DRAM already: a cold start that is over does not begin again.
    if new.is_cold and not old.is_cold:
        new = after_cold_start(supply, new)
    every = NodeSet(supply.memory.nodes.every)
    return replace(new, mems=new.mems | old.mems & every, spill=new.spill | old.spill & every)


def widened_for_promises(supply: Supply, grants: Sequence[Grant]) -> tuple[Grant, ...]:
    """Return grants that get more nodes because the present zones cannot hold all that is promised."""
    if supply.memory.holds:
        return ()
    zones = widened(supply.memory.nodes, supply.memory.promises)
    return tuple(replace(g, mems=NodeSet(zones[g.container])) for g in grants if g.container in zones)
