"""Compute every pool's offer to a request: whether it fits, its exclusive and isolated CPU counts, the CPUs kept."""

from collections.abc import Sequence
from dataclasses import dataclass

from policies.hardware.pools import Pool
from policies.hardware.siblings import one_thread_per_core
from policies.preferences import CpuDistribution, Threads
from policies.topology_aware.cpus.cores import inner_on_cores, on_free_cores
from policies.topology_aware.cpus.distribution import on_other_cores
from policies.topology_aware.cpus.retained import keeps_enough, retained
from policies.topology_aware.locality.devices import is_near_each, near_devices, reach_in
from policies.topology_aware.supply.context import ANYWHERE, PlacementContext
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.supply import Room


@dataclass(frozen=True, slots=True)
class Offer:
    """The offer of one pool. ``keep`` are CPUs that the container had before and keeps.

    ``sliced`` ordinary CPUs and ``isolated`` ones are owned alone, kept ones included. ``previous`` is above zero
    for the container's earlier pool and those above it, if the earlier CPUs are free: deeper ones higher.
    """

    fits: bool
    previous: int
    keep: int
    sliced: int
    isolated: int


@dataclass(frozen=True, slots=True)
class _Remaining:
    """The free CPUs for one request under one rule, and those that its preferences leave.

    ``lenient`` is the rule for pools where the container was before. ``ordinary`` and ``isolated`` are masks; where
    whole cores are preferred, of CPUs on wholly free ones, and ``inner`` is what the pools can give of them under
    either rule. ``reach`` has the CPUs of each pool near enough to the devices.
    """

    room: Room
    lenient: Room
    ordinary: int
    isolated: int
    inner: Sequence[int]
    lenient_inner: Sequence[int]
    reach: Sequence[int]


def offers_of(context: PlacementContext, room: Room, lenient: Room) -> tuple[Offer, ...]:
    """Return what every pool would give under the rule of ``room``.

    ``lenient`` is for pools where the container was before: it must not move because containers without a CPU request
    have moved in since.
    """
    remaining = _remaining(context, room, lenient)
    return tuple(_offer(context, remaining, pool) for pool in context.tree.pools)


class OffersOnDemand(dict[int, Offer]):
    """The CPUs that pools would give, by index, each worked out when it is first looked up. See ``offers_of``."""

    def __init__(self, context: PlacementContext, room: Room, lenient: Room) -> None:
        """Work out what is the same for all."""
        super().__init__()
        self._context, self._remaining = context, _remaining(context, room, lenient)

    def __missing__(self, pool: int) -> Offer:
        """Work out the offer of one pool."""
        offer = self[pool] = _offer(self._context, self._remaining, self._context.tree.pools[pool])
        return offer


def _remaining(context: PlacementContext, room: Room, lenient: Room) -> _Remaining:
    tree, supply = context.tree, context.supply
    ordinary = supply.shared[0] & ~supply.withheld
    isolated = supply.free_isolated(0)
    inner: Sequence[int] = room.inner
    lenient_inner: Sequence[int] = lenient.inner
    if context.demand.threads is not Threads.ANY:
        ordinary, isolated = on_free_cores(tree, ordinary), on_free_cores(tree, isolated)
        inner = lenient_inner = inner_on_cores(tree, ordinary, room.give)
        if lenient is not room:
            lenient_inner = inner_on_cores(tree, ordinary, lenient.give)
    reach: Sequence[int] = (ANYWHERE,) * len(tree.pools)
    if context.is_bound:
        reach = [reach_in(context, pool) for pool in tree.pools]
    return _Remaining(room, lenient, ordinary, isolated, inner, lenient_inner, reach)


def on_whole_cores(context: PlacementContext, room: Room) -> list[int]:
    """Return per pool how many CPUs it could give on wholly free cores: isolated ones where these are required."""
    strict = context.demand.isolation is Isolation.REQUIRE
    free = context.supply.free_isolated(0) if strict else context.supply.shared[0] & ~context.supply.withheld
    cores = on_free_cores(context.tree, free)
    if strict:
        return [(pool.isolated & cores).bit_count() for pool in context.tree.pools]
    return [min(*pair) for pair in zip(inner_on_cores(context.tree, cores, room.give), room.give, strict=True)]


def _offer(context: PlacementContext, remaining: _Remaining, pool: Pool) -> Offer:
    demand, reach = context.demand, remaining.reach[pool.index]
    previous, keep = 0, 0
    if context.request.previous is not None:
        previous, keep = retained(context, remaining.lenient, pool, reach)
    kept_isolated = keep & pool.isolated
    isolated = kept_isolated.bit_count()
    # Isolated CPUs are all or none: to ordinary ones that it keeps no isolated ones are added.
    if demand.isolation is not Isolation.NO and keep == kept_isolated:
        missing = demand.whole - isolated
        if (pool.isolated & remaining.isolated & reach & ~keep).bit_count() >= missing:
            isolated += missing
    sliced = demand.whole - isolated
    fits = _fits(context, remaining, pool, sliced, keep if previous else None)
    return Offer(fits, previous, keep, sliced, isolated)


def _fits(context: PlacementContext, remaining: _Remaining, pool: Pool, sliced: int, keep: int | None) -> bool:
    """Return whether the pool can give this. ``keep`` is None if the container was not in this pool before."""
    demand, i = context.demand, pool.index
    room, inner = remaining.room, remaining.inner
    if keep is not None:
        room, inner = remaining.lenient, remaining.lenient_inner
    if not remaining.reach[i] or not keeps_enough(context, keep or 0):
        return False
    if demand.is_zero:
        # Without a CPU of its own the pool's sharers run on what is shared above it, or on the reserved CPUs.
        # A strict preference is not met above: what is shared there is elsewhere, too.
        is_at_devices = demand.strict_locality and bool(near_devices(context))
        may_be_above = not (room.keep_busy or is_at_devices or demand.single_node)
        return bool(context.supply.shared[i]) or (may_be_above and context.supply.has_shared_cpus)
    if demand.hides and not _hides_in(context, pool, is_back=keep is not None):
        return False
    if sliced and (demand.isolation is Isolation.REQUIRE or min(room.spare[i], room.inner[i]) < sliced):
        return False
    if room.free_mcpu[i] < 1000 * sliced + demand.shared_mcpu:
        return False
    return not demand.whole or _has_such_cpus(context, remaining, pool, sliced, keep or 0, inner[i])


def _hides_in(context: PlacementContext, pool: Pool, *, is_back: bool) -> bool:
    """Return whether the pool has a core for each CPU that is shared with one thread of each core.

    ``is_back``: the container was here. It stays unless it runs and asks for more.
    """
    own, mcpu = context.own, context.demand.shared_mcpu
    # It did with the cores that were there: no reason to move it now.
    if is_back and (own is None or own.shared_mcpu >= mcpu):
        return True
    return 1000 * shared_cores(context, pool) >= mcpu


def shared_cores(context: PlacementContext, pool: Pool) -> int:
    """Return the cores that the shared set of the pool has threads of."""
    return one_thread_per_core(context.tree.sibling_shifts, context.supply.shared[pool.index]).bit_count()


def _has_such_cpus(
    context: PlacementContext, remaining: _Remaining, pool: Pool, sliced: int, keep: int, inner: int
) -> bool:
    """Return whether there are enough whole cores, and enough CPUs near the devices, if these are wanted.

    ``inner`` is how many CPUs on whole cores the pool can give.
    """
    reach = remaining.reach[pool.index]
    # Kept CPUs count as free ones here, so that what completes their cores is among these.
    ordinary = pool.sharable & remaining.ordinary & reach & ~keep
    if context.demand.threads is not Threads.ANY:
        missing = sliced - (keep & ~pool.isolated).bit_count()
        if min(ordinary.bit_count(), inner) < missing:
            return False
    if context.demand.distribution is CpuDistribution.ACROSS_CORES:
        free = pool.sharable & remaining.ordinary if sliced else pool.isolated & remaining.isolated
        missing = context.demand.whole - keep.bit_count()
        if on_other_cores(context.tree, free & reach, keep).bit_count() < missing:
            return False
    if reach == ANYWHERE:
        return True
    isolated = pool.isolated & remaining.isolated & reach if sliced < context.demand.whole else 0
    candidates = keep | isolated | (ordinary if sliced else 0)
    return candidates.bit_count() >= context.demand.whole and is_near_each(context, reach, candidates)
