"""Why a pool was chosen, why others were not, and why a container is refused: reasons and the told ranking."""

from dataclasses import dataclass

from policies.base import Grant, Ranked, Reason, Rejected, Threads
from policies.hardware.pools import Pool
from policies.topology_aware import reasons
from policies.topology_aware.cpus.allocate import Taken
from policies.topology_aware.cpus.offer import Offer
from policies.topology_aware.ranking import Ranking
from policies.topology_aware.score import deciding_field, ranked
from policies.topology_aware.supply.case import Case
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.unmet_devices import hints_unmet, why_not_near
from sysfs.cpuset import CpuSet


@dataclass(frozen=True, slots=True)
class Found:
    """A pool that gives what is asked. ``best`` is the pool that was ranked first, and made the offer."""

    pool: Pool
    best: int
    offer: Offer
    taken: Taken
    moved: tuple[Grant, ...]
    reasons: tuple[Reason, ...]


def why_found(case: Case, ranking: Ranking, found: Found) -> tuple[Reason, ...]:
    """The reasons of a placement, what led to it first, the pool last."""
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
        case.tree.root.isolated or case.request.preferences.prefer_isolated
    )
    if wished and not offer.isolated:
        exist = bool(case.tree.root.isolated)
        why.append(reasons.isolated_short(pools[found.best].name, case.demand.whole, exist=exist))
    owned = CpuSet(found.taken.exclusive | found.taken.isolated)
    if owned.mask & ~offer.keep:
        why.append(reasons.cpus_picked(owned, found.taken.why))
    rest = [i for i in ranking.order if i != found.best]
    runner_up = pools[rest[0]].name if rest else ""
    field = deciding_field(ranking.keys[found.best], ranking.keys[rest[0]]) if rest else ""
    gives = reasons.given_text(offer.sliced, offer.isolated, case.demand.shared_mcpu)
    why.append(reasons.pool_chosen(pools[found.best].name, gives, runner_up, field))
    return tuple(why)


def _used_up(case: Case, found: Found) -> tuple[str, ...]:
    """Pools whose last shared CPU is taken while containers without a share sit in them."""
    supply, taken = case.supply, found.taken.exclusive
    return tuple(
        pool.name
        for pool in case.tree.pools
        if supply.resting[pool.index] and supply.shared[pool.index] and not supply.shared[pool.index] & ~taken
    )


def told(case: Case, ranking: Ranking, found: Found | None) -> tuple[Ranked, ...]:
    """The pools best first, each with what came of it; without ``found`` none gave what was asked."""
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


def _why_unfit(case: Case, ranking: Ranking, pool: int) -> str:
    if ranking.offers[pool].fits:
        return "does not have the memory that is strictly wanted"
    free_isolated = case.supply.free_isolated(pool).bit_count()
    if case.demand.isolation is Isolation.REQUIRE and free_isolated < case.demand.whole:
        return f"too few isolated CPUs: {free_isolated} free"
    far = why_not_near(case, case.tree.pools[pool])
    if far:
        return far
    free = max(0, ranking.room.free_mcpu[pool])
    if case.demand.threads is not Threads.ANY and free >= 1000 * case.demand.whole + case.demand.shared_mcpu:
        return "too few CPUs on cores that are wholly free"
    return reasons.too_small(free, ranking.room.give[pool])


def rejected(case: Case, ranking: Ranking) -> Rejected:
    """No pool gives what is asked: what was wanted, what was free, where."""
    pools, supply, demand = case.tree.pools, case.supply, case.demand
    free_isolated = supply.free_isolated(0).bit_count()
    if demand.isolation is Isolation.REQUIRE and free_isolated < demand.whole:
        reason = reasons.isolated_missing(demand, free_isolated, exist=bool(case.tree.root.isolated))
    elif (unmet := hints_unmet(case, ranking.room)) is not None:
        reason = unmet
    elif demand.is_zero:
        reason = reasons.nothing_shared()
    else:
        room = ranking.room
        best = max(range(1, len(pools)), key=lambda i: (room.free_mcpu[i], -i), default=0)
        reason = reasons.cpu_full(demand, room.free_mcpu[0], room.give[0], pools[best].name, room.free_mcpu[best])
    return Rejected(reason, told(case, ranking, None))
