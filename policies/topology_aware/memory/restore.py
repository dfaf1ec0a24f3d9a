"""The zones of saved grants on a machine that may have changed since: what is legal stays, nobody loses its CPUs."""

from collections.abc import Sequence
from dataclasses import replace

from policies.base import Grant, Request
from policies.hardware.pools import Pool
from policies.topology_aware.memory.grants import is_ours, warmed
from policies.topology_aware.memory.plan import MemoryPlan, plan_memory
from policies.topology_aware.memory.widen import widened
from policies.topology_aware.supply.memory_account import promises_of
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import CpuSet, NodeSet


def missing_nodes(supply: Supply, grant: Grant) -> int:
    """The memory nodes of the grant that this machine does not have (any more)."""
    return grant.mems.mask & ~supply.memory.nodes.every if is_ours(grant) else 0


def rezoned_again(supply: Supply, others: Sequence[Grant], grant: Grant) -> tuple[Grant, ...]:
    """The grant with a zone of nodes that are there, and others that get more nodes for it; the grant comes last.

    ``supply`` is that of ``others``. What is left of its zone is kept. A cold start that is over stays over.
    """
    request, pool = grant.request, supply.tree.named(grant.pool)
    if not grant.is_cold:
        request = replace(request, preferences=replace(request.preferences, cold_start_seconds=0))
    plan = plan_leniently(supply, others, request, pool, owned=grant.owned, held=grant.mems)
    return (*plan.widened, replace(grant, mems=plan.mems, is_cold=plan.is_cold))


def plan_leniently(
    supply: Supply, others: Sequence[Grant], request: Request, pool: Pool, *, owned: CpuSet, held: NodeSet = NodeSet()
) -> MemoryPlan:
    """The plan for a container that runs and must be somewhere: where a strict wish would refuse it, without that."""
    plan = plan_memory(supply, others, request, pool, owned=owned, held=held)
    if isinstance(plan, MemoryPlan):
        return plan
    lenient = replace(request, preferences=replace(request.preferences, strict_memory=False))
    found = plan_memory(supply, others, lenient, pool, owned=owned, held=held)
    return found if isinstance(found, MemoryPlan) else MemoryPlan(NodeSet(supply.memory.nodes.every))


def with_zone_of(supply: Supply, old: Grant, new: Grant) -> Grant:
    """The new grant of a container that runs on the old one: its zone has all of the old one's, so no page moves."""
    if not is_ours(old) or not is_ours(new):
        return new
    if new.is_cold and not old.is_cold:
        new = warmed(supply, new)
    return replace(new, mems=new.mems | NodeSet(old.mems.mask & supply.memory.nodes.every))


def widened_for_promises(supply: Supply, grants: Sequence[Grant]) -> tuple[Grant, ...]:
    """Those who get more nodes because the present zones cannot hold all that is promised; mostly nobody."""
    if supply.memory.holds:
        return ()
    zones = widened(supply.memory.nodes, promises_of(supply.memory.nodes, grants))
    return tuple(replace(g, mems=NodeSet(zones[g.container])) for g in grants if g.container in zones)
