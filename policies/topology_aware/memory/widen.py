"""Choose which containers get more memory nodes where zones are promised more than they have; the caller applies it.

A zone only grows to a superset of itself, so no page moves. Containers widen in this order: lower QoS class, the
container that is placed (it has no pages yet), smaller, then by container. Other kinds of memory are added last:
DRAM, then PMEM, then HBM.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from policies.base import ContainerKey, QosClass
from policies.topology_aware.supply.memory_account import PRIORITY, Promise, estimated_free
from policies.topology_aware.supply.memory_nodes import KINDS, MemoryNodes
from policies.topology_aware.supply.memory_packing import Overflow, first_overflow, in_order
from sysfs.model import MemoryKind

_CEILINGS = (PRIORITY[QosClass.BURSTABLE], PRIORITY[QosClass.GUARANTEED])
_EXTRA_KINDS = tuple(KINDS[:count] for count in range(len(KINDS) + 1))


def widened(nodes: MemoryNodes, promises: Mapping[ContainerKey, Promise]) -> Mapping[ContainerKey, int]:
    """Return the new zones of containers that must widen so that nothing overflows.

    An overflow that even the widest zones would not remove is left as it is.
    """
    now, changed = dict(promises), set[ContainerKey]()
    tolerated: frozenset[int] = frozenset()
    while overflow := first_overflow(nodes, _zone_promises(now.values()), tolerated):
        widenings = _widenings(nodes, now.values(), overflow)
        if not widenings:
            tolerated |= {overflow.zone}
        now.update((wider.container, wider) for wider in widenings)
        changed.update(wider.container for wider in widenings)
    return {key: now[key].zone for key in sorted(changed)}


def _zone_promises(promises: Iterable[Promise]) -> tuple[tuple[int, int], ...]:
    sums = defaultdict[int, int](int)
    for promise in promises:
        sums[promise.zone] += promise.promised_bytes
    return in_order(sums.items())


def _widenings(nodes: MemoryNodes, promises: Iterable[Promise], overflow: Overflow) -> Sequence[Promise]:
    """Return promises, widened, that remove the excess of the overflowing zone; empty if that is impossible."""
    inside = [p for p in promises if not p.zone & ~overflow.zone and p.widest & ~overflow.zone]
    waiting = sorted(inside, key=lambda p: (p.priority, not p.is_new, p.promised_bytes, p.container))
    widenings: list[Promise] = []
    left = overflow.excess_bytes
    # What is left to each class once the lower ones have made room.
    free = {
        rank: estimated_free(nodes, _zone_promises(p for p in promises if p.priority >= rank))
        for rank in {p.priority for p in waiting}
    }
    for ceiling in _CEILINGS:
        for extra in _EXTRA_KINDS:
            staying = []
            for promise in waiting:
                may = left > 0 and promise.priority <= ceiling
                needed = min(left, promise.promised_bytes)
                rest = free[promise.priority]
                zone = _zone_outside(nodes, promise, overflow.zone, needed, rest, extra) if may else 0
                if not zone:
                    staying.append(promise)
                    continue
                widenings.append(promise._replace(zone=zone))
                left -= promise.promised_bytes
            if left <= 0:
                return _needed(widenings, -left)
            waiting = staying
    return ()


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


def _needed(widenings: Sequence[Promise], spare_bytes: int) -> Sequence[Promise]:
    """Drop widenings whose bytes are spare: a large one at the end may do alone what smaller ones began."""
    needed = []
    for wider in reversed(widenings):
        if wider.promised_bytes <= spare_bytes:
            spare_bytes -= wider.promised_bytes
        else:
            needed.append(wider)
    return needed
