"""Choose few widened memory zones to narrow towards home, if all promises can then be kept; the caller applies them.

Narrowing moves pages, which takes seconds per gigabyte (cpuset.mems in Documentation/admin-guide/cgroup-v2.rst). So the
fewest bytes move first. Where the promises cannot be kept now, containers that share too few nodes are widened instead.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from policies.base import CpuKind, Grant
from policies.topology_aware.memory.home import Homes, is_ours
from policies.topology_aware.memory.reinstate import widened_for_promises
from policies.topology_aware.supply.memory_account import MemoryAccount, promise_of, promised_bytes
from policies.topology_aware.supply.memory_nodes import MemoryNodes
from policies.topology_aware.supply.memory_packing import promised_inside
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import NodeSet

NARROWINGS = 4  # the most moves of one call


def narrowed(supply: Supply, grants: Sequence[Grant]) -> tuple[Grant, ...]:
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
    if without.huge_pages.lacking(grant.request.huge_pages, target):
        return None
    after = without.plus(promise_of(nodes, narrow))
    return after if after.holds else None
