"""Taking the CPUs of an offer: kept ones, whole cores, near devices, of the preferred priority, within the limits."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from policies.base import Threads
from policies.hardware.pools import Pool
from policies.topology_aware.cpus.cores import completing
from policies.topology_aware.cpus.offer import Offer
from policies.topology_aware.cpus.pick_reasons import Picked, how_picked
from policies.topology_aware.cpus.picker import Quarry, pick_cpus, reduced, within_limits
from policies.topology_aware.cpus.retained import additions
from policies.topology_aware.cpus.spread import pick_near
from policies.topology_aware.locality.devices import Locality, localities
from policies.topology_aware.locality.strict_devices import ANYWHERE, is_near_each, reach_in
from policies.topology_aware.supply.case import Case
from sysfs.cpuset import CpuSet


@dataclass(frozen=True, slots=True)
class Taken:
    """The CPUs that a pool gives, as masks, and in a few words for people how they were picked."""

    exclusive: int
    isolated: int
    why: str = ""


def take(case: Case, pool: Pool, offer: Offer, give: Sequence[int]) -> Taken | None:
    """The CPUs of this offer, or None when the pool cannot give them after all. ``give`` bounds the pools below."""
    supply = case.supply
    reach = reach_in(case, pool)
    if not reach:
        return None
    if not case.demand.whole:
        return Taken(0, 0)
    ordinary = offer.keep & supply.shared[pool.index]
    isolated = offer.keep & ~ordinary
    places = _places(case, pool, reach)
    near = Quarry(case.tree, 0, give, offer.keep, case.demand.priority, case.demand.threads is not Threads.ANY)
    if more := offer.sliced - ordinary.bit_count():
        free = supply.shared[pool.index] & ~supply.withheld & reach & ~ordinary
        quarry = replace(near, free=free, limits=reduced(case.tree, give, ordinary))
        found = _pick(quarry, pool, more, places, offer.keep)
        if not found:
            return None
        ordinary |= found
    if more := offer.isolated - isolated.bit_count():
        free = supply.free_isolated(pool.index) & reach & ~isolated
        unbounded = [more] * len(case.tree.pools)
        found = _pick(replace(near, free=free, limits=unbounded), pool, more, places, offer.keep)
        if not found:
            return None
        isolated |= found
    owned = ordinary | isolated
    if not is_near_each(case, reach, owned):
        return None
    picked = Picked(owned, offer.keep, supply.owned, places, case.demand.priority)
    return Taken(ordinary, isolated, how_picked(case.tree, pool, picked))


def added_after(case: Case, offer: Offer, taken: Taken) -> tuple[CpuSet, ...]:
    """``Grant.added`` of what is taken: the ages of kept CPUs, and those that come now as the newest."""
    if not offer.keep:
        return ()
    kept = [batch & offer.keep for batch in additions(case.request.previous)]
    came = (taken.exclusive | taken.isolated) & ~offer.keep
    return tuple(CpuSet(batch) for batch in (*kept, came) if batch)[1:]


def _places(case: Case, pool: Pool, reach: int) -> tuple[Locality, ...]:
    """Where the owned CPUs are to be; none if the devices are near all of the pool, or it was declined."""
    declined = case.request.preferences.spread_by_hints is False and reach == ANYWHERE
    if declined or not case.request.hints:
        return ()
    return localities(case.tree.machine, case.request.hints, pool.sharable | pool.isolated)


def _pick(quarry: Quarry, pool: Pool, count: int, places: tuple[Locality, ...], held: int) -> int:
    return pick_near(quarry, pool, count, places, held) or _pick_beside(quarry, pool, count, held)


def _pick_beside(quarry: Quarry, pool: Pool, count: int, held: int) -> int:
    """Plain picking; with whole cores, those of which the container holds a part are completed first."""
    mine = completing(quarry.tree, held, quarry.free & pool.cpus, count) if quarry.whole and held else 0
    if mine and within_limits(quarry.tree, pool, mine, quarry.limits):
        left = count - mine.bit_count()
        rest = replace(quarry, free=quarry.free & ~mine, limits=reduced(quarry.tree, quarry.limits, mine))
        more = pick_cpus(rest, pool, left) if left else 0
        if more or not left:
            return mine | more
    return pick_cpus(quarry, pool, count)
