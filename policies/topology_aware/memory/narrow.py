"""Narrow widened zones towards home when there is room again.

Narrowing moves pages, which takes seconds per gigabyte (cpuset.mems in Documentation/admin-guide/cgroup-v2.rst). So few
containers move at a time, the fewest bytes first, and only if all promises can be kept afterwards. Where they cannot be
kept as it is, containers that share too few nodes are widened first.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from policies.base import CpuKind, Grant
from policies.topology_aware.memory.grants import home_zone, is_ours
from policies.topology_aware.memory.restore import widened_for_promises
from policies.topology_aware.supply.memory_account import MemoryAccount, promise_of, promised_bytes
from policies.topology_aware.supply.memory_nodes import KINDS, MemoryNodes
from policies.topology_aware.supply.memory_packing import promised_inside
from policies.topology_aware.supply.supply import Supply
from sysfs.cpuset import NodeSet

NARROWINGS = 4  # moves of one call


@dataclass(frozen=True, slots=True)
class _Wide:
    """A grant that has more nodes than at home."""

    grant: Grant
    home: int

    @property
    def zone(self) -> int:
        return self.grant.mems.mask

    @property
    def promised_bytes(self) -> int:
        return promised_bytes(self.grant.request)


def narrowed(supply: Supply, grants: Sequence[Grant]) -> tuple[Grant, ...]:
    """Return grants with fewer memory nodes, in the order in which to move them.

    Where more is promised in some nodes than these hold, and others have room: grants with more nodes.
    """
    account = supply.memory
    if not account.holds:
        return widened_for_promises(supply, grants)
    wide = _wide(supply, grants)
    if not wide:
        return ()
    moved: list[Grant] = []
    refused: set[tuple[int, int]] = set()
    for one in sorted(wide, key=lambda w: (w.promised_bytes, w.grant.container)):
        for target in _narrower_zones(account.nodes, one):
            # Where one did not fit, a larger one that comes from the same zone does not fit either.
            after = None if (one.zone, target) in refused else _after(account, one, target)
            if after is not None:
                account = after
                moved.append(replace(one.grant, mems=NodeSet(target)))
                break
            refused.add((one.zone, target))
        if len(moved) == NARROWINGS:
            break
    return tuple(moved)


def _wide(supply: Supply, grants: Sequence[Grant]) -> list[_Wide]:
    """Return the grants that could come closer to home. Reserved containers stay where they are."""
    homes: dict[tuple[object, ...], int] = {}
    found = []
    for grant in grants:
        if grant.kind is CpuKind.RESERVED or not is_ours(grant):
            continue
        if grant.request.hints:
            home = home_zone(supply, grant)
        else:
            # Without devices it follows from so little that most containers of a pool have the same.
            preferences = grant.request.preferences
            key = (
                grant.pool,
                preferences.memory_kinds,
                preferences.strict_memory,
                grant.is_cold,
                preferences.cold_start_seconds,
            )
            if key not in homes:
                homes[key] = home_zone(supply, grant)
            home = homes[key]
        zone = grant.mems.mask
        if home and home != zone and not home & ~zone and not zone & ~supply.memory.nodes.every:
            found.append(_Wide(grant, home))
    return found


def _narrower_zones(nodes: MemoryNodes, wide: _Wide) -> Iterator[int]:
    """Yield the home zone, then wider ones as widening would make them, all narrower than the present one."""
    zone = wide.home
    while zone != wide.zone:
        yield zone
        grown = nodes.expand(zone, nodes.kinds_in(zone), wide.zone) or nodes.expand(zone, KINDS, wide.zone)
        zone |= grown


def _after(account: MemoryAccount, wide: _Wide, target: int) -> MemoryAccount | None:
    """Return the account after this move, or None if a promise could not be kept."""
    nodes = account.nodes
    if promised_inside(account.zones, target) + wide.promised_bytes > nodes.capacity(target):
        return None
    narrow = replace(wide.grant, mems=NodeSet(target))
    after = account.minus(promise_of(nodes, wide.grant)).plus(promise_of(nodes, narrow))
    return after if after.holds else None
