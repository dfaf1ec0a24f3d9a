"""What a pool would give to a request, and whether it can: counts first, CPUs only for the pool that is chosen."""

from dataclasses import dataclass

from policies.base import Grant, Request
from policies.cpus import Quarry, pick_cpus, within_limits
from policies.demand import Demand, Isolation
from policies.options import PolicyOptions
from policies.pools import Pool, PoolTree
from policies.supply import Room, Supply


@dataclass(frozen=True, slots=True)
class Case:
    """One request in its circumstances. ``supply`` and ``others`` are without a grant of the container itself."""

    tree: PoolTree
    options: PolicyOptions
    supply: Supply
    others: tuple[Grant, ...]
    request: Request
    demand: Demand


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
    if case.demand.isolation is not Isolation.NO and isolated.bit_count() >= count:
        return _pick_among(case, pool, isolated, count)
    if ordinary.bit_count() >= count:
        return _pick_among(case, pool, ordinary, count)
    if (ordinary | isolated).bit_count() < count:
        return 0
    return ordinary | _pick_among(case, pool, isolated, count - ordinary.bit_count())


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
