"""Choose which containers get more memory nodes where zones are promised more than they have; the caller applies it.

A zone only grows to a superset of itself, so no page moves. Containers widen in this order: lower QoS class, the
container that is placed (it has no pages yet), smaller, then by container. Other kinds of memory are added last:
DRAM, then PMEM, then HBM.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from policies.base import ContainerKey, QosClass
from policies.topology_aware.supply.memory_account import PRIORITY, Promise, estimated_free
from policies.topology_aware.supply.memory_nodes import KINDS, MemoryNodes
from policies.topology_aware.supply.memory_packing import Overflow, ZonePromise, first_overflow, in_order
from sysfs.cpuset import gathered
from sysfs.model import MemoryKind

_CEILINGS = (PRIORITY[QosClass.BURSTABLE], PRIORITY[QosClass.GUARANTEED])
_EXTRA_KINDS = tuple(KINDS[:count] for count in range(len(KINDS) + 1))


def widened(nodes: MemoryNodes, promises: Mapping[ContainerKey, Promise]) -> Mapping[ContainerKey, int]:
    """Return the new zones of containers that must widen so that nothing overflows.

    An overflow that even the widest zones would not remove is left as it is.
    """
    now, changed = _PromisesByZone(promises), dict[ContainerKey, int]()
    tolerated: frozenset[int] = frozenset()
    while overflow := first_overflow(nodes, now.sums(), tolerated):
        widenings = _widenings(nodes, now, overflow)
        # No widening removes this one: it is left, so that others still get room and the loop ends.
        if not widenings:
            tolerated |= {overflow.zone}
        for promise, zone in widenings:
            now.widen(promise, zone)
            changed[promise.container] = zone
    return dict(sorted(changed.items()))


class _PromisesByZone:
    """The zones of promises, and the sums of each class by zone; never leaves this module."""

    def __init__(self, promises: Mapping[ContainerKey, Promise]) -> None:
        self._promises = dict(promises)
        self._sums = tuple(dict[int, int]() for _ in PRIORITY)
        for promise in promises.values():
            sums = self._sums[promise.priority]
            sums[promise.zone] = sums.get(promise.zone, 0) + promise.promised_bytes

    def widen(self, promise: Promise, zone: int) -> None:
        """Put a promise that is here in another zone."""
        self._promises[promise.container] = promise._replace(zone=zone)
        sums = self._sums[promise.priority]
        sums[promise.zone] -= promise.promised_bytes
        sums[zone] = sums.get(zone, 0) + promise.promised_bytes

    def inside(self, zone: int) -> list[Promise]:
        """Return the promises that lie in this zone."""
        return [promise for promise in self._promises.values() if not promise.zone & ~zone]

    def sums(self, lowest: int = 0) -> tuple[ZonePromise, ...]:
        """Return what is promised in each zone, to this class and those above it."""
        total = dict(self._sums[lowest])
        for sums in self._sums[lowest + 1 :]:
            for zone, amount in sums.items():
                total[zone] = total.get(zone, 0) + amount
        return in_order(promise for promise in total.items() if promise[1])


def _widenings(nodes: MemoryNodes, promises: _PromisesByZone, overflow: Overflow) -> Sequence[tuple[Promise, int]]:
    """Return promises, each with a wider zone, that remove the excess of the overflowing one; empty if none can."""
    inside = (promise for promise in promises.inside(overflow.zone) if promise.widest & ~overflow.zone)
    by_class = gathered((promise.priority, promise) for promise in inside)
    # Class after class, as the first is mostly enough.
    waiting: Iterable[Promise] = chain.from_iterable(sorted(by_class[c], key=_in_turn) for c in sorted(by_class))
    widenings: list[tuple[Promise, int]] = []
    left = overflow.excess_bytes
    free: dict[int, Mapping[int, int]] = {}  # what is left to each class once the lower ones have made room
    # Guaranteed containers widen only where those below them cannot make enough room.
    for ceiling in _CEILINGS:
        for extra in _EXTRA_KINDS:
            staying = []
            for promise in waiting:
                zone, rank = 0, promise.priority
                if rank <= ceiling:
                    if rank not in free:
                        free[rank] = estimated_free(nodes, promises.sums(rank))
                    needed = min(left, promise.promised_bytes)
                    zone = _zone_outside(nodes, promise, overflow.zone, needed, free[rank], extra)
                if not zone:
                    staying.append(promise)
                    continue
                widenings.append((promise, zone))
                left -= promise.promised_bytes
                if left <= 0:
                    return _needed(widenings, -left)
            waiting = staying
    return ()


def _in_turn(promise: Promise) -> tuple[bool, int, str, str]:
    """Return the order in which containers of a class widen."""
    return not promise.is_new, promise.promised_bytes, promise.container.pod_uid, promise.container.name


def _zone_outside(
    nodes: MemoryNodes,
    promise: Promise,
    overflowing: int,
    needed_bytes: int,
    free_bytes: Mapping[int, int],
    extra: tuple[MemoryKind, ...],
) -> int:
    """Return the zone plus the overflowing one and as many of the nearest nodes as have room; 0 if none are allowed.

    Of nodes at the same distance those with the most left come first.
    """
    allowed = nodes.of_kinds({*nodes.kinds_in(promise.zone), *extra}) & promise.widest
    new = room = 0
    for node in nodes.by_distance(promise.zone, allowed & ~overflowing, lambda node: (-free_bytes[node],)):
        new |= 1 << node
        room += free_bytes[node]
        if room >= needed_bytes:
            break
    return promise.zone | overflowing & allowed | new if new else 0


def _needed(widenings: Sequence[tuple[Promise, int]], spare_bytes: int) -> Sequence[tuple[Promise, int]]:
    """Drop widenings whose bytes are spare: a large one at the end may do alone what smaller ones began."""
    needed = []
    for promise, zone in reversed(widenings):
        if promise.promised_bytes <= spare_bytes:
            spare_bytes -= promise.promised_bytes
        else:
            needed.append((promise, zone))
    return needed
