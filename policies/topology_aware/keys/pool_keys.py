"""Make the keys of pools for one pass of the search, each when it is looked up first, and what goes into them."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, reduce
from operator import or_
from typing import NamedTuple

from policies.hardware.domains import Level
from policies.hardware.pools import KINDS, Pool, PoolTree
from policies.preferences import BurstLevel, PoolStrategy
from policies.topology_aware.cpus.cores import siblings_costs
from policies.topology_aware.cpus.offer import Offer
from policies.topology_aware.cpus.picker import priority_fits
from policies.topology_aware.keys.score import Key
from policies.topology_aware.locality.affinity import affinity_scores
from policies.topology_aware.locality.devices import NearnessNow
from policies.topology_aware.memory.hugepages import ON_ITS_NODES
from policies.topology_aware.memory.plan import MemoryOffer, memory_distances, memory_offers
from policies.topology_aware.options import IGNORE
from policies.topology_aware.packing import Filling, filling_of, strategy_of
from policies.topology_aware.supply.context import PlacementContext, pod_of
from policies.topology_aware.supply.demand import Demand, Isolation
from policies.topology_aware.supply.load import IDLE_MCPU, Load, load_of
from policies.topology_aware.supply.supply import Room

_LEVELS = {
    BurstLevel.SYSTEM: Level.ROOT,
    BurstLevel.PACKAGE: Level.PACKAGE,
    BurstLevel.DIE: Level.DIE,
    BurstLevel.NUMA: Level.NODE,
    BurstLevel.L3_CACHE: Level.L3,
}
_OF_KIND = {kind: level for level, kind in KINDS.items()}
# Any narrower pool is better than any wider one: there are fewer levels than this.
_WIDER = len(Level)
# Fields of the key that say two things have the second one in their decimals; so many of it, never reached, would be 1:
# levels of the tree (hints), kinds of siblings (cores).
_LEVELS_IN_1, _KINDS_IN_1 = 10_000, 10
# Steps in which the load beside owned CPUs counts: a quarter of each CPU.
_OWNERS_STEP_MCPU = 250
Offers = Sequence[Offer] | Mapping[int, Offer]
"""Offers by the index of the pool."""


class Head(NamedTuple):
    """The first fields of a key, by which most pools are told apart; ``fits`` is by the CPUs."""

    fits: int
    previous: int
    isolated: int
    affinity: float
    hints: float
    hint_distance: int


class FixedScores:
    """The scores of a request that do not depend on what a pool can give.

    ``affinity`` is of each pool, the others are of those that were looked at, by index.
    """

    def __init__(self, context: PlacementContext) -> None:
        """Take the input of a placement."""
        self._context = context
        self.affinity = _affinities(context)
        self.memory: dict[int, MemoryOffer] = {}
        self.distance: dict[int, float] = {}

    def memory_in(self, pool: int) -> MemoryOffer:
        """Return what memory one pool gives."""
        self.look_at((pool,))
        return self.memory[pool]

    def look_at(self, places: Iterable[int]) -> None:
        """Score the memory of these pools, which takes less time together."""
        supply, request = self._context.supply, self._context.request
        pools = [self._context.tree.pools[i] for i in places if i not in self.memory]
        if not pools:
            return
        offers = memory_offers(supply, request, self._context.demand, pools)
        zones = [offer.zone or pool.mems for offer, pool in zip(offers, pools, strict=True)]
        distances = memory_distances(supply.memory, request, pools, zones)
        for pool, offer, distance in zip(pools, offers, distances, strict=True):
            self.memory[pool.index], self.distance[pool.index] = offer, distance


class PoolKeys(dict[int, Key]):
    """The keys by the index of the pool, without what ``ranking`` adds to those that are best."""

    def __init__(self, context: PlacementContext, room: Room, offers: Offers, fixed: FixedScores) -> None:
        """Take the input of a placement. What is the same for all pools is worked out when it is needed first."""
        super().__init__()
        self._context, self._room, self._offers, self._fixed = context, room, offers, fixed
        self._heads: dict[int, Head] = {}
        self._lost: dict[tuple[int, int], int] = {}  # what sharers lose from a pool up, by the CPUs owned

    @cached_property
    def load(self) -> Load:
        """How busy the shared CPUs are."""
        return load_of(self._context.supply)

    @cached_property
    def _nearness(self) -> NearnessNow | None:
        return NearnessNow(self._context, self._room, self.load) if self._context.request.localities else None

    @cached_property
    def _filling(self) -> Filling:
        return filling_of(self._context, self.load)

    @cached_property
    def _siblings(self) -> Sequence[tuple[int, int]]:
        tree, supply, count = self._context.tree, self._context.supply, self._context.demand.whole
        return siblings_costs(tree, supply.shared[0] & ~supply.withheld, count)

    @cached_property
    def _priority(self) -> Sequence[int]:
        supply, demand = self._context.supply, self._context.demand
        free = supply.shared[0] & ~supply.withheld | supply.free_isolated(0)
        return priority_fits(self._context.tree, free, demand.whole, demand.priority)

    @cached_property
    def _beside(self) -> int:
        return _beside_accelerators(self._context)

    @cached_property
    def _widths(self) -> Sequence[int]:
        return _widths(self._context, self.load)

    def head(self, pool: Pool) -> Head:
        """Return the first fields of the key, with what fits by its CPUs."""
        if pool.index not in self._heads:
            self._heads[pool.index] = self._head(pool)
        return self._heads[pool.index]

    def _head(self, pool: Pool) -> Head:
        i, offer = pool.index, self._offers[pool.index]
        hints, far = self._nearness.of(pool) if self._nearness is not None else (0.0, 0)
        return Head(
            int(offer.fits),
            offer.previous,
            int(self._context.demand.isolation is not Isolation.NO and offer.isolated > 0),
            self._fixed.affinity[i],
            # Depth among pools that are near alone: of far ones memory and load decide first.
            round(hints + pool.depth / _LEVELS_IN_1, 6) if hints else 0.0,
            far,
        )

    def look_at(self, places: Sequence[int]) -> None:
        """Make the keys of these pools, which takes less time together."""
        self._fixed.look_at(places)
        for i in places:
            if i not in self:
                self[i] = self._key(self._context.tree.pools[i])

    def __missing__(self, pool: int) -> Key:
        """Make the key of one pool."""
        self.look_at((pool,))
        return self[pool]

    def _key(self, pool: Pool) -> Key:
        i, context, load, filling, fixed = pool.index, self._context, self.load, self._filling, self._fixed
        demand, offer, memory = context.demand, self._offers[i], fixed.memory[i]
        packs, siblings = filling.strategy is PoolStrategy.PACK, self._siblings if offer.sliced else ()
        head = self.head(pool)
        return Key(
            # Memory takes longer to look at than CPUs: heads are made without, and what it refuses shows here.
            *head._replace(fits=int(head.fits and _may_be_here(context, memory))),
            memory=memory.room,
            hugepages=memory.huge_pages,
            memory_suits=2 * memory.kinds + memory.holds_limit,
            # A container has a limit to burst to, or a level, or none of them.
            width=self._widths[i] or burst_rank(context.tree, pool, demand.burst_level),
            # Of owners load decides later, in coarse steps (``quiet``); ``pack`` fills pools on purpose.
            crowded=0 if demand.whole or packs else -load.crowding(i),
            near_memory=0 - fixed.distance[i],  # no -0.0
            priority=self._priority[i],
            depth=pool.depth,
            cpu_domains=0,  # takes a search: ``ranking`` adds it where all before is equal
            undisturbed=memory.as_is,
            cores=cores_score(context, pool, demand.whole - siblings[i][0], siblings[i][1]) if offer.sliced else 0,
            choice=filling.choice(pool, offer),
            squeezed=-self._squeezed(pool, offer.sliced) if offer.sliced else 0,
            pod=0,  # likewise
            expected=min(demand.burst_mcpu, load.idle(i)),
            spares=-int(bool(pool.cpus & self._beside)),
            quiet=-_load_after(load, i, demand, offer),
            used=filling.used(pool, offer),
            full=filling.full(pool, offer),
            left=filling.left(pool, offer),
            first=-i,
        )

    def _squeezed(self, pool: Pool, owned: int) -> int:
        """Return what sharers here and above lose; what those above do is worked out once for all pools below."""
        place = pool.index, owned
        if place not in self._lost:
            # Owned CPUs leave the shared sets of all pools above, too.
            above = self._squeezed(self._context.tree.pools[pool.parent], owned) if pool.parent >= 0 else 0
            supply, is_tight = self._context.supply, self._filling.is_tight
            self._lost[place] = above + supply.squeezed_here(pool.index, owned, with_unlimited=is_tight)
        return self._lost[place]


def _affinities(context: PlacementContext) -> tuple[float, ...]:
    """Return the scores by affinity; 0 everywhere where no container has one and no other one is of its pod."""
    options, request = context.options, context.request
    has_own = request.affinities or options.colocate_pods or options.colocate_namespaces
    if has_own or context.supply.affinities or any(pod_of(context)):
        return affinity_scores(context.supply, options, request, context.others)
    return (0.0,) * len(context.tree.pools)


def _beside_accelerators(context: PlacementContext) -> int:
    """Return the CPUs that a container without devices leaves to others where it can."""
    if context.asks_for_devices or context.options.device_cpus == IGNORE:
        return 0
    # Owners without devices would fill the nodes beside GPUs, and tear containers with GPUs over several nodes.
    return reduce(or_, (each.cpus for each in context.supply.free_accelerators), 0)


def _widths(context: PlacementContext, load: Load) -> tuple[int, ...]:
    """Return per pool how much of the CPU limit the shared set has; seven eighths are as good: load decides then.

    So is a pool that is narrow though nothing of it is owned, as where CPUs are reserved, if the container can expect
    as much CPU time there as in any wide enough one of the same depth.
    """
    limit, pools, shared = context.demand.burst_mcpu, context.tree.pools, context.supply.shared
    if not limit:
        return (0,) * len(pools)
    widths = [min(1000 * cpus.bit_count(), limit) for cpus in shared]
    # A single reserved CPU makes a pool narrower: in full width all would go to the other one, before load counts.
    wide = [pool for pool, width in zip(pools, widths, strict=True) if 8 * width >= 7 * limit]
    most: dict[int, int] = {}  # by depth
    for pool in wide:
        most[pool.depth] = max(most.get(pool.depth, 0), load.idle(pool.index))
    # Narrow by reserved CPUs or as it was built: else such pools idle while all limits book the wide ones up.
    unowned = (pool for pool in pools if shared[pool.index] == pool.sharable and pool.depth in most)
    for pool in (*wide, *(pool for pool in unowned if load.idle(pool.index) >= most[pool.depth])):
        widths[pool.index] = limit
    return tuple(widths)


def cores_score(context: PlacementContext, pool: Pool, whole: int, siblings: int) -> float:
    """Return ``Key.cores`` of so many CPUs on wholly free cores, and of the kind of the others (``Cost.siblings``).

    Containers spread over pools without an owner first, as long as there are any: these may break an idle core.
    """
    is_packed = strategy_of(context) is PoolStrategy.PACK
    counts = is_packed or siblings > 1 or context.supply.owned & pool.cpus
    return whole - (siblings if counts else 0) / _KINDS_IN_1


def _load_after(load: Load, pool: int, demand: Demand, offer: Offer) -> int:
    """Return the load of the pool's shared set with the container.

    That of an owner's pool counts in steps: owners spread by what is in use (``Key.used``), and not to the one pool
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


def burst_rank(tree: PoolTree, pool: Pool, burst_level: BurstLevel | None) -> int:
    """Return 0 for a pool at the wanted level, less the farther from it; a narrower pool beats a wider one.

    0 everywhere for None. A level that the machine lacks, or that was left out as an only child, is the pool that has
    its CPUs: on a machine with one package the root is the package too.
    """
    if burst_level is None:
        return 0
    wanted, widest = _LEVELS[burst_level], _OF_KIND[pool.kind]
    # Levels left out as only children belong to the pool that has their CPUs.
    narrowest = _OF_KIND[tree.pools[pool.children[0]].kind] - 1 if pool.children else Level.L3
    if wanted < widest:
        return wanted - widest
    return narrowest - wanted - _WIDER if wanted > narrowest else 0
