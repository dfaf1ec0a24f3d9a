"""Rank all pools for one pass of the search: each pool's offer and comparison key, best first."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from policies.topology_aware.cpus.allocate import cost_in
from policies.topology_aware.cpus.offer import Offer, OffersOnDemand, offers_of
from policies.topology_aware.cpus.picker import spans
from policies.topology_aware.keys.pool_keys import FixedScores, Head, Offers, PoolKeys, cores_score
from policies.topology_aware.keys.score import MOST_SHOWN, Key
from policies.topology_aware.supply.context import PlacementContext, pod_of
from policies.topology_aware.supply.demand import Isolation
from policies.topology_aware.supply.load import FELT_MCPU, IDLE_MCPU, load_of
from policies.topology_aware.supply.supply import Room
from sysfs.cpuset import gathered

_DOMAINS, _POD = Key._fields.index("cpu_domains"), Key._fields.index("pod")
_CACHES_IN_1 = 1000
"""In ``cpu_domains`` the decimals are L3 domains; so many of them, never reached, would be a node."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The pools in one pass. ``lenient`` is for pools where the container was before.

    ``order`` is best first among the first ``sorted`` pools; those after them are worse, and in the order of their
    heads. ``keys`` are made when they are looked up.
    """

    room: Room
    lenient: Room
    offers: tuple[Offer, ...]
    heads: tuple[Head, ...]
    keys: PoolKeys
    order: tuple[int, ...]
    sorted: int

    def best_first(self) -> Iterator[int]:
        """Yield the pools in order: those that are compared by their heads alone so far too."""
        yield from self.order[: self.sorted]
        rest = self.order[self.sorted :]
        self.keys.look_at(rest)
        yield from sorted(rest, key=self.keys.__getitem__, reverse=True)

    def fits(self, pool: int) -> bool:
        """Return whether this pool can give what is asked; only memory can refuse it besides, in a key that is made."""
        return bool(self.keys[pool].fits if pool in self.keys else self.heads[pool].fits)


@dataclass(frozen=True, slots=True)
class BestPool:
    """The pool that would be ranked first, by index. Keys and memory are worked out when they are looked up."""

    index: int
    keys: PoolKeys
    fixed: FixedScores


def rank(context: PlacementContext, fixed: FixedScores, room: Room, lenient: Room) -> Ranking:
    """Rank every pool, with its offer under the rule of ``room``.

    The keys of those are made that may be shown, and of those that are as good in the first fields.
    """
    offers = offers_of(context, room, lenient)
    keys = PoolKeys(context, room, offers, fixed)
    heads = tuple(keys.head(pool) for pool in context.tree.pools)
    order = sorted(range(len(heads)), key=heads.__getitem__, reverse=True)
    # Heads know CPUs alone: the best of them may have no room under a strict preference for memory.
    count = len(order) if _memory_decides(context) else min(MOST_SHOWN, len(order))
    # Equal heads are not parted: only the rest of the key tells which of them is better.
    while count < len(order) and heads[order[count]] == heads[order[count - 1]]:
        count += 1
    keys.look_at(order[:count])
    _refine(context, room, lenient, offers, keys)
    order[:count] = sorted(order[:count], key=keys.__getitem__, reverse=True)
    return Ranking(room, lenient, offers, heads, keys, tuple(order), count)


def best_pool(context: PlacementContext, room: Room, beside: int) -> BestPool:
    """Return the pool that would be ranked first, and the key of the one ``beside`` it.

    Pools that are farther from what the container should be near are not looked at any further.
    """
    fixed, offers = FixedScores(context), OffersOnDemand(context, room, room)
    keys = PoolKeys(context, room, offers, fixed)
    among = _of_best_heads(context, keys, offers, fixed.affinity)
    if len(among) == 1:  # no other field is compared
        return BestPool(among[0], keys, fixed)
    keys.look_at(sorted({*among, beside}))
    _refine(context, room, room, offers, keys)
    return BestPool(max(keys, key=keys.__getitem__), keys, fixed)


def _memory_decides(context: PlacementContext) -> bool:
    """Return whether memory, too, decides what fits."""
    wanted = context.request.preferences
    return bool(wanted.strict_memory or wanted.strict_huge_pages)


def _of_best_heads(
    context: PlacementContext, keys: PoolKeys, offers: Offers, affinity: tuple[float, ...]
) -> Sequence[int]:
    """Return the pools whose heads are the best: all where memory decides what fits.

    Where no field before ``affinity`` but ``fits`` tells pools apart, those that attract less than one that fits are
    not looked at.
    """
    places = range(len(affinity))
    if _memory_decides(context):
        return places
    by_affinity = {0.0: list(places)}
    if context.request.previous is None and context.demand.isolation is Isolation.NO:
        by_affinity = gathered((affinity[i], i) for i in places)
    tiers = ([i for i in by_affinity[one] if offers[i].fits] for one in sorted(by_affinity, reverse=True))
    among = next(filter(None, tiers), places)
    if len(among) == 1:
        return among
    heads = [keys.head(context.tree.pools[i]) for i in among]
    most = max(heads)
    return [i for i, head in zip(among, heads, strict=True) if head == most]


def _refine(context: PlacementContext, room: Room, lenient: Room, offers: Offers, keys: PoolKeys) -> None:
    """Complete the keys of the pools that are best so far with what takes a search or concerns them alone."""
    _add_domains(context, room, lenient, offers, keys)
    _add_pod(context, offers, keys)


def _add_pod(context: PlacementContext, offers: Offers, keys: PoolKeys) -> None:
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
        # Else a pod would be kept together where its containers have less CPU time than apart.
        if busy[i] < min(busy.values()) + FELT_MCPU:
            path = frozenset(context.tree.pools[i].path)
            keys[i] = keys[i]._replace(pod=sum(len(path.intersection(home)) - 1 for home in homes))


def _add_domains(context: PlacementContext, room: Room, lenient: Room, offers: Offers, keys: PoolKeys) -> None:
    """Add what the CPUs would cost to the keys of the pools that are best in all before that.

    Elsewhere it decides nothing; a pool with a single cache domain needs no search.
    """
    pools, tied = context.tree.pools, _tied(keys, _DOMAINS)
    if len(tied) < 2 or not keys[tied[0]].fits or not any(spans(context.tree, pools[i]) for i in tied):
        return
    for i in tied:
        cost = cost_in(context, pools[i], offers[i], (lenient if offers[i].previous else room).give)
        if cost is not None:
            cores = cores_score(context, pools[i], offers[i].sliced - cost.strangers, cost.siblings)
            keys[i] = keys[i]._replace(cpu_domains=-cost.nodes - cost.caches / _CACHES_IN_1, cores=cores)


def _tied(keys: Mapping[int, Key], fields: int) -> list[int]:
    """Return the pools that are best in so many fields."""
    best = max(keys.values())[:fields]
    return [i for i, key in keys.items() if key[:fields] == best]
