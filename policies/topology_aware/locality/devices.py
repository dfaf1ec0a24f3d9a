"""Score pools by nearness to a container's devices; find the CPUs near each, and those a strict preference allows."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from operator import or_

from policies.base import DeviceLocality
from policies.hardware.domains import Level
from policies.hardware.pools import KINDS, Pool, PoolTree
from policies.topology_aware.supply.context import ANYWHERE, PlacementContext
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.load import Load
from policies.topology_aware.supply.supply import Room
from sysfs.cpuset import NodeSet
from sysfs.model import Machine


@dataclass(frozen=True, slots=True)
class Locality:
    """CPUs (a mask) that are near one or more devices, which ``sources`` name."""

    sources: tuple[str, ...]
    cpus: int


class NearnessNow:
    """How near the pools are to a container's devices: 0 (far from all) to 1 (at each), worked out when asked for.

    A pool is at a device when all of the pool is local to it, or all that is local to it is in the pool; in between
    counts the part. The mean, not the product: with two devices on different nodes, a pool that holds both wins.

    A pool that reaches beyond a device's CPUs is near only if there is room near it for a fair part of the request:
    else what it gives is elsewhere, and no better than what a pool there gives. A container that shares is nowhere near
    where it would be on the few CPUs that owners have left over (``_is_wide``).
    """

    def __init__(self, context: PlacementContext, room: Room, load: Load) -> None:
        """Take the input of a placement."""
        self._context, self._room, self._load = context, room, load
        self._known = _known(context.tree, context.request.localities)
        self._places = len({cpus for _, cpus in self._known})
        self._from_devices = [_by_distance(context.tree.machine, cpus) for _, cpus in self._known]
        self._far = set[int]()  # pools without CPUs or memory near any device: nor has any pool in them
        self._alike: dict[int, tuple[float, int]] = {}  # what those have that are alike in all of their parts

    def of(self, pool: Pool) -> tuple[float, int]:
        """Return (nearness to the devices, minus the distance from those that it is not near)."""
        if not self._known:
            return 0.0, 0
        if pool.parent in self._alike:
            return self._alike[pool.parent]
        found = self._found(pool)
        if pool.children and self._is_alike(pool):
            self._alike[pool.index] = found
        return found

    def _is_alike(self, pool: Pool) -> bool:
        """Return whether all pools in this one are as near: for CPUs to own, each device at all of it or none."""
        if not self._context.demand.whole or pool.kind != KINDS[Level.NODE]:
            return False
        near = [pool.hardware & cpus for _, cpus in self._known]
        return all(cpus for _, cpus in self._known) and all(some in (0, pool.hardware) for some in near)

    def _found(self, pool: Pool) -> tuple[float, int]:
        context, room, load, far = self._context, self._room, self._load, self._from_devices
        near = [] if pool.parent in self._far else [_nearness(pool, place) for place, _ in self._known]
        result = 0.0
        if any(near):
            gives = [
                bool(nearness) and _gives_near(context, room, load, pool, cpus, self._places)
                for nearness, (_, cpus) in zip(near, self._known, strict=True)
            ]
            far = [rows for rows, given in zip(far, gives, strict=True) if not given]
            result = _mean([n if given else 0.0 for n, given in zip(near, gives, strict=True)])
        else:
            self._far.add(pool.index)
        return result, -_farthest(context, load, pool, far) if far else 0


def _by_distance(machine: Machine, cpus: int) -> list[tuple[int, int]]:
    """Return (distance, CPUs of the nodes that are so far from these CPUs), the farthest first."""
    there = [node.id for node in machine.nodes if node.cpus.mask & cpus]
    found: dict[int, int] = {}
    for node in machine.nodes:
        distance = min((node.distance_to(other) for other in there), default=0)
        found[distance] = found.get(distance, 0) | node.cpus.mask
    return sorted(found.items(), reverse=True)


def _farthest(context: PlacementContext, load: Load, pool: Pool, devices: Iterable[list[tuple[int, int]]]) -> int:
    """Return the sum over these devices of how far the farthest node is where the pool has CPUs to share.

    Where these are too few it is as far as any place.
    """
    there = context.supply.shared[0] & pool.hardware or pool.hardware
    there = there if _is_wide(context, load, pool.index, pool.hardware) else ANYWHERE
    total = 0
    for rows in devices:
        for distance, cpus in rows:
            if cpus & there:
                total += distance
                break
    return total


@dataclass(frozen=True, slots=True)
class FarDevice:
    """A device that a container is not near; ``cpus`` is a mask. ``has_room``: its pool has room near the device."""

    source: str
    cpus: int
    has_room: bool


def far_devices(context: PlacementContext, room: Room, load: Load, pool: Pool, owned: int) -> tuple[FarDevice, ...]:
    """Return the devices that the container is not near in this pool, with these CPUs of its own."""
    tree = context.tree
    known = [(place.source, *pair) for place in context.request.localities for pair in _known(tree, (place,))]
    places = len({cpus for _, _, cpus in known})
    found = {}
    for source, place, cpus in known:
        if not pool.hardware & ~cpus:
            continue
        gives = bool(_nearness(pool, place)) and _gives_near(context, room, load, pool, cpus, places)
        if not gives or (owned and cpus and not owned & cpus):
            found[source] = FarDevice(source, cpus, gives)
    return tuple(found.values())


def _known(tree: PoolTree, places: tuple[DeviceLocality, ...]) -> list[tuple[tuple[int, int], int]]:
    """Return ((CPU mask, node mask), mask of the nearest CPUs) of each locality that says anything."""
    pairs = [(_cpus_or_nodes(tree.machine, place), local_cpus(tree.machine, place) or 0) for place in places]
    return [(place, cpus) for place, cpus in pairs if any(place)]


def _mean(scores: list[float]) -> float:
    return round(sum(scores) / len(scores), 6) if scores else 0.0


def at_devices(context: PlacementContext, pool: Pool) -> float:
    """Return the mean over the devices of 1 where all of the pool is near and it has width for a sharer, else 0.

    It follows from the request and from what others own alone, not from where those are that share.
    """
    near = [local_cpus(context.tree.machine, place) or 0 for place in context.request.localities]
    if not _has_width(context, pool.hardware):
        return 0.0
    return sum(not pool.hardware & ~cpus for cpus in near) / max(1, len(near))


def _gives_near(context: PlacementContext, room: Room, load: Load, pool: Pool, cpus: int, places: int) -> bool:
    """Return whether CPUs that the pool gives are among these: all of it is, or they have room for a fair part.

    ``places``: to how many places the request is divided.
    """
    demand, supply, near = context.demand, context.supply, cpus & pool.hardware
    # A strict preference rules pools out by ``reach_in``; a device near none of these CPUs is near by its memory.
    if demand.strict_locality or not near:
        return True
    if near == pool.hardware:
        return _is_wide(context, load, pool.index, near)
    # What is owed to shares is known by pool: the narrowest around these CPUs bounds what they give.
    around = context.tree.around(near).index
    if not _is_wide(context, load, around, near):
        return False
    if demand.is_zero:
        return bool(supply.shared[0] & near)
    count = (context.tree.root.sharable & near).bit_count()
    whole = min(max(1, demand.whole // places), count) if demand.whole else 0
    if whole and demand.isolation is not Isolation.NO and (supply.free_isolated(0) & near).bit_count() >= whole:
        return True
    mcpu = min(1000 * whole + demand.shared_mcpu // places, 1000 * count)
    free = min((supply.shared[0] & ~supply.withheld & near).bit_count(), room.give[around])
    return count > 0 and free >= whole and room.free_mcpu[around] >= mcpu


def _is_wide(context: PlacementContext, load: Load, pool: int, cpus: int) -> bool:
    """Return whether a container that shares these CPUs, which the pool holds, would not be much worse off than others.

    One without a request has nothing that is kept for it: for it the pool must not be crowded, either.
    """
    demand = context.demand
    return bool(demand.whole) or (_has_width(context, cpus) and not (demand.is_zero and load.crowding(pool)))


def _has_width(context: PlacementContext, cpus: int) -> bool:
    """Return whether as many of these are shared as its limit, or half as many in proportion as of the machine."""
    shared, sharable = context.supply.shared[0], context.tree.root.sharable
    here, limit_mcpu = (shared & cpus).bit_count(), context.request.cpu_limit_mcpu
    # Owners may leave one CPU of a node: near a device it would draw every sharer that uses the device.
    in_proportion = 2 * here * sharable.bit_count() >= shared.bit_count() * (sharable & cpus).bit_count()
    return in_proportion or (limit_mcpu is not None and 1000 * here >= limit_mcpu)


def local_cpus(machine: Machine, place: DeviceLocality) -> int | None:
    """Return the online CPUs near this device; None when all are, or nothing is known.

    CPUs count before nodes. Near a node without CPUs are those of the nodes closest to it.
    """
    cpus = place.cpus.mask & machine.online.mask or _cpus_of(machine, place.nodes)
    if not cpus:
        cpus = reduce(or_, (_cpus_of(machine, node.near) for node in machine.nodes if node.id in place.nodes), 0)
    # What is near every CPU draws nowhere.
    says_nothing = cpus == machine.online.mask or not (place.cpus or place.nodes)
    return None if says_nothing else cpus


def localities(machine: Machine, places: Iterable[DeviceLocality], within: int) -> tuple[Locality, ...]:
    """Return the distinct sets of CPUs near devices, cut to ``within`` and less than all of it; the smallest first."""
    sources: dict[int, list[str]] = {}
    for place in places:
        cpus = (local_cpus(machine, place) or 0) & within
        if cpus and cpus != within:
            names = sources.setdefault(cpus, [])
            if place.source not in names:
                names.append(place.source)
    order = sorted(sources, key=lambda cpus: (cpus.bit_count(), cpus & -cpus, cpus))
    return tuple(Locality(tuple(sources[cpus]), cpus) for cpus in order)


def _cpus_or_nodes(machine: Machine, place: DeviceLocality) -> tuple[int, int]:
    """Return (CPU mask, node mask) of a locality: its CPUs, else those of its nodes. Nothing if it names all."""
    cpus = place.cpus.mask & machine.online.mask or _cpus_of(machine, place.nodes)
    if cpus == machine.online.mask:
        return 0, 0
    return cpus, (0 if cpus else place.nodes.mask)


def _cpus_of(machine: Machine, nodes: NodeSet) -> int:
    return reduce(or_, (node.cpus.mask for node in machine.nodes if node.id in nodes), 0)


def _nearness(pool: Pool, local: tuple[int, int]) -> float:
    cpus, nodes = local
    if cpus:
        return (pool.hardware & cpus).bit_count() / min(pool.hardware.bit_count(), cpus.bit_count())
    return (pool.mems & nodes).bit_count() / nodes.bit_count()


def reach_in(context: PlacementContext, pool: Pool) -> int:
    """Return the CPUs that the container may own in this pool, as a mask; 0 rules the pool out.

    Without a strict preference: all. With one: all if the whole pool is near the devices and has CPUs near each;
    else, if nothing shared is asked for, those near any. Each device must then have one near it (``is_near_each``).
    Of these, those of the nodes that hints were merged to.
    """
    if context.demand.single_node and not in_one_node(context.tree.machine, pool):
        return 0
    within = _reach_within(context, pool)
    near = near_devices(context) if context.demand.strict_locality and within else ()
    if not near:
        return within
    together = reduce(or_, near)
    usable = pool.sharable | pool.isolated
    if not usable & ~together and all(usable & cpus for cpus in near):
        return within
    # Shares run on all shared CPUs of their pool: that some of these are near is not enough for them.
    return usable & together & within if context.demand.whole and not context.demand.shared_mcpu else 0


def _reach_within(context: PlacementContext, pool: Pool) -> int:
    """Return as ``reach_in`` the CPUs of the nodes that the container is kept within: all of the pool's, some, or none.

    A pool that reaches beyond these nodes has CPUs to own for it, and none to share.
    """
    within, demand = aligned_cpus(context), context.demand
    usable = pool.sharable | pool.isolated
    if not usable & ~within:
        return ANYWHERE
    shares = bool(demand.shared_mcpu) or not demand.whole
    # Sharers of this pool run on its shared CPUs beyond the nodes, too.
    if shares and demand.shares_within:
        return 0
    return usable & within if demand.whole else ANYWHERE


def aligned_cpus(context: PlacementContext) -> int:
    """Return the CPUs of the nodes that hints were merged to, as a mask, and of those where a resize stays."""
    alignment = context.request.alignment
    nodes = ANYWHERE if alignment is None else _cpus_of(context.tree.machine, alignment.nodes) or ANYWHERE
    return nodes & context.within


def in_one_node(machine: Machine, pool: Pool) -> bool:
    """Return whether all available CPUs of the pool are of one NUMA node."""
    return any(not pool.cpus & ~node.cpus.mask for node in machine.nodes)


def is_near_each(context: PlacementContext, reach: int, owned: int) -> bool:
    """Return whether some of these CPUs are near each device, if ``reach`` makes this a condition.

    One CPU cannot be near two devices in two packages: the strict preference refuses that.
    """
    if reach == ANYWHERE or not context.demand.strict_locality:
        return True
    return all(owned & cpus for cpus in near_devices(context))


def near_devices(context: PlacementContext) -> tuple[int, ...]:
    """Return the CPUs near each device whose locality is known; none of them may be online."""
    found = (local_cpus(context.tree.machine, place) for place in context.request.localities)
    return tuple(dict.fromkeys(cpus for cpus in found if cpus is not None))
