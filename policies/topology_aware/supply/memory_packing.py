"""Lay out memory promises on nodes as a flow: decides exactly whether all fit at once, else which union overflows.

A container's memory may lie on any nodes of its zone. By Hall's theorem all promises can be kept exactly when no
union of zones is promised more than it has; looking at single zones is not enough where zones cross. There are too
many unions to try, so the layout is a maximum flow (Ford and Fulkerson): what cannot be laid out names the union that
is too small.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from policies.topology_aware.supply.memory_nodes import MemoryNodes, node_ids

ZonePromise = tuple[int, int]  # (zone, bytes promised to containers with just this zone)


@dataclass(frozen=True, slots=True)
class Overflow:
    """A union of zones that is promised more than it has, and the excess."""

    zone: int
    excess_bytes: int


class Packing:
    """Promises laid out on the nodes, within one decision. Mutable."""

    def __init__(self, nodes: MemoryNodes) -> None:
        """Start without promises."""
        self._nodes = nodes
        self._free = dict(nodes.capacity_bytes)
        self._totals: dict[int, int] = {}  # bytes by zone
        self._on: dict[int, dict[int, int]] = {node: {} for node in self._free}  # bytes by node, then by zone
        self._exits = dict.fromkeys(self._free, 0)  # by node: what of others lies there may move to these, as a mask

    def add(self, zone: int, amount_bytes: int) -> int:
        """Lay out a promise, moving others within their zones for it. Return the bytes that do not fit."""
        left = self._fill(zone, amount_bytes)
        while left:
            moved = self._augment(zone, left)
            if not moved:
                break
            left -= moved
        if amount_bytes > left:
            self._totals[zone] = self._totals.get(zone, 0) + amount_bytes - left
        return left

    def takes(self, zone: int, amount_bytes: int) -> bool:
        """Return whether this promise could be kept as well. Change nothing."""
        return bool(self.taking((zone,), amount_bytes))

    def taking(self, zones: Collection[int], amount_bytes: int) -> set[int]:
        """Return the zones in which one promise of so much could be kept as well. Change nothing."""
        found = {zone for zone in zones if self._free_in(zone) >= amount_bytes}
        tried: Packing | None = None
        for zone in zones:
            if zone in found:
                continue
            # In a single node lies no other zone.
            is_union = zone & zone - 1
            inside = promised_inside(self._totals.items(), zone) if is_union else self._totals.get(zone, 0)
            if inside + amount_bytes > self._nodes.capacity(zone):  # most full zones
                continue
            if self._free_in(self.reach(zone)) < amount_bytes:  # nearly all others where memory is short
                continue
            # Others may lie elsewhere after a try: that decides nothing (``first_overflow``).
            tried = tried or self.copy()
            left = tried.add(zone, amount_bytes)
            tried.remove(zone, amount_bytes - left)
            if not left:
                found.add(zone)
        return found

    def most(self, zone: int) -> int:
        """Return the largest promise that could be kept as well in this zone. Change nothing."""
        capacity_bytes = self._nodes.capacity(zone)
        return capacity_bytes - self.copy().add(zone, capacity_bytes)

    def copy(self) -> "Packing":
        """Return the same layout, to be changed by itself."""
        made = Packing(self._nodes)
        made._free = dict(self._free)
        made._totals = dict(self._totals)
        made._on = {node: dict(there) for node, there in self._on.items()}
        made._exits = dict(self._exits)
        return made

    def remove(self, zone: int, amount_bytes: int) -> None:
        """Take away so much of what is laid out for this zone; no more than that."""
        for node in node_ids(zone):
            here = min(amount_bytes, self._on[node].get(zone, 0))
            if here:
                self._free[node] += here
                self._lift(zone, node, here)
                self._totals[zone] -= here
                amount_bytes -= here
        if not self._totals.get(zone, 1):
            del self._totals[zone]

    def _free_in(self, zone: int) -> int:
        return sum(map(self._free.__getitem__, node_ids(zone)))

    def reach(self, zone: int) -> int:
        """Return all nodes that a promise in this zone can be given, directly or by moving others in their zones."""
        return self._steps(zone)[-1]

    def _steps(self, zone: int, until: int = 0) -> list[int]:
        """Return the nodes that are reached by moving at most 0, 1, 2 ... others one after the other, as masks.

        The last ones are the first that have a node of ``until``, where any have.
        """
        steps = [zone]
        reached, new = zone, zone
        while new and not reached & until:
            for node in node_ids(new):
                reached |= self._exits[node]
            new = reached & ~steps[-1]
            if new:
                steps.append(reached)
        return steps

    def _fill(self, zone: int, amount_bytes: int) -> int:
        """Use what is free in the zone. Return the bytes that are left."""
        for node in node_ids(zone):
            if not amount_bytes:
                break
            here = min(amount_bytes, self._free[node])
            if here:
                self._free[node] -= here
                self._lay(zone, node, here)
                amount_bytes -= here
        return amount_bytes

    def _lay(self, zone: int, node: int, amount_bytes: int) -> None:
        there = self._on[node]
        there[zone] = there.get(zone, 0) + amount_bytes
        self._exits[node] |= zone

    def _lift(self, zone: int, node: int, amount_bytes: int) -> None:
        there = self._on[node]
        there[zone] -= amount_bytes
        if not there[zone]:
            del there[zone]
            self._exits[node] = reduce(or_, there, 0)

    def _augment(self, zone: int, most_bytes: int) -> int:
        """Move others along one of the shortest chains that end at a free node, and use the room; 0 = there is none."""
        # Shortest chains first: their number is bounded then, whatever the amounts are (Edmonds and Karp).
        free = sum(1 << node for node, left in self._free.items() if left)
        steps = self._steps(zone, free)
        if not steps[-1] & free:
            return 0
        node = node_ids(steps[-1] & free)[0]
        chain: list[tuple[int, int, int]] = []  # (zone, node that it leaves, node that it goes to), the last move first
        amount = min(most_bytes, self._free[node])
        for reached in reversed(steps[:-1]):
            before = next(n for n in node_ids(reached) if self._exits[n] >> node & 1)
            mover = next(other for other in self._on[before] if other >> node & 1)
            amount = min(amount, self._on[before][mover])
            chain.append((mover, before, node))
            node = before
        self._free[chain[0][2] if chain else node] -= amount
        for mover, before, to in chain:
            self._lift(mover, before, amount)
            self._lay(mover, to, amount)
        self._lay(zone, node, amount)
        return amount


def in_order(promises: Iterable[ZonePromise]) -> tuple[ZonePromise, ...]:
    """Sort narrow zones before wide ones, then by their nodes. Nested zones fill up so without any move."""
    return tuple(sorted(promises, key=lambda b: (b[0].bit_count(), b[0])))


def first_overflow(
    nodes: MemoryNodes, promises: tuple[ZonePromise, ...], tolerated: frozenset[int] = frozenset()
) -> Overflow | None:
    """Return the first union of zones that is promised too much, narrow zones first; None if there is none.

    Unions that are ``tolerated`` are skipped. The answer does not depend on how the promises are laid out: what
    can be reached from the first zone that does not fit is the smallest such union with it.
    """
    packing = Packing(nodes)
    dropped = 0
    for zone, amount in promises:
        left = packing.add(zone, amount)
        if not left:
            continue
        union = packing.reach(zone)
        if union in tolerated:
            # What was never laid out takes no room from the unions after this one.
            dropped += left
            continue
        return Overflow(union, max(left, promised_inside(promises, union) - nodes.capacity(union) - dropped))
    return None


def promised_inside(promises: Iterable[ZonePromise], zone: int) -> int:
    """Return the bytes promised to containers that can only be in this zone."""
    return sum(amount for one, amount in promises if not one & ~zone)
