"""Rank all pools for one pass of the search: fixed scores, each pool's offer and comparison key, best first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from policies.hardware.domains import Level
from policies.hardware.pools import KINDS, Pool, PoolTree
from policies.preferences import BurstLevel, PoolStrategy
from policies.topology_aware.cpus.allocate import cost_in
from policies.topology_aware.cpus.cores import siblings_costs
from policies.topology_aware.cpus.offer import Offer, offers_of
from policies.topology_aware.cpus.picker import priority_fits, spans
from policies.topology_aware.locality.affinity import affinity_scores
from policies.topology_aware.locality.devices import locality_scores_now
from policies.topology_aware.memory.hugepages import ON_ITS_NODES
from policies.topology_aware.memory.plan import MemoryOffer, memory_distances, memory_offers
from policies.topology_aware.options import IGNORE
from policies.topology_aware.packing import filling_of, strategy_of
from policies.topology_aware.score import Key
from policies.topology_aware.supply.context import PlacementContext, pod_of
from policies.topology_aware.supply.demand import Demand, Isolation
from policies.topology_aware.supply.load import FELT_MCPU, IDLE_MCPU, Load, load_of
from policies.topology_aware.supply.supply import Room

_LEVELS = {
    BurstLevel.SYSTEM: Level.ROOT,
    BurstLevel.PACKAGE: Level.PACKAGE,
    BurstLevel.DIE: Level.DIE,
    BurstLevel.NUMA: Level.NODE,
    BurstLevel.L3_CACHE: Level.L3,
}
_OF_KIND = {kind: level for level, kind in KINDS.items()}
_DOMAINS, _POD = Key._fields.index("cpu_domains"), Key._fields.index("pod")
# Any narrower pool is better than any wider one: there are fewer levels than this.
_WIDER = len(Level)
# Fields of the key that say two things have the second one in their decimals; so many of it, never reached, would be 1:
# levels of the tree (hints), L3 domains (cpu_domains), kinds of siblings (cores).
_LEVELS_IN_1, _CACHES_IN_1, _KINDS_IN_1 = 10_000, 1000, 10
_Head = tuple[int, int, int, float, float, int]  # the first fields of a key
# Steps in which the load beside owned CPUs counts: a quarter of each CPU.
_OWNERS_STEP_MCPU = 250


@dataclass(frozen=True, slots=True)
class FixedScores:
    """The scores of a request that do not depend on what a pool can give: of each pool, or of some, by index."""

    affinity: tuple[float, ...]
    burst: tuple[int, ...]
    memory: Mapping[int, MemoryOffer]
    distance: Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The pools in one pass; ``order`` is best first. ``lenient`` is for pools where the container was before."""

    room: Room
    lenient: Room
    offers: tuple[Offer, ...]
    keys: tuple[Key, ...]
    order: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BestPool:
    """The pool that would be ranked first, by index; keys and memory of this one, of another, and of some more."""

    index: int
    keys: Mapping[int, Key]
    memory: Mapping[int, MemoryOffer]


def fixed_scores_of(context: PlacementContext) -> FixedScores:
    """Return the scores that no pass changes."""
    return _fixed_in(context, _affinities(context), context.tree.pools)


def _fixed_in(context: PlacementContext, affinity: tuple[float, ...], pools: Sequence[Pool]) -> FixedScores:
    """Return the scores that no pass changes; those by memory of these pools alone."""
    offers = memory_offers(context.supply, context.request, context.demand, pools)
    zones = [offer.zone or pool.mems for offer, pool in zip(offers, pools, strict=True)]
    distances = memory_distances(context.supply.memory, context.request, pools, zones)
    places = [pool.index for pool in pools]
    memory, distance = dict(zip(places, offers, strict=True)), dict(zip(places, distances, strict=True))
    return FixedScores(affinity, burst_ranks(context.tree, context.demand.burst_level), memory, distance)


def _affinities(context: PlacementContext) -> tuple[float, ...]:
    """Return the scores by affinity; 0 everywhere where no container has one and no other one is of its pod."""
    options, request = context.options, context.request
    has_own = request.affinities or options.colocate_pods or options.colocate_namespaces
    if has_own or context.supply.affinities or any(pod_of(context)):
        return affinity_scores(context.supply, options, request, context.others)
    return (0.0,) * len(context.tree.pools)


def rank(context: PlacementContext, fixed: FixedScores, room: Room, lenient: Room) -> Ranking:
    """Rank every pool, with its offer and key under the rule of ``room``."""
    offers = offers_of(context, room, lenient)
    scores = _Scores(context, room, offers, fixed.affinity)
    keys = {pool.index: scores.key(pool, scores.head(pool), fixed) for pool in context.tree.pools}
    _refine(context, room, lenient, offers, keys)
    order = sorted(keys, key=keys.__getitem__, reverse=True)
    return Ranking(room, lenient, offers, tuple(keys.values()), tuple(order))


def best_pool(context: PlacementContext, room: Room, beside: int) -> BestPool:
    """Return the pool that would be ranked first, and the key of the one ``beside`` it.

    Pools that are farther from what the container should be near are not looked at any further.
    """
    pools = context.tree.pools
    offers, affinity = offers_of(context, room, room), _affinities(context)
    scores = _Scores(context, room, offers, affinity)
    heads = [scores.head(pool) for pool in pools]
    most, wanted = max(heads), context.request.preferences
    is_any = wanted.strict_memory or wanted.strict_huge_pages  # then memory decides what fits
    among = [pool for pool in pools if is_any or heads[pool.index] == most or pool.index == beside]
    fixed = _fixed_in(context, affinity, among)
    keys = {pool.index: scores.key(pool, heads[pool.index], fixed) for pool in among}
    _refine(context, room, room, offers, keys)
    return BestPool(max(keys, key=keys.__getitem__), keys, fixed.memory)


class _Scores:
    """What the keys of all pools are made from in one pass; never leaves this module."""

    def __init__(
        self, context: PlacementContext, room: Room, offers: tuple[Offer, ...], affinity: tuple[float, ...]
    ) -> None:
        demand, supply, tree = context.demand, context.supply, context.tree
        self._context, self._offers, self._affinity = context, offers, affinity
        ordinary = supply.shared[0] & ~supply.withheld
        self._siblings = siblings_costs(tree, ordinary, demand.whole) if demand.whole else ()
        self._priority = priority_fits(tree, ordinary | supply.free_isolated(0), demand.whole, demand.priority)
        self._wants_isolated = demand.isolation is not Isolation.NO
        self._load = load_of(supply)
        self._filling = filling_of(context, self._load)
        self._hints: Sequence[float] = (0,) * len(tree.pools)
        self._far: Sequence[int] = (0,) * len(tree.pools)
        if context.request.localities:
            self._hints, self._far = locality_scores_now(context, room, self._load)
        self._beside, self._widths = _beside_accelerators(context), _widths(context, self._load)

    def head(self, pool: Pool) -> _Head:
        """Return the first fields of the key, with what fits by its CPUs."""
        i, offer = pool.index, self._offers[pool.index]
        return (
            int(offer.fits),
            offer.previous,
            int(self._wants_isolated and offer.isolated > 0),
            self._affinity[i],
            round(self._hints[i] + pool.depth / _LEVELS_IN_1, 6) if self._hints[i] else 0.0,
            self._far[i],
        )

    def key(self, pool: Pool, head: _Head, fixed: FixedScores) -> Key:
        """Return the key of a pool, without what ``_refine`` adds."""
        i, context, load, filling = pool.index, self._context, self._load, self._filling
        demand, supply, offer, memory = context.demand, context.supply, self._offers[i], fixed.memory[i]
        packs, siblings = filling.strategy is PoolStrategy.PACK, self._siblings
        fits, previous, isolated, affinity, hints, hint_distance = head
        return Key(
            fits=int(fits and _may_be_here(context, memory)),
            previous=previous,
            isolated=isolated,
            affinity=affinity,
            hints=hints,
            hint_distance=hint_distance,
            memory=memory.room,
            hugepages=memory.huge_pages,
            memory_suits=2 * memory.kinds + memory.holds_limit,
            # A container has a limit to burst to, or a level, or none of them.
            width=self._widths[i] or fixed.burst[i],
            crowded=0 if demand.whole or packs else -load.crowding(i),
            near_memory=0 - fixed.distance[i],  # no -0.0
            priority=self._priority[i],
            depth=pool.depth,
            cpu_domains=0,
            undisturbed=memory.as_is,
            cores=_cores(context, pool, demand.whole - siblings[i][0], siblings[i][1]) if offer.sliced else 0,
            choice=filling.choice(pool, offer),
            squeezed=-supply.squeezed(i, offer.sliced, with_unlimited=filling.is_tight),
            pod=0,
            expected=0 if demand.whole else min(demand.burst_mcpu, load.idle(i)),
            spares=-int(bool(pool.cpus & self._beside)),
            quiet=-_load_after(load, i, demand, offer),
            left=filling.left(pool, offer),
            first=-i,
        )


def _beside_accelerators(context: PlacementContext) -> int:
    """Return the CPUs that a container without devices leaves to others where it can."""
    if context.asks_for_devices or context.options.device_cpus == IGNORE:
        return 0
    return reduce(or_, (each.cpus for each in context.supply.free_accelerators), 0)


def _widths(context: PlacementContext, load: Load) -> tuple[int, ...]:
    """Return per pool how much of the CPU limit the shared set has; seven eighths are as good: load decides then.

    So is a pool that reserved CPUs alone make narrow, where the container can expect as much CPU time as in any wide
    enough one of the same depth.
    """
    limit, pools, shared = context.demand.burst_mcpu, context.tree.pools, context.supply.shared
    widths = [min(1000 * cpus.bit_count(), limit) for cpus in shared]
    is_wide = [8 * width >= 7 * limit for width in widths]
    most: dict[int, int] = {}  # by depth
    for pool in pools if limit else ():
        if is_wide[pool.index]:
            most[pool.depth] = max(most.get(pool.depth, 0), load.idle(pool.index))
    for pool in pools if limit else ():
        is_unowned = shared[pool.index] == pool.sharable
        if is_wide[pool.index] or (is_unowned and load.idle(pool.index) >= most.get(pool.depth, limit)):
            widths[pool.index] = limit
    return tuple(widths)


def _refine(
    context: PlacementContext, room: Room, lenient: Room, offers: tuple[Offer, ...], keys: dict[int, Key]
) -> None:
    """Complete the keys of the pools that are best so far with what takes a search or concerns them alone."""
    _add_domains(context, room, lenient, offers, keys)
    _add_pod(context, offers, keys)


def _add_pod(context: PlacementContext, offers: tuple[Offer, ...], keys: dict[int, Key]) -> None:
    """Add the nearness to the pod's other containers to the keys of the pools that are best in all before that.

    Where the shared CPUs would be busier than those of another of these pools by ``FELT_MCPU``, it counts for nothing.
    """
    homes = [context.tree.named(grant.pool).path for grant in pod_of(context) if grant.pool]
    tied = _tied(keys, _POD) if homes else []
    if len(tied) < 2:
        return
    load, demand = load_of(context.supply), context.demand
    busy = {i: load.after(i, demand.shared_mcpu or IDLE_MCPU, offers[i].sliced) for i in tied}
    for i in tied:
        if busy[i] < min(busy.values()) + FELT_MCPU:
            path = frozenset(context.tree.pools[i].path)
            keys[i] = keys[i]._replace(pod=sum(len(path.intersection(home)) - 1 for home in homes))


def _add_domains(
    context: PlacementContext, room: Room, lenient: Room, offers: tuple[Offer, ...], keys: dict[int, Key]
) -> None:
    """Add what the CPUs would cost to the keys of the pools that are best in all before that.

    Elsewhere it decides nothing; a pool with a single cache domain needs no search.
    """
    pools, tied = context.tree.pools, _tied(keys, _DOMAINS)
    if len(tied) < 2 or not keys[tied[0]].fits or not any(spans(context.tree, pools[i]) for i in tied):
        return
    for i in tied:
        cost = cost_in(context, pools[i], offers[i], (lenient if offers[i].previous else room).give)
        if cost is not None:
            cores = _cores(context, pools[i], offers[i].sliced - cost.strangers, cost.siblings)
            keys[i] = keys[i]._replace(cpu_domains=-cost.nodes - cost.caches / _CACHES_IN_1, cores=cores)


def _tied(keys: Mapping[int, Key], fields: int) -> list[int]:
    """Return the pools that are best in so many fields."""
    best = max(keys.values())[:fields]
    return [i for i, key in keys.items() if key[:fields] == best]


def _cores(context: PlacementContext, pool: Pool, whole: int, siblings: int) -> float:
    """Return ``Key.cores`` of so many CPUs on wholly free cores, and of the kind of the others (``Cost.siblings``).

    Containers spread over pools without an owner first, as long as there are any: these may break an idle core.
    """
    is_packed = strategy_of(context) is PoolStrategy.PACK
    counts = is_packed or siblings > 1 or context.supply.owned & pool.cpus
    return whole - (siblings if counts else 0) / _KINDS_IN_1


def _load_after(load: Load, pool: int, demand: Demand, offer: Offer) -> int:
    """Return the load of the pool's shared set with the container.

    That of an owner's pool counts in steps: owners spread by what is left (``Key.left``), and not to the one pool
    where no container has asked for a little.
    """
    if not demand.whole:
        return load.after(pool, demand.shared_mcpu or IDLE_MCPU)
    after = load.after(pool, demand.shared_mcpu, offer.sliced)
    return after - after % _OWNERS_STEP_MCPU


def _may_be_here(context: PlacementContext, memory: MemoryOffer) -> bool:
    """Return whether memory allows this pool. Only a strict preference refuses one (docs/placement.md, Memory)."""
    wanted = context.request.preferences
    if wanted.strict_huge_pages and context.request.huge_pages and memory.huge_pages < ON_ITS_NODES:
        return False
    return not wanted.strict_memory or bool(memory.room)


def burst_ranks(tree: PoolTree, wanted: BurstLevel | None) -> tuple[int, ...]:
    """Return 0 for pools at the wanted level, less the farther from it; a narrower pool beats a wider one.

    0 everywhere for None. A level that the machine lacks, or that was left out as an only child, is the pool that has
    its CPUs: on a machine with one package the root is the package too.
    """
    if wanted is None:
        return (0,) * len(tree.pools)
    return tuple(_rank(tree, pool, _LEVELS[wanted]) for pool in tree.pools)


def _rank(tree: PoolTree, pool: Pool, wanted: Level) -> int:
    widest = _OF_KIND[pool.kind]
    narrowest = _OF_KIND[tree.pools[pool.children[0]].kind] - 1 if pool.children else Level.L3
    if wanted < widest:
        return wanted - widest
    return narrowest - wanted - _WIDER if wanted > narrowest else 0
