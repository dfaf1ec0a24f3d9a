"""Lay out memory promises on nodes as a flow: decides exactly whether all fit at once, else which union overflows.

A container's memory may lie on any nodes of its zone. By Hall's theorem all promises can be kept exactly when no
union of zones is promised more than it has; looking at single zones is not enough where zones cross. There are too
many unions to try, so the layout is a maximum flow (Ford and Fulkerson): what cannot be laid out names the union that
is too small.
"""

from collections.abc import Iterable
from dataclasses import dataclass

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
        self._laid: dict[int, dict[int, int]] = {}
        self._used: dict[int, int] = {}  # by zone: the nodes on which something of it is laid, as a mask

    def add(self, zone: int, amount_bytes: int) -> int:
        """Lay out a promise, moving others within their zones for it. Return the bytes that do not fit."""
        left = self._fill(zone, amount_bytes)
        while left:
            moved = self._augment(zone, left)
            if not moved:
                return left
            left -= moved
        return 0

    def takes(self, zone: int, amount_bytes: int) -> bool:
        """Return whether this promise could be kept as well. Change nothing."""
        if self._free_in(zone) >= amount_bytes:
            return True
        if self._free_in(self.reach(zone)) < amount_bytes:  # hopeless, which is most of the time where memory is short
            return False
        trial = Packing(self._nodes)
        trial._free = dict(self._free)
        trial._laid = {other: dict(where) for other, where in self._laid.items()}
        trial._used = dict(self._used)
        return not trial.add(zone, amount_bytes)

    def _free_in(self, zone: int) -> int:
        return sum(self._free[node] for node in node_ids(zone))

    def reach(self, zone: int) -> int:
        """Return all nodes that a promise in this zone can be given, directly or by moving others in their zones."""
        reached, before = zone, 0
        while reached != before:
            before = reached
            for other, used in self._used.items():
                if used & reached:
                    reached |= other
        return reached

    def _fill(self, zone: int, amount_bytes: int) -> int:
        """Use what is free in the zone. Return the bytes that are left."""
        where = self._laid.setdefault(zone, {})
        for node in node_ids(zone):
            if not amount_bytes:
                break
            here = min(amount_bytes, self._free[node])
            if here:
                self._free[node] -= here
                where[node] = where.get(node, 0) + here
                self._used[zone] = self._used.get(zone, 0) | 1 << node
                amount_bytes -= here
        return amount_bytes

    def _augment(self, zone: int, most_bytes: int) -> int:
        """Move others along the shortest chain that ends at a free node, and use the room; 0 = there is none."""
        came: dict[int, tuple[int, int]] = dict.fromkeys(node_ids(zone), (zone, -1))
        queue, reached = list(came), zone
        for node in queue:  # grows while we walk it
            if self._free[node]:
                return self._shift(came, node, most_bytes)
            for other, used in self._used.items():
                new = other & ~reached
                if new and used >> node & 1:
                    reached |= new
                    for to in node_ids(new):
                        came[to] = (other, node)
                        queue.append(to)
        return 0

    def _shift(self, came: dict[int, tuple[int, int]], end: int, most_bytes: int) -> int:
        """Move along the chain that leads to ``end``: each zone gives its part of a node to the one before it."""
        chain = []
        node, amount = end, min(most_bytes, self._free[end])
        while node >= 0:
            zone, before = came[node]
            chain.append((zone, before, node))
            if before >= 0:
                amount = min(amount, self._laid[zone][before])
            node = before
        self._free[end] -= amount
        for zone, before, to in chain:
            where = self._laid[zone]
            where[to] = where.get(to, 0) + amount
            self._used[zone] = self._used.get(zone, 0) | 1 << to
            if before >= 0:
                where[before] -= amount
                if not where[before]:
                    self._used[zone] ^= 1 << before
        return amount


def in_order(promises: Iterable[ZonePromise]) -> tuple[ZonePromise, ...]:
    """Sort narrow zones before wide ones, then by their nodes. Nested zones fill up so without any move."""
    return tuple(sorted(promises, key=lambda b: (b[0].bit_count(), b[0])))


def packed(nodes: MemoryNodes, promises: Iterable[ZonePromise]) -> Packing | None:
    """Lay out the promises, as ``in_order`` gives them; None if not all can be kept."""
    packing = Packing(nodes)
    return None if any(packing.add(zone, amount) for zone, amount in promises) else packing


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
            dropped += left
            continue
        return Overflow(union, max(left, promised_inside(promises, union) - nodes.capacity(union) - dropped))
    return None


def promised_inside(promises: Iterable[ZonePromise], zone: int) -> int:
    """Return the bytes promised to containers that can only be in this zone."""
    return sum(amount for one, amount in promises if not one & ~zone)
