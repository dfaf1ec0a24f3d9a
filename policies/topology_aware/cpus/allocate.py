"""Choose the CPUs of one pool for its offer: kept ones, own cores completed, the rest spread over the devices. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from policies.hardware.pools import Pool
from policies.preferences import CpuDistribution, Threads
from policies.topology_aware.cpus.cores import completing, on_free_cores
from policies.topology_aware.cpus.distribution import on_other_cores, pick_evenly
from policies.topology_aware.cpus.offer import Offer
from policies.topology_aware.cpus.pick_reasons import PickedCpus, how_picked
from policies.topology_aware.cpus.picker import CandidateCpus, least_cost, pick_cpus, reduced, within_limits
from policies.topology_aware.cpus.retained import additions, keeps_enough
from policies.topology_aware.cpus.tallies import Cost
from policies.topology_aware.locality.devices import Locality, is_near_each, localities, reach_in
from policies.topology_aware.supply.context import ANYWHERE, PlacementContext
from sysfs.cpuset import CpuSet


@dataclass(frozen=True, slots=True)
class Taken:
    """The CPUs that a pool gives, as masks, and in words how they were picked."""

    exclusive: int
    isolated: int
    why: str = ""


def take(context: PlacementContext, pool: Pool, offer: Offer, give: Sequence[int]) -> Taken | None:
    """Take the CPUs of this offer; None if the pool cannot give them after all. ``give`` bounds the pools below."""
    supply = context.supply
    reach = reach_in(context, pool) if context.is_bound else ANYWHERE
    if not reach or not keeps_enough(context, offer.keep):
        return None
    if not context.demand.whole:
        return Taken(0, 0)
    ordinary = offer.keep & supply.shared[pool.index]
    isolated = offer.keep & ~ordinary
    places = _places(context, pool, reach)
    near = _candidates(context, offer, give)
    if more := offer.sliced - ordinary.bit_count():
        candidates = _ordinary(context, pool, near, ordinary)
        found = _pick_distributed(context, candidates, pool, more, places)
        if not found:
            return None
        ordinary |= found
    if more := offer.isolated - isolated.bit_count():
        free = supply.free_isolated(pool.index) & reach & ~isolated
        # Real-time work shares no core while others are idle: its own, and idle ones, come first.
        idle = 0 if places else on_free_cores(context.tree, free | isolated) & free
        # Limits guard what pools below owe to their sharers, none of which runs on isolated CPUs.
        unbounded = replace(near, limits=[more] * len(context.tree.pools))
        tries = (replace(unbounded, free=cpus) for cpus in dict.fromkeys((idle, free)) if cpus.bit_count() >= more)
        picks = (_pick_distributed(context, candidates, pool, more, places) for candidates in tries)
        if not (found := next(filter(None, picks), 0)):
            return None
        isolated |= found
    owned = ordinary | isolated
    # A pick may miss one of the devices, and a strict preference wants a CPU near each.
    if context.is_bound and not is_near_each(context, reach, owned):
        return None
    picked = PickedCpus(owned, offer.keep, supply.owned, places, context.demand.priority)
    return Taken(ordinary, isolated, how_picked(context.tree, pool, picked))


def _pick_distributed(
    context: PlacementContext, candidates: CandidateCpus, pool: Pool, count: int, places: tuple[Locality, ...]
) -> int:
    """Pick CPUs as they should lie to each other; those that are near devices lie where these are."""
    held = candidates.near
    match context.demand.distribution:
        case CpuDistribution.ACROSS_CORES:
            candidates = replace(candidates, free=on_other_cores(context.tree, candidates.free, held))
        # CPUs near devices lie where these are, whatever the distribution.
        case CpuDistribution.ACROSS_NUMA if not places:
            return pick_evenly(candidates, pool, count, held)
    return pick_near(candidates, pool, count, places, held) or _pick_beside(candidates, pool, count, held)


def cost_in(context: PlacementContext, pool: Pool, offer: Offer, give: Sequence[int]) -> Cost | None:
    """Return what the ordinary CPUs of this offer would cost; None if it has none, or the pool cannot give them."""
    ordinary = offer.keep & context.supply.shared[pool.index]
    more = offer.sliced - ordinary.bit_count()
    if not more:
        return None
    return least_cost(_ordinary(context, pool, _candidates(context, offer, give), ordinary), pool, more)


def _candidates(context: PlacementContext, offer: Offer, give: Sequence[int]) -> CandidateCpus:
    """Return what may be picked, without the CPUs themselves."""
    cores = context.demand.threads is not Threads.ANY
    return CandidateCpus(context.tree, 0, give, offer.keep, context.demand.priority, cores)


def _ordinary(context: PlacementContext, pool: Pool, candidates: CandidateCpus, kept: int) -> CandidateCpus:
    """Return the free CPUs that are not isolated, beside those that are kept."""
    supply = context.supply
    reach = reach_in(context, pool) if context.is_bound else ANYWHERE
    free = supply.shared[pool.index] & ~supply.withheld & reach & ~kept
    return replace(candidates, free=free, limits=reduced(context.tree, candidates.limits, kept))


def added_after(context: PlacementContext, offer: Offer, taken: Taken) -> tuple[CpuSet, ...]:
    """Return ``Grant.added`` of what is taken: the batches of kept CPUs in order, then the new ones."""
    if not offer.keep:
        return ()
    kept = [batch & offer.keep for batch in additions(context.request.previous)]
    came = (taken.exclusive | taken.isolated) & ~offer.keep
    # The first batch is the size that it began with: ``Grant.added`` lists what came after.
    return tuple(CpuSet(batch) for batch in (*kept, came) if batch)[1:]


def _places(context: PlacementContext, pool: Pool, reach: int) -> tuple[Locality, ...]:
    """Return where owned CPUs should be; () if the devices are near all of the pool, or the pod declines it."""
    declined = context.request.preferences.spread_by_locality is False and reach == ANYWHERE
    if declined or not context.request.localities:
        return ()
    return localities(context.tree.machine, context.request.localities, pool.sharable | pool.isolated)


def _pick_beside(candidates: CandidateCpus, pool: Pool, count: int, held: int) -> int:
    """Pick CPUs. Cores of which the container holds a part are completed first: no other one gets the siblings."""
    own = completing(candidates.tree, held, candidates.free, count) if held else 0
    if own and within_limits(candidates.tree, pool, own, candidates.limits):
        left = count - own.bit_count()
        rest = _rest(candidates, own, candidates.free)
        more = pick_cpus(rest, pool, left) if left else 0
        if more or not left:
            return own | more
    return pick_cpus(candidates, pool, count)


def pick_near(candidates: CandidateCpus, pool: Pool, count: int, places: Sequence[Locality], held: int = 0) -> int:
    """Pick ``count`` CPUs as a mask, the same number near each place; 0 when that is impossible.

    This is nri-plugins' picking by hints. If the number does not divide, or too few are free at a place: one (a core,
    if whole ones are preferred) near each, the rest beside these; fewer CPUs than places are near some. ``held`` are
    CPUs that the container keeps; they count where they are.
    """
    step = candidates.tree.threads_per_core if candidates.whole else 1
    steps = (count + held.bit_count()) // step
    if not places:
        return 0
    if steps < len(places):  # near one of them at least
        return pick_cpus(_rest(candidates, 0, reduce(or_, (place.cpus for place in places))), pool, count)
    even = steps // len(places) if steps % len(places) == 0 else 1
    shares = (even * step, step) if even > 1 else (step,)
    return next(filter(None, (_pick_shares(candidates, pool, count, places, share=n, held=held) for n in shares)), 0)


def _pick_shares(
    candidates: CandidateCpus, pool: Pool, count: int, places: Sequence[Locality], *, share: int, held: int
) -> int:
    """Pick at least ``share`` CPUs near each place, including those that are ``held``."""
    taken = 0
    for place in places:
        # A CPU near several devices counts for each of them.
        missing = share - ((held | taken) & place.cpus).bit_count()
        if missing <= 0:
            continue
        if missing > count - taken.bit_count():
            return 0
        found = pick_cpus(_rest(candidates, taken, place.cpus), pool, missing)
        if not found:
            return 0
        taken |= found
    left = count - taken.bit_count()
    if not left:
        return taken
    rest = _rest(candidates, taken, candidates.free)
    for place in places:
        rest = replace(rest, near=rest.near | rest.free & place.cpus)
    beside = _pick_beside(rest, pool, left, held | taken)
    return taken | beside if beside else 0


def _rest(candidates: CandidateCpus, taken: int, among: int) -> CandidateCpus:
    return replace(
        candidates,
        free=candidates.free & among & ~taken,
        limits=reduced(candidates.tree, candidates.limits, taken),
        near=candidates.near | taken,
    )
