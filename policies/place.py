"""Choosing the pool and the CPUs of one container, in three passes; the place where a decision is made.

1. Every pool keeps what it owes, and a pool whose shared set is used keeps a CPU.
2. Only if no pool can give what is asked: pools that hold nothing but containers without a CPU request may be emptied.
3. Only if that is not enough: shared grants are lifted to wider pools (``lift``).
"""

from dataclasses import dataclass, replace

from policies import reasons
from policies.affinity import affinity_scores
from policies.base import CpuKind, Grant, Ranked, Reason, Rejected
from policies.cpus import whole_core_counts
from policies.demand import Isolation
from policies.device_hints import hint_scores
from policies.lift import plan_lifts
from policies.offer import Case, Offer, Taken, added_after, offers_of, take
from policies.pools import Pool
from policies.score import Key, deciding_field, ranked
from policies.supply import Room, Supply, room_of
from sysfs.cpuset import CpuSet, NodeSet


@dataclass(frozen=True, slots=True)
class Placement:
    """A grant, the grants of others that move for it, and why."""

    grant: Grant
    moved: tuple[Grant, ...] = ()
    reasons: tuple[Reason, ...] = ()
    ranking: tuple[Ranked, ...] = ()


@dataclass(frozen=True, slots=True)
class _Pulls:
    """What draws the container to pools whatever they can give; one entry per pool."""

    affinity: tuple[float, ...]
    hints: tuple[float, ...]
    free_memory_bytes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The pools as one pass sees them; ``order`` is best first. ``lenient`` is the rule for earlier pools."""

    room: Room
    lenient: Room
    offers: tuple[Offer, ...]
    keys: tuple[Key, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Found:
    """A pool that gives what is asked. ``best`` is the pool that was ranked first, and made the offer."""

    pool: Pool
    best: int
    offer: Offer
    taken: Taken
    moved: tuple[Grant, ...]
    reasons: tuple[Reason, ...]


def place(case: Case) -> Placement | Rejected:
    """Where this container goes."""
    if case.demand.conflict:
        return Rejected(reasons.strict_conflict(case.demand.conflict))
    match case.demand.kind:
        case CpuKind.PRESERVE:
            grant = Grant(case.request, "", CpuKind.PRESERVE)
            why = reasons.preserved(wants_isolated=case.request.wishes.require_isolated)
            return Placement(grant, reasons=(why,))
        case CpuKind.RESERVED:
            return _place_reserved(case)
        case _:
            return _place_in_pool(case)


def _mems(case: Case, pool: Pool) -> NodeSet:
    return NodeSet() if case.request.wishes.preserve_memory else NodeSet(pool.mems)


def _place_reserved(case: Case) -> Placement | Rejected:
    if not case.supply.reserved_set():
        return Rejected(reasons.nothing_shared())
    root = case.tree.root
    grant = Grant(
        case.request,
        root.name,
        CpuKind.RESERVED,
        reserved_mcpu=case.demand.reserved_mcpu,
        mems=_mems(case, root),
    )
    annotated = case.request.wishes.prefer_reserved is True
    return Placement(grant, reasons=(reasons.reserved(CpuSet(root.reserved), by_annotation=annotated),))


def _place_in_pool(case: Case) -> Placement | Rejected:
    lenient = room_of(case.supply, keep_busy=False)
    pulls = _Pulls(
        affinity_scores(case.tree, case.options, case.request, case.others),
        hint_scores(case.tree, case.request.hints),
        _free_memory(case),
    )
    ranking = _rank(case, pulls, room_of(case.supply, keep_busy=True), lenient)
    found = _first_that_gives(case, ranking)
    if found is None:
        ranking = _rank(case, pulls, lenient, lenient)
        found = _first_that_gives(case, ranking)
    if found is None:
        found = _after_lifting(case, ranking)
    if found is None:
        return _rejected(case, ranking)
    return _placement(case, ranking, found)


def _rank(case: Case, pulls: _Pulls, room: Room, lenient: Room) -> _Ranking:
    offers = offers_of(case, room, lenient)
    keys = _keys(case, pulls, room, offers)
    order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
    return _Ranking(room, lenient, offers, keys, tuple(order))


def _keys(case: Case, pulls: _Pulls, room: Room, offers: tuple[Offer, ...]) -> tuple[Key, ...]:
    demand, supply = case.demand, case.supply
    cores = whole_core_counts(case.tree, supply.shared[0] & ~supply.withheld, demand.whole)
    wants_isolated = demand.isolation is not Isolation.NO
    keys = []
    for pool in case.tree.pools:
        i = pool.index
        offer = offers[i]
        left = room.free_mcpu[i] - 1000 * offer.sliced - demand.shared_mcpu
        if offer.isolated:
            left = supply.free_isolated(i).bit_count() - offer.isolated
        keys.append(
            Key(
                fits=int(offer.fits),
                previous=offer.previous,
                isolated=int(wants_isolated and offer.isolated > 0),
                affinity=pulls.affinity[i],
                hints=pulls.hints[i],
                hint_depth=pool.depth if pulls.hints[i] else 0,
                memory=int(pulls.free_memory_bytes[i] >= case.request.memory_request_bytes),
                burst_mcpu=max(0, min(room.free_mcpu[i], demand.burst_mcpu)),
                few_nodes=-pool.mems.bit_count(),
                depth=pool.depth,
                quiet=0 if demand.whole else -supply.sharers[i],
                cores=cores[i] if offer.sliced else 0,
                left=left,
                first=-i,
            )
        )
    return tuple(keys)


def _free_memory(case: Case) -> tuple[int, ...]:
    """Per pool, bytes not promised to the containers in its subtree, nor in any pool above."""
    result: list[int] = []
    for pool in case.tree.pools:
        left = pool.memory_bytes - case.supply.memory_bytes[pool.index]
        result.append(left if pool.parent < 0 else min(left, result[pool.parent]))
    return tuple(result)


def _first_that_gives(case: Case, ranking: _Ranking) -> _Found | None:
    """The best pool that gives what is asked, displaced upward if so wished; the next one if it does not."""
    pools = case.tree.pools
    for i in ranking.order:
        if not ranking.keys[i].fits:
            return None
        offer = ranking.offers[i]
        # An earlier pool is where displacement led to: it is not displaced again.
        levels = 0 if offer.previous else case.demand.levels_up
        path = pools[i].path
        pool = pools[path[min(levels, len(path) - 1)]]
        room = ranking.lenient if offer.previous else ranking.room
        taken = take(case, pool, offer, room.give)
        if taken is not None:
            why = (reasons.levels_up(pools[i].name, pool.name, case.demand.levels_up),) if pool.index != i else ()
            return _Found(pool, i, offer, taken, (), why)
    return None


def _after_lifting(case: Case, ranking: _Ranking) -> _Found | None:
    """The pool that has the CPU time once the fewest shared grants have moved up."""
    demand = case.demand
    best: tuple[int, tuple[Grant, ...]] | None = None
    for i in ranking.order:
        sliced = ranking.offers[i].sliced
        if not sliced or demand.isolation is Isolation.REQUIRE:
            continue
        enough = ranking.room.free_mcpu[i] >= 1000 * sliced + demand.shared_mcpu
        if not enough or ranking.room.spare[i] < sliced:
            continue
        moved = plan_lifts(case, case.tree.pools[i], sliced)
        if moved is not None and (best is None or len(moved) < len(best[1])):
            best = (i, moved)
    if best is None:
        return None
    i, moved = best
    pool = case.tree.pools[i]
    lifted = replace(case, supply=_with_moved(case, moved))
    room = room_of(lifted.supply, keep_busy=False)
    offer = offers_of(lifted, room, room)[i]
    taken = take(lifted, pool, offer, room.give)
    return _Found(pool, i, offer, taken, moved, (reasons.lifted(moved),)) if taken is not None else None


def _with_moved(case: Case, moved: tuple[Grant, ...]) -> Supply:
    homes = {g.container for g in moved}
    return case.supply.minus(*(g for g in case.others if g.container in homes)).plus(*moved)


def _placement(case: Case, ranking: _Ranking, found: _Found) -> Placement:
    demand, taken = case.demand, found.taken
    grant = Grant(
        case.request,
        found.pool.name,
        _kind(demand.shared_mcpu, taken),
        exclusive=CpuSet(taken.exclusive),
        isolated=CpuSet(taken.isolated),
        shared_mcpu=demand.shared_mcpu,
        mems=_mems(case, found.pool),
        added=added_after(case, found.offer, taken),
    )
    return Placement(grant, found.moved, _why(case, ranking, found), _told(case, ranking, found))


def _kind(shared_mcpu: int, taken: Taken) -> CpuKind:
    if not taken.exclusive and not taken.isolated:
        return CpuKind.SHARED
    if shared_mcpu:
        return CpuKind.MIXED
    return CpuKind.EXCLUSIVE if taken.exclusive else CpuKind.ISOLATED


def _why(case: Case, ranking: _Ranking, found: _Found) -> tuple[Reason, ...]:
    pools = case.tree.pools
    why = list(found.reasons)
    offer, previous = found.offer, case.request.previous
    if previous is not None and offer.keep:
        why.append(reasons.previous_kept(CpuSet(offer.keep), previous, holds=case.holds))
    elif previous is not None and not offer.previous:
        why.append(reasons.previous_lost(previous, holds=case.holds))
    used_up = _used_up(case, found)
    if used_up:
        why.append(reasons.emptied(used_up))
    wished = case.demand.isolation is not Isolation.NO and (
        case.tree.root.isolated or case.request.wishes.prefer_isolated
    )
    if wished and not offer.isolated:
        exist = bool(case.tree.root.isolated)
        why.append(reasons.isolated_short(pools[found.best].name, case.demand.whole, exist=exist))
    rest = [i for i in ranking.order if i != found.best]
    runner_up = pools[rest[0]].name if rest else ""
    field = deciding_field(ranking.keys[found.best], ranking.keys[rest[0]]) if rest else ""
    gives = reasons.given_text(offer.sliced, offer.isolated, case.demand.shared_mcpu)
    why.append(reasons.pool_chosen(pools[found.best].name, gives, runner_up, field))
    return tuple(why)


def _used_up(case: Case, found: _Found) -> tuple[str, ...]:
    """Pools whose last shared CPU is taken while containers without a share sit in them."""
    supply, taken = case.supply, found.taken.exclusive
    return tuple(
        pool.name
        for pool in case.tree.pools
        if supply.resting[pool.index] and supply.shared[pool.index] and not supply.shared[pool.index] & ~taken
    )


def _told(case: Case, ranking: _Ranking, found: _Found | None) -> tuple[Ranked, ...]:
    outcomes = []
    for pool in case.tree.pools:
        i = pool.index
        if found is not None and i == found.pool.index:
            outcomes.append("chosen")
        elif found is not None and i == found.best:
            outcomes.append(f"best; {found.pool.name} is above it as wished")
        elif ranking.keys[i].fits:
            outcomes.append("not tried")
        else:
            outcomes.append(_why_unfit(case, ranking, i))
    return ranked([p.name for p in case.tree.pools], ranking.keys, outcomes)


def _why_unfit(case: Case, ranking: _Ranking, pool: int) -> str:
    free_isolated = case.supply.free_isolated(pool).bit_count()
    if case.demand.isolation is Isolation.REQUIRE and free_isolated < case.demand.whole:
        return f"too few isolated CPUs: {free_isolated} free"
    free = max(0, ranking.room.free_mcpu[pool])
    return reasons.too_small(free, ranking.room.give[pool])


def _rejected(case: Case, ranking: _Ranking) -> Rejected:
    pools, supply, demand = case.tree.pools, case.supply, case.demand
    free_isolated = supply.free_isolated(0).bit_count()
    if demand.isolation is Isolation.REQUIRE and free_isolated < demand.whole:
        reason = reasons.isolated_missing(demand, free_isolated, exist=bool(case.tree.root.isolated))
    elif demand.is_zero:
        reason = reasons.nothing_shared()
    else:
        room = ranking.room
        best = max(range(1, len(pools)), key=lambda i: (room.free_mcpu[i], -i), default=0)
        reason = reasons.cpu_full(demand, room.free_mcpu[0], room.give[0], pools[best].name, room.free_mcpu[best])
    return Rejected(reason, _told(case, ranking, None))
