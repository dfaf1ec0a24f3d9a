"""What a pool would give to a request, and whether it can: counts first, CPUs only for the pool that is chosen."""

from dataclasses import dataclass

from policies.base import Grant, Previous, Request
from policies.cpus import Quarry, pick_cpus, within_limits
from policies.demand import Demand, Isolation
from policies.options import PolicyOptions
from policies.pools import Pool, PoolTree
from policies.supply import Room, Supply
from sysfs.cpuset import CpuSet


@dataclass(frozen=True, slots=True)
class Case:
    """One request in its circumstances. ``supply`` and ``others`` are without a grant of the container itself.

    ``holds``: there is such a grant, so this is about a new size.
    """

    tree: PoolTree
    options: PolicyOptions
    supply: Supply
    others: tuple[Grant, ...]
    request: Request
    demand: Demand
    holds: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """What one pool would give. ``keep`` are CPUs that the container had before and gets again.

    ``sliced`` ordinary CPUs and ``isolated`` ones are owned alone, kept ones included. ``previous`` is above zero
    for the container's earlier pool and those above it, if the earlier CPUs can be had: deeper ones higher.
    """

    fits: bool
    previous: int
    keep: int
    sliced: int
    isolated: int


@dataclass(frozen=True, slots=True)
class Taken:
    """The CPUs that a pool gives: masks."""

    exclusive: int
    isolated: int


@dataclass(frozen=True, slots=True)
class _Holding:
    """Earlier CPUs that can be had, by kind: masks."""

    ordinary: int
    isolated: int

    @property
    def cpus(self) -> int:
        return self.ordinary | self.isolated


def offers_of(case: Case, room: Room, lenient: Room) -> tuple[Offer, ...]:
    """What every pool would give under the rule of ``room``.

    ``lenient`` is for pools where the container was before: it must not move because others without a share
    have moved in meanwhile.
    """
    return tuple(_offer(case, room, lenient, pool) for pool in case.tree.pools)


def _offer(case: Case, room: Room, lenient: Room, pool: Pool) -> Offer:
    demand = case.demand
    previous, keep = _earlier(case, lenient, pool) if case.request.previous is not None else (0, 0)
    free_isolated = case.supply.free_isolated(pool.index)
    isolated = (keep & free_isolated).bit_count()
    missing = demand.whole - keep.bit_count()
    enough = (free_isolated & ~keep).bit_count() >= missing
    if demand.isolation is not Isolation.NO and enough and not keep & ~free_isolated:
        isolated += missing
    sliced = demand.whole - isolated
    fits = _fits(case, lenient if previous else room, pool.index, sliced)
    return Offer(fits, previous, keep, sliced, isolated)


def _fits(case: Case, room: Room, pool: int, sliced: int) -> bool:
    demand = case.demand
    if demand.is_zero:
        # Without a CPU of its own the pool's sharers run on what is shared above it, or on the reserved CPUs.
        return bool(case.supply.shared[pool]) or (not room.keep_busy and case.supply.someone_shares)
    if demand.isolation is Isolation.REQUIRE and sliced:
        return False
    if room.free_mcpu[pool] < 1000 * sliced + demand.shared_mcpu:
        return False
    return not sliced or (room.spare[pool] >= sliced and room.inner[pool] >= sliced)


def _earlier(case: Case, room: Room, pool: Pool) -> tuple[int, int]:
    """(rank, CPUs to keep) if this is the container's earlier pool or above it, else zeros."""
    previous = case.request.previous
    if previous is None:
        return 0, 0
    home = case.tree.by_name.get(previous.pool)
    if home is not None and pool.index not in case.tree.pools[home].path:
        return 0, 0
    if home is None and not previous.owned:
        return 0, 0
    rank = pool.depth + 1
    if not case.demand.whole or not previous.owned:
        return rank, 0
    keep = _keepable(case, pool, previous.owned.mask)
    below = keep & case.supply.shared[pool.index]
    if not keep or not within_limits(case.tree, pool, below, room.give):
        return 0, 0
    return rank, keep


def _keepable(case: Case, pool: Pool, owned: int) -> int:
    """All earlier CPUs if no fewer are asked, else as many of them as are asked; 0 if they cannot be had."""
    ordinary = owned & case.supply.shared[pool.index] & ~case.supply.withheld
    isolated = owned & case.supply.free_isolated(pool.index)
    count = case.demand.whole
    if case.demand.isolation is Isolation.REQUIRE:
        ordinary = 0
        if isolated != owned and isolated.bit_count() < count:
            return 0
    if owned.bit_count() <= count:
        return owned if ordinary | isolated == owned else 0
    if (ordinary | isolated).bit_count() < count:
        return 0
    return _oldest(case, pool, _Holding(ordinary, isolated), count)


def _oldest(case: Case, pool: Pool, free: _Holding, count: int) -> int:
    """So many of the earlier CPUs that are free: what was added last is given back first (spec section 7)."""
    kept = 0
    for batch in additions(case.request.previous):
        here = _Holding(free.ordinary & batch, free.isolated & batch)
        missing = count - kept.bit_count()
        if here.cpus.bit_count() >= missing:
            return kept | _pick_of_one_age(case, pool, here, missing, kept)
        kept |= here.cpus
    return kept


def _pick_of_one_age(case: Case, pool: Pool, free: _Holding, count: int, near: int) -> int:
    if case.demand.isolation is not Isolation.NO and free.isolated.bit_count() >= count:
        return _pick_among(case, pool, free.isolated, count, near)
    if free.ordinary.bit_count() >= count:
        return _pick_among(case, pool, free.ordinary, count, near)
    more = count - free.ordinary.bit_count()
    return free.ordinary | _pick_among(case, pool, free.isolated, more, near | free.ordinary)


def additions(previous: Previous | None) -> tuple[int, ...]:
    """The earlier CPUs as masks, in the order in which they came; every CPU is in one of them."""
    if previous is None:
        return ()
    batches: list[int] = []
    left = previous.owned.mask
    for later in reversed(previous.added):
        batches.append(later.mask & left)
        left &= ~later.mask
    return tuple(batch for batch in (left, *reversed(batches)) if batch)


def added_after(case: Case, offer: Offer, taken: Taken) -> tuple[CpuSet, ...]:
    """``Grant.added`` of what is taken: the ages of kept CPUs, and those that come now as the newest."""
    if not offer.keep:
        return ()
    kept = [batch & offer.keep for batch in additions(case.request.previous)]
    came = (taken.exclusive | taken.isolated) & ~offer.keep
    return tuple(CpuSet(batch) for batch in (*kept, came) if batch)[1:]


def _pick_among(case: Case, pool: Pool, cpus: int, count: int, near: int = 0) -> int:
    unbounded = [cpus.bit_count()] * len(case.tree.pools)
    return pick_cpus(Quarry(case.tree, cpus, unbounded, near), pool, count)


def take(case: Case, pool: Pool, offer: Offer, give: tuple[int, ...]) -> Taken | None:
    """The CPUs of this offer, or None when the pool cannot give them after all. ``give`` bounds the pools below."""
    supply = case.supply
    kept = offer.keep & supply.shared[pool.index]
    exclusive = kept
    more = offer.sliced - kept.bit_count()
    if more:
        limits = give
        if kept:
            limits = tuple(n - (kept & p.cpus).bit_count() for n, p in zip(give, case.tree.pools, strict=True))
        free = supply.shared[pool.index] & ~supply.withheld & ~kept
        extra = pick_cpus(Quarry(case.tree, free, limits, offer.keep), pool, more)
        if not extra:
            return None
        exclusive |= extra
    isolated = offer.keep & ~kept
    more = offer.isolated - isolated.bit_count()
    if more:
        extra = _pick_among(case, pool, supply.free_isolated(pool.index) & ~isolated, more, offer.keep)
        if not extra:
            return None
        isolated |= extra
    return Taken(exclusive, isolated)
