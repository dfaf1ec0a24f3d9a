"""The pools as one pass of the search sees them: what each would give, its key, and the order."""

from dataclasses import dataclass

from policies.topology_aware.burst import burst_ranks
from policies.topology_aware.cpus.cores import whole_core_counts
from policies.topology_aware.cpus.offer import Offer, offers_of
from policies.topology_aware.cpus.picker import priority_fits
from policies.topology_aware.locality.affinity import affinity_scores
from policies.topology_aware.locality.devices import hint_scores
from policies.topology_aware.memory.plan import MemoryOffer, memory_offers
from policies.topology_aware.score import Key
from policies.topology_aware.supply.case import Case
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.supply import Room


@dataclass(frozen=True, slots=True)
class Pulls:
    """What draws the container to pools whatever they can give; one entry per pool."""

    affinity: tuple[float, ...]
    hints: tuple[float, ...]
    burst: tuple[int, ...]
    memory: tuple[MemoryOffer, ...]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The pools as one pass sees them; ``order`` is best first. ``lenient`` is the rule for earlier pools."""

    room: Room
    lenient: Room
    offers: tuple[Offer, ...]
    keys: tuple[Key, ...]
    order: tuple[int, ...]


def pulls_of(case: Case) -> Pulls:
    """What draws this container where."""
    return Pulls(
        affinity_scores(case.tree, case.options, case.request, case.others),
        hint_scores(case.tree, case.request.hints),
        burst_ranks(case.tree, case.demand.burst_level),
        memory_offers(case.supply, case.request, case.demand),
    )


def rank(case: Case, pulls: Pulls, room: Room, lenient: Room) -> Ranking:
    """Every pool with its offer and key under the rule of ``room``."""
    offers = offers_of(case, room, lenient)
    keys = _keys(case, pulls, room, offers)
    order = sorted(range(len(keys)), key=keys.__getitem__, reverse=True)
    return Ranking(room, lenient, offers, keys, tuple(order))


def _keys(case: Case, pulls: Pulls, room: Room, offers: tuple[Offer, ...]) -> tuple[Key, ...]:
    demand, supply = case.demand, case.supply
    cores = whole_core_counts(case.tree, supply.shared[0] & ~supply.withheld, demand.whole)
    free = supply.shared[0] & ~supply.withheld | supply.free_isolated(0)
    priority = priority_fits(case.tree, free, demand.whole, demand.priority)
    wants_isolated = demand.isolation is not Isolation.NO
    keys = []
    for pool in case.tree.pools:
        i = pool.index
        offer, memory = offers[i], pulls.memory[i]
        left = room.free_mcpu[i] - 1000 * offer.sliced - demand.shared_mcpu
        if offer.isolated:
            left = supply.free_isolated(i).bit_count() - offer.isolated
        keys.append(
            Key(
                fits=int(offer.fits and _may_be_here(case, memory)),
                previous=offer.previous,
                isolated=int(wants_isolated and offer.isolated > 0),
                affinity=pulls.affinity[i],
                hints=pulls.hints[i],
                hint_depth=pool.depth if pulls.hints[i] else 0,
                memory=memory.room,
                memory_kinds=memory.kinds,
                memory_limit=memory.holds_limit,
                burst_mcpu=max(0, min(room.free_mcpu[i], demand.burst_mcpu)),
                burst_level=pulls.burst[i],
                few_nodes=-(memory.zone or pool.mems).bit_count(),
                priority=priority[i],
                depth=pool.depth,
                undisturbed=memory.as_is,
                quiet=0 if demand.whole else -supply.sharers[i],
                cores=cores[i] if offer.sliced else 0,
                left=left,
                first=-i,
            )
        )
    return tuple(keys)


def _may_be_here(case: Case, memory: MemoryOffer) -> bool:
    """Memory is never a reason to refuse a pool unless a strict wish says so (spec section 6)."""
    return not case.request.preferences.strict_memory or bool(memory.room)
