"""Build the reasons of a placement, the ``Rejected`` of a refusal, and the ranking with each pool's outcome."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from policies.base import Grant, Ranked, Reason, Rejected
from policies.hardware.pools import Pool
from policies.preferences import Threads
from policies.topology_aware import reasons
from policies.topology_aware.cpus.allocate import Taken
from policies.topology_aware.cpus.offer import Offer, offers_of, on_whole_cores, shared_cores
from policies.topology_aware.cpus.retained import keeps_enough
from policies.topology_aware.keys.score import MOST_SHOWN, WHY_WORSE, Key
from policies.topology_aware.locality.devices import far_devices, in_one_node, local_cpus, reach_in
from policies.topology_aware.memory.hugepages import ON_ITS_NODES
from policies.topology_aware.ranking import Ranking
from policies.topology_aware.supply.context import ANYWHERE, PlacementContext
from policies.topology_aware.supply.demand import Isolation, without_whole_cores
from policies.topology_aware.supply.supply import Room
from sysfs.cpuset import CpuSet

_SOME_DEVICES = 3  # devices that are named one by one


@dataclass(frozen=True, slots=True)
class PoolChoice:
    """A pool that gives what is requested. ``best`` is the pool that was ranked first and made the offer."""

    pool: Pool
    best: int
    offer: Offer
    taken: Taken
    moved: tuple[Grant, ...]
    reasons: tuple[Reason, ...]


def choice_reasons(context: PlacementContext, ranking: Ranking, found: PoolChoice) -> tuple[Reason, ...]:
    """Return the reasons of a placement in the order of the steps, the pool last."""
    pools = context.tree.pools
    why = list(found.reasons)
    offer, previous, holds = found.offer, context.request.previous, context.own is not None
    if previous is not None and offer.keep:
        why.append(reasons.previous_kept(CpuSet(offer.keep), previous, holds=holds))
    elif previous is not None and previous.pool and not offer.previous:
        why.append(reasons.previous_lost(previous, holds=holds))
    used_up = _used_up(context, found)
    if used_up:
        why.append(reasons.emptied(used_up))
    prefers_isolated = context.demand.isolation is not Isolation.NO and (
        context.tree.root.isolated or context.request.preferences.prefer_isolated
    )
    if prefers_isolated and not offer.isolated:
        exist = bool(context.tree.root.isolated)
        why.append(reasons.isolated_short(pools[found.best].name, context.demand.whole, exist=exist))
    owned = CpuSet(found.taken.exclusive | found.taken.isolated)
    if owned.mask & ~offer.keep:
        why.append(reasons.cpus_picked(owned, found.taken.why))
    why += _unmet_wishes(context, ranking, found)
    here = ranking.keys[found.best]
    # Pools that rank higher could not give the CPUs after all: they are no runners-up.
    second = next((i for i in ranking.best_first() if ranking.keys[i] < here), None)
    runner_up = pools[second].name if second is not None else ""
    why_next = _why_worse(ranking, second, found.best) if second is not None else ""
    gives = reasons.given_text(offer.sliced, offer.isolated, context.demand.shared_mcpu)
    why.append(reasons.pool_chosen(pools[found.best].name, gives, runner_up, why_next))
    return tuple(why)


def _unmet_wishes(context: PlacementContext, ranking: Ranking, found: PoolChoice) -> Iterator[Reason]:
    """Yield why the container is not where its affinities draw it most, and why it is not near its devices."""
    pools, heads, here = context.tree.pools, ranking.heads, ranking.heads[found.best]
    most = max(heads[i].affinity for i in ranking.order)
    if most > here.affinity and not here.previous:
        wanted = _first(ranking, [i for i in ranking.order if heads[i].affinity == most])
        yield reasons.affinity_unmet(pools[wanted].name, _why_not(context, ranking, wanted, found.best))
    if not context.request.localities:
        return
    fitting = [i for i in ranking.order if ranking.fits(i)]
    most = max((heads[i].hints for i in fitting), default=here.hints)
    owned = found.taken.exclusive | found.taken.isolated
    for far in far_devices(context, ranking.room, ranking.keys.load, pools[found.best], owned)[:_SOME_DEVICES]:
        why = "" if far.has_room else "there is no room for it there"
        if most > here.hints:
            nearest = _first(ranking, [i for i in fitting if heads[i].hints == most])
            why = f"{pools[nearest].name} {_why_not(context, ranking, nearest, found.best)}"
        yield reasons.locality_unmet(far.source, _where(context, far.cpus), why)


def _first(ranking: Ranking, places: Sequence[int]) -> int:
    """Return the best of these pools."""
    return max(places, key=ranking.keys.__getitem__)


def _why_not(context: PlacementContext, ranking: Ranking, pool: int, chosen: int) -> str:
    """Return why this pool was not chosen although it is better in one field, as the end of a sentence."""
    if not ranking.fits(pool):
        return f"is {_why_unfit(context, ranking, pool)}"
    if ranking.keys[pool] > ranking.keys[chosen]:
        return "could not give what is asked after all"
    return _why_worse(ranking, pool, chosen)


def _why_worse(ranking: Ranking, pool: int, chosen: int) -> str:
    """Return in what the chosen pool is better than this one, as the end of a sentence."""
    return WHY_WORSE[deciding_field(ranking.keys[chosen], ranking.keys[pool])]


def deciding_field(better: Key, worse: Key) -> str:
    """Return the name of the first field in which two keys differ."""
    pairs = zip(Key._fields, better, worse, strict=True)
    return next(name for name, a, b in pairs if a != b)  # no two pools have the same place in the tree


def _used_up(context: PlacementContext, found: PoolChoice) -> tuple[str, ...]:
    """Return the pools whose last shared CPU is taken although containers without a CPU request share them."""
    supply, taken = context.supply, found.taken.exclusive
    shared = [pool for pool in context.tree.pools if supply.unbooked_sharers[pool.index] and supply.shared[pool.index]]
    return tuple(pool.name for pool in shared if not supply.shared[pool.index] & ~taken)


def ranked_pools(context: PlacementContext, ranking: Ranking, found: PoolChoice | None) -> tuple[Ranked, ...]:
    """Return the pools best first, each with its outcome. ``found`` is None if no pool gave what was requested."""
    outcomes = []
    for pool in context.tree.pools:
        i = pool.index
        if found is not None and i == found.pool.index:
            outcomes.append("chosen")
        elif found is not None and i == found.best:
            outcomes.append(f"best; {found.pool.name} is above it, as requested")
        elif ranking.fits(i):
            outcomes.append("not tried")
        else:
            outcomes.append(_why_unfit(context, ranking, i))
    pools, order = context.tree.pools, ranking.order
    if len(order) < len(pools):
        order = tuple(sorted(range(len(pools)), key=ranking.keys.__getitem__, reverse=True))
    may_be_shown = {*order[:MOST_SHOWN], *(i for i in order if outcomes[i] == "chosen")}
    keys = {i: shown_fields(ranking.keys[i]) for i in may_be_shown}
    return tuple(Ranked(pools[i].name, keys.get(i, ()), outcomes[i]) for i in order)


def shown_fields(key: Key) -> tuple[tuple[str, int | float | str], ...]:
    """Return the fields as a table shows them: what a field has of several levels of pools in one text."""
    values = ("/".join(map(str, value)) if isinstance(value, tuple) else value for value in key)
    return tuple(zip(Key._fields, values, strict=True))


def _why_unfit(context: PlacementContext, ranking: Ranking, pool: int) -> str:
    """Return what the pool is that cannot give what is asked: words that may follow "is"."""
    if ranking.offers[pool].fits:
        lacks_pages = context.request.preferences.strict_huge_pages and ranking.keys[pool].hugepages < ON_ITS_NODES
        return "without the huge pages" if lacks_pages else "without the memory that is strictly wanted"
    free_isolated = context.supply.free_isolated(pool).bit_count()
    if context.demand.isolation is Isolation.REQUIRE and free_isolated < context.demand.whole:
        return f"short of isolated CPUs: {free_isolated} free"
    stays = "" if keeps_enough(context, ranking.offers[pool].keep) else "elsewhere than the CPUs that it keeps"
    far = stays or why_not_near(context, context.tree.pools[pool])
    if far:
        return far
    free = max(0, ranking.room.free_mcpu[pool])
    if context.demand.hides and free >= context.demand.shared_mcpu:
        return f"short of cores for one thread of each: {shared_cores(context, context.tree.pools[pool])}"
    if context.demand.threads is not Threads.ANY and free >= 1000 * context.demand.whole + context.demand.shared_mcpu:
        return "short of CPUs on cores that are wholly free"
    return reasons.too_small(free, ranking.room.give[pool])


def rejected(context: PlacementContext, ranking: Ranking) -> Rejected:
    """Return the refusal if no pool gives what is requested: what was wanted, what was free, where."""
    pools, supply, demand, room = context.tree.pools, context.supply, context.demand, ranking.room
    free_isolated = supply.free_isolated(0).bit_count()
    if demand.isolation is Isolation.REQUIRE and free_isolated < demand.whole:
        reason = reasons.isolated_missing(demand, free_isolated, exist=bool(context.tree.root.isolated))
    elif unmet := strict_locality_unmet(context, room) or _node_unmet(context, room) or _cores_unmet(context, room):
        reason = unmet  # only a strict preference leaves no place
    elif demand.is_zero:
        reason = reasons.NOTHING_SHARED
    else:
        best = max(range(1, len(pools)), key=lambda i: (room.free_mcpu[i], -i), default=0)
        reason = reasons.cpu_full(demand, room.free_mcpu[0], room.give[0], pools[best].name, room.free_mcpu[best])
    return Rejected(reason, ranked_pools(context, ranking, None))


def _node_unmet(context: PlacementContext, room: Room) -> Reason | None:
    """Return the refusal if there is a place for the container but none in one NUMA node, else None."""
    if not context.demand.single_node:
        return None
    # Without what else is strict: only if it fits then, the single node is what refuses it.
    demand = replace(without_whole_cores(context.demand), single_node=False, hides=False)
    if not any(offer.fits for offer in offers_of(replace(context, demand=demand), room, room)):
        return None
    give = room.give if demand.whole else room.free_mcpu
    pools = [pool for pool in context.tree.pools if in_one_node(context.tree.machine, pool)]
    best = max(pools, key=lambda pool: (give[pool.index], -pool.index), default=None)
    return reasons.node_missing(context.demand, best.name if best else "", max(0, give[best.index]) if best else 0)


def strict_locality_unmet(context: PlacementContext, room: Room) -> Reason | None:
    """Return the refusal if there is a place for the container but none near its devices, else None."""
    if not context.demand.strict_locality:
        return None
    # Whole cores are done without too: what would still not fit is no matter of devices.
    lenient = replace(context, demand=replace(context.demand, strict_locality=False, threads=Threads.ANY))
    if not any(offer.fits for offer in offers_of(lenient, room, room)):
        return None
    at = [(place.source, local_cpus(context.tree.machine, place)) for place in context.request.localities]
    near = [(name, _where(context, cpus), _gives_near(context, room, cpus)) for name, cpus in at if cpus is not None]
    pools = [pool for pool in context.tree.pools if reach_in(context, pool) == ANYWHERE]
    free = [(max(0, room.free_mcpu[pool.index]), pool.name) for pool in pools]
    mcpu, home = max(free, key=itemgetter(0), default=(-1, ""))
    return reasons.strict_locality_unmet(context.demand, tuple(near), home, mcpu)


def _cores_unmet(context: PlacementContext, room: Room) -> Reason | None:
    """Return the refusal if only a strict preference for whole cores, or a core per CPU, leaves no place; else None."""
    demand = context.demand
    if not demand.strict_threads or not (demand.hides or demand.threads is not Threads.ANY):
        return None
    lenient = replace(context, demand=replace(without_whole_cores(demand), hides=False))
    if not any(offer.fits for offer in offers_of(lenient, room, room)):
        return None
    free = on_whole_cores(context, room) if demand.whole else [shared_cores(context, p) for p in context.tree.pools]
    best = max(range(1, len(free)), key=lambda i: (free[i], -i), default=0)
    return reasons.cores_missing(demand, free[0], context.tree.pools[best].name, free[best])


def why_not_near(context: PlacementContext, pool: Pool) -> str:
    """Return why the devices, the nodes of topology hints, or a single NUMA node rule this pool out, or ''."""
    if context.demand.single_node and not in_one_node(context.tree.machine, pool):
        return "wider than one NUMA node"
    reach = reach_in(context, pool)
    if reach == ANYWHERE:
        return ""
    by_devices = context.demand.strict_locality
    if not reach:
        return "not near each of its devices" if by_devices else "not within the NUMA nodes of its topology hints"
    ownable = context.supply.free_isolated(pool.index)
    if context.demand.isolation is not Isolation.REQUIRE:
        ownable |= context.supply.shared[pool.index] & ~context.supply.withheld
    free = (ownable & reach).bit_count()
    where = "near its devices" if by_devices else "within the NUMA nodes of its topology hints"
    return f"too few CPUs {where}: {free} free" if free < context.demand.whole else ""


def _gives_near(context: PlacementContext, room: Room, cpus: int) -> int:
    """Return how many of these CPUs the container could own, all of one kind; sharers keep what they need."""
    isolated = (context.supply.free_isolated(0) & cpus).bit_count()
    if context.demand.isolation is Isolation.REQUIRE:
        return isolated
    ordinary = context.supply.shared[0] & ~context.supply.withheld & cpus
    given = min(ordinary.bit_count(), room.give[context.tree.around(cpus).index])
    return given if context.demand.isolation is Isolation.NO else max(given, isolated)


def _where(context: PlacementContext, cpus: int) -> str:
    """Return the name of the pool that has just these CPUs, else their list."""
    pool = next((p.name for p in context.tree.pools if p.hardware == cpus), "")
    return pool or (f"CPUs {CpuSet(cpus)}" if cpus else "no CPU of this machine")
