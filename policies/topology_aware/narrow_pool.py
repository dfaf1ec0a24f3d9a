"""Find owners of CPUs whose pool is wider than their CPUs, as resizes and lifts leave it; and the one that suits them.

The pool decides which memory nodes are home (docs/placement.md, Memory). Their CPUs stay as they are.
"""

from collections.abc import Iterator
from dataclasses import replace

from policies.base import Allocations, CpuKind, Grant
from policies.hardware.pools import Pool
from policies.preferences import CpuPriority
from policies.topology_aware.memory.home import home_zone
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.ranking import fixed_scores_of, rank
from policies.topology_aware.supply.context import context_of
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.memory_account import promised_bytes
from policies.topology_aware.supply.supply import Supply, room_of

# Rankings of one call, which may run on the event loop: each takes about half as long as a decision.
RANKED = 8


def in_narrower_pools(options: TopologyAwareOptions, held: Allocations, supply: Supply) -> tuple[Grant, ...]:
    """Return few grants in a narrower pool that has all of their own CPUs; their memory nodes are for the caller.

    A container that was never resized or created again, and shares no CPU with which it could have been lifted, is in
    the pool that a fresh decision chose: it is not looked at.
    """
    candidates = [g for g in held.grants if g.owned and _may_be_elsewhere(g) and _would_narrow(supply, g)]
    candidates.sort(key=lambda g: (promised_bytes(g.request), g.container))
    found = []
    for grant in candidates[:RANKED]:
        narrow = _in_best_pool(options, held, supply, grant)
        after = supply.minus(grant).plus(narrow) if narrow is not None else supply
        # It may keep more CPUs than a fresh decision counts, as after a change of options: its share needs room.
        if narrow is not None and after.holds():
            found.append(narrow)
            # Its share is booked in the narrower pool, where the next one is not to count on it.
            held, supply = held.with_grants(narrow), after
    return tuple(found)


def _may_be_elsewhere(grant: Grant) -> bool:
    return grant.request.previous is not None or grant.kind is CpuKind.MIXED


def _would_narrow(supply: Supply, grant: Grant) -> bool:
    """Return whether the narrowest pool with its CPUs leaves it fewer memory nodes than it has."""
    narrowest = _pools_with(supply, grant)[-1]
    home = home_zone(supply, replace(grant, pool=narrowest.name))
    return narrowest.name != grant.pool and bool(home) and bool(grant.mems.mask & ~home)


def _pools_with(supply: Supply, grant: Grant) -> tuple[Pool, ...]:
    """Return its pool and those below that have all of its own CPUs, the widest first."""
    return tuple(_downwards(supply, supply.tree.named(grant.pool), grant.owned.mask))


def _downwards(supply: Supply, pool: Pool, owned: int) -> Iterator[Pool]:
    yield pool
    for child in pool.children:
        if not owned & ~supply.tree.pools[child].cpus:
            yield from _downwards(supply, supply.tree.pools[child], owned)


def _in_best_pool(options: TopologyAwareOptions, held: Allocations, supply: Supply, grant: Grant) -> Grant | None:
    """Return the grant in the pool that ranks first among those with its CPUs; None where that is its own."""
    context = context_of(options, held, supply, replace(grant.request, previous=None))
    # What other CPUs a pool could give does not matter: it keeps those that it has.
    demand = replace(context.demand, priority=CpuPriority.NONE)
    if not grant.isolated:
        demand = replace(demand, isolation=Isolation.NO)
    context = replace(context, demand=demand)
    room = room_of(context.supply, keep_busy=False)
    keys = rank(context, fixed_scores_of(context), room, room).keys
    best = max(_pools_with(supply, grant), key=lambda pool: keys[pool.index])
    return replace(grant, pool=best.name) if keys[best.index].fits and best.name != grant.pool else None
