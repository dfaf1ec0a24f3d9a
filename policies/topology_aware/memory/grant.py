"""Plan a container's memory in the pool that its CPUs are in, beside the others as they move; put it into its grant."""

from dataclasses import replace

from policies.base import Grant, Placed, Reason
from policies.hardware.pools import Pool
from policies.topology_aware.memory.home import local_memory
from policies.topology_aware.memory.plan import MemoryPlan, plan_memory
from policies.topology_aware.memory.spill import spill_reasons, spilling
from policies.topology_aware.supply.context import PlacementContext, with_moved
from sysfs.cpuset import CpuSet, NodeSet


def memory_in(
    context: PlacementContext, pool: Pool, moved: tuple[Grant, ...], owned: CpuSet = CpuSet()
) -> MemoryPlan | Reason:
    """Plan the memory of the container that owns these CPUs of this pool, beside the others as ``moved`` leaves them.

    Return a Reason if a strict preference cannot be met.
    """
    by_container = {g.container: g for g in moved}
    others = [by_container.get(g.container, g) for g in context.others] if moved else context.others
    supply = with_moved(context, moved) if moved else context.supply
    held = context.own.mems if context.own is not None else NodeSet()
    local = local_memory(context.tree.machine, pool, owned, shares=bool(context.demand.shared_mcpu))
    return plan_memory(supply, others, context.request, local, held=held)


def with_memory(context: PlacementContext, grant: Grant, moved: tuple[Grant, ...], memory: MemoryPlan) -> Placed:
    """Return the placement of this grant with its memory, the others that change for it, and the reasons of that."""
    nodes, own = context.supply.memory.nodes, context.own
    grant = replace(grant, mems=memory.mems, is_cold=memory.is_cold)
    # A grant that moves and is widened is in both: the widened one is of the moved one.
    changed = {g.container: g for g in (*moved, *memory.widened)}
    others = tuple(changed[key] for key in sorted(changed))
    held = NodeSet() if own is None else own.spill
    if context.request.memory_limit_bytes is not None and not held:
        return Placed(grant, moved=others, reasons=memory.reasons)
    grant = spilling(nodes, grant, context.options, held)
    return Placed(grant, moved=others, reasons=(*memory.reasons, *spill_reasons(nodes, grant, context.options)))
