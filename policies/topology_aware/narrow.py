"""Narrow what is wider than it need be: pools of owners whose CPUs lie in narrower ones, then memory zones.

The pool decides which memory nodes are home (docs/placement.md, Memory), so owners that resizes or lifts have left in a
wide one go to the narrowest that suits them first. Their CPUs stay as they are. Narrowing a zone moves pages, which
takes seconds per gigabyte (cpuset.mems in Documentation/admin-guide/cgroup-v2.rst): the fewest bytes move first. Where
promises cannot be kept now, containers that share too few nodes are widened instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from policies.base import Allocations, CpuKind, Grant
from policies.hardware.pools import Pool
from policies.preferences import CpuPriority
from policies.topology_aware.keys.pool_keys import FixedScores
from policies.topology_aware.memory.home import Homes, home_zone, is_ours
from policies.topology_aware.memory.reinstate import widened_for_promises
from policies.topology_aware.memory.spill import respilled
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.ranking import rank
from policies.topology_aware.supply.context import context_of
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.memory_account import MemoryAccount, promise_of, promised_bytes
from policies.topology_aware.supply.memory_nodes import MemoryNodes
from policies.topology_aware.supply.memory_packing import promised_inside
from policies.topology_aware.supply.supply import Supply, room_of, updated_supply
from sysfs.cpuset import NodeSet

NARROWINGS = 4  # the most moves of one call
# Rankings of one call, which may run on the event loop: each takes about half as long as a decision.
RANKED = 8


def narrowed(options: TopologyAwareOptions, held: Allocations, supply: Supply) -> tuple[Grant, ...]:
    """Return grants that can give memory nodes back, as they are afterwards: a bounded number, best first.

    Then those that spill as a former option or version said.
    """
    after = held
    if supply.memory.holds:  # else containers need more nodes, whatever their pool
        after = held.with_grants(*_in_narrower_pools(options, held, supply))
    found = with_fewer_nodes(updated_supply(supply, held.grants, after.grants), after.grants)
    changed = {grant.container for grant in found}
    others = (grant for grant in held.grants if grant.container not in changed)
    return (*found, *islice(respilled(supply.memory.nodes, others, options), max(0, NARROWINGS - len(found))))


def _in_narrower_pools(options: TopologyAwareOptions, held: Allocations, supply: Supply) -> tuple[Grant, ...]:
    """Return few grants in a narrower pool that has all of their own CPUs; their memory nodes are for the caller."""
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
    # Never resized nor created again, and without shared CPUs it could not be lifted: a fresh decision chose its pool.
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
    keys = rank(context, FixedScores(context), room, room).keys
    best = max(_pools_with(supply, grant), key=lambda pool: keys[pool.index])
    return replace(grant, pool=best.name) if keys[best.index].fits and best.name != grant.pool else None


def with_fewer_nodes(supply: Supply, grants: Sequence[Grant]) -> tuple[Grant, ...]:
    """Return grants with fewer memory nodes, in the order in which to move them.

    If some nodes are promised more than they have, and others have room: grants with more nodes.
    """
    account = supply.memory
    if not account.holds:
        return widened_for_promises(supply, grants)
    moved: list[Grant] = []
    refused: set[tuple[int, int]] = set()
    for grant, home in sorted(_wide(supply, grants), key=lambda w: (promised_bytes(w[0].request), w[0].container)):
        zone = grant.mems.mask
        for target in _narrower_zones(account.nodes, home, zone):
            # A larger grant from the same zone does not fit where a smaller one did not.
            after = None if (zone, target) in refused else _after(account, grant, target)
            if after is not None:
                account = after
                moved.append(replace(grant, mems=NodeSet(target)))
                break
            refused.add((zone, target))
        if len(moved) == NARROWINGS:
            break
    return tuple(moved)


def _wide(supply: Supply, grants: Sequence[Grant]) -> list[tuple[Grant, int]]:
    """Return (grant, home zone) of those with more nodes than at home. Reserved containers stay where they are."""
    homes = Homes(supply)
    found = []
    for grant in grants:
        if grant.kind is CpuKind.RESERVED or not is_ours(grant):
            continue
        zone = grant.mems.mask
        if zone.bit_count() == 1:  # none is narrower
            continue
        home = homes.zone(grant, grant.pool)
        # Nodes that are gone are for ``reinstate``; narrowing adds none, which a home outside the zone would.
        if home and home != zone and not home & ~zone and not zone & ~supply.memory.nodes.every:
            found.append((grant, home))
    return found


def _narrower_zones(nodes: MemoryNodes, zone: int, present: int) -> Iterator[int]:
    """Yield the home zone, then wider ones as widening would make them, all narrower than the present one."""
    home = zone
    while zone != present:
        yield zone
        left = present & ~zone
        same_kinds = left & nodes.of_kinds(nodes.kinds_in(zone))
        zone |= 1 << nodes.by_distance(home, same_kinds or left, lambda _: ())[0]


def _after(account: MemoryAccount, grant: Grant, target: int) -> MemoryAccount | None:
    """Return the account after this move, or None if a promise could not be kept."""
    nodes = account.nodes
    if promised_inside(account.zones, target) + promised_bytes(grant.request) > nodes.capacity(target):
        return None
    narrow = replace(grant, mems=NodeSet(target))
    without = account.minus(promise_of(nodes, grant))
    # With no huge page free on its nodes the next fault on one ends the process (SIGBUS).
    if without.huge_pages.lacking(grant.request.huge_pages, target):
        return None
    after = without.plus(promise_of(nodes, narrow))
    return after if after.holds else None
