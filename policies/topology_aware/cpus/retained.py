"""CPUs that a container held before: which of them it keeps, and in which order they came."""

from dataclasses import dataclass, replace

from policies.base import Previous, Threads
from policies.hardware.pools import Pool
from policies.topology_aware.cpus.picker import CandidateCpus, pick_cpus, within_limits
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.supply import Room


@dataclass(frozen=True, slots=True)
class _EarlierCpus:
    """Earlier CPUs that are free, by kind: masks."""

    ordinary: int
    isolated: int

    @property
    def cpus(self) -> int:
        return self.ordinary | self.isolated


def retained(context: PlacementContext, room: Room, pool: Pool, reach: int) -> tuple[int, int]:
    """Return (rank, CPUs to keep) if this is the container's earlier pool or above it, else zeros.

    The rank is higher for deeper pools. CPUs outside ``reach`` are not kept.
    """
    previous = context.request.previous
    if previous is None:
        return 0, 0
    home = context.tree.by_name.get(previous.pool)
    if home is not None and pool.index not in context.tree.pools[home].path:
        return 0, 0
    if (home is None and not previous.owned) or (previous.only_there and home not in (None, pool.index)):
        return 0, 0
    rank = pool.depth + 1
    if not context.demand.whole or not previous.owned:
        return rank, 0
    keep = _keepable(context, pool, previous.owned.mask)
    below = keep & context.supply.shared[pool.index]
    if not keep or keep & ~reach or not within_limits(context.tree, pool, below, room.give):
        return 0, 0
    return rank, keep


def _keepable(context: PlacementContext, pool: Pool, owned: int) -> int:
    """Return all earlier CPUs if no fewer are asked, else as many as are asked; 0 if they are not free."""
    ordinary = owned & context.supply.shared[pool.index] & ~context.supply.withheld
    isolated = owned & context.supply.free_isolated(pool.index)
    count = context.demand.whole
    if context.demand.isolation is Isolation.REQUIRE:
        ordinary = 0
        if isolated != owned and isolated.bit_count() < count:
            return 0
    if owned.bit_count() <= count:
        return owned if ordinary | isolated == owned else 0
    if (ordinary | isolated).bit_count() < count:
        return 0
    return _oldest(context, pool, _EarlierCpus(ordinary, isolated), count)


def _oldest(context: PlacementContext, pool: Pool, free: _EarlierCpus, count: int) -> int:
    """Return so many of the free earlier CPUs, without those added last (docs/placement.md, Enactment)."""
    kept = 0
    for batch in additions(context.request.previous):
        here = _EarlierCpus(free.ordinary & batch, free.isolated & batch)
        missing = count - kept.bit_count()
        if here.cpus.bit_count() >= missing:
            return kept | _pick_of_one_age(context, pool, here, missing, kept)
        kept |= here.cpus
    return kept


def _pick_of_one_age(context: PlacementContext, pool: Pool, free: _EarlierCpus, count: int, near: int) -> int:
    if context.demand.isolation is not Isolation.NO and free.isolated.bit_count() >= count:
        return _pick_among(context, pool, free.isolated, count, near)
    if free.ordinary.bit_count() >= count:
        return _pick_among(context, pool, free.ordinary, count, near)
    more = count - free.ordinary.bit_count()
    return free.ordinary | _pick_among(context, pool, free.isolated, more, near | free.ordinary)


def _pick_among(context: PlacementContext, pool: Pool, cpus: int, count: int, near: int) -> int:
    """Return so many of these, on whole cores if such are preferred and the earlier ones were."""
    unbounded = [cpus.bit_count()] * len(context.tree.pools)
    candidates = CandidateCpus(context.tree, cpus, unbounded, near, context.demand.priority)
    if context.demand.threads is not Threads.ANY and (cores := pick_cpus(replace(candidates, whole=True), pool, count)):
        return cores
    return pick_cpus(candidates, pool, count)


def additions(previous: Previous | None) -> tuple[int, ...]:
    """Return the earlier CPUs as masks, in the order in which they came; every CPU is in one of them."""
    if previous is None:
        return ()
    batches: list[int] = []
    left = previous.owned.mask
    for later in reversed(previous.added):
        batches.append(later.mask & left)
        left &= ~later.mask
    return tuple(batch for batch in (left, *reversed(batches)) if batch)
