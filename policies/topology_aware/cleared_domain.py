"""Find a pool that gives own CPUs on fewer domains once shared grants have left it. Pure.

A share of 100m in every NUMA node keeps each node from giving all of its CPUs. The sharers of a node that loses CPUs
are updated anyway: they move to a wider pool instead, where that costs no more updates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from policies.base import Grant, Placed
from policies.hardware.pools import Pool
from policies.topology_aware import reasons
from policies.topology_aware.cpus.allocate import Taken, take
from policies.topology_aware.cpus.offer import Offer, offers_of
from policies.topology_aware.cpus.spread import domains_of, fewest_domains
from policies.topology_aware.explain import PoolChoice
from policies.topology_aware.memory.home import in_pools
from policies.topology_aware.migration import Clearing, Move, with_shares_in_root
from policies.topology_aware.pinning import count_changed
from policies.topology_aware.ranking import Ranking
from policies.topology_aware.score import Key
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.supply import Room, room_of

SMALL_MCPU: Final = 1000
"""Shares that leave are small below this, together, for each domain that the container gets: what they run on elsewhere
is farther from their memory, and more of it would cost more than CPUs on fewer domains gain."""
MOST_TRIED: Final = 8
"""Pools of one level that are tried, those with the smallest shares: each costs a tenth of a decision or more."""
_DEPTH: Final = Key._fields.index("depth")


@dataclass(frozen=True, slots=True)
class _Cleared:
    """The CPUs that one pool gives, and the moves that it takes."""

    pool: Pool
    offer: Offer
    taken: Taken
    moves: tuple[Move, ...]

    @property
    def moved_mcpu(self) -> int:
        """The shares that leave."""
        return sum(grant.shared_mcpu for grant, _ in self.moves)


class ClearedPools:
    """The CPUs of pools once all shares have moved up as far as needed."""

    def __init__(self, context: PlacementContext) -> None:
        """Take the input of a placement."""
        self._context = context
        self._ideal = with_shares_in_root(context)
        self._clearing = Clearing(context)

    @cached_property
    def _room(self) -> Room:
        return room_of(self._ideal.supply, keep_busy=False)

    @cached_property
    def _offers(self) -> Sequence[Offer]:
        return offers_of(self._ideal, self._room, self._room)

    def cleared(self, i: int) -> _Cleared | None:
        """Return what this pool gives on the fewest domains, with the moves for it; None if it gives too few CPUs."""
        pool, offer = self._context.tree.pools[i], self._offers[i]
        taken = take(self._ideal, pool, offer, self._room.give) if offer.fits and offer.sliced else None
        if taken is None:
            return None
        moves = self._clearing.moves(pool, taken.exclusive)
        return None if moves is None else _Cleared(pool, offer, taken, moves)

    def choice(self, i: int) -> PoolChoice | None:
        """Return the same as a choice, with the memory of those that move."""
        cleared = self.cleared(i)
        return None if cleared is None else self.choice_of(cleared)

    def choice_of(self, cleared: _Cleared) -> PoolChoice:
        """Return this as a choice."""
        moved = in_pools(self._context.supply, cleared.moves)
        why = (reasons.lifted(moved),) if moved else ()
        return PoolChoice(cleared.pool, cleared.pool.index, cleared.offer, cleared.taken, moved, why)


def better_choice(context: PlacementContext, ranking: Ranking, placed: Placed) -> PoolChoice | None:
    """Return a choice on fewer domains than this placement, with no more updates of others; None if there is none.

    In all that is compared before the size of pools its pool is as good.
    """
    domains = domains_of(context.tree.domains.root, placed.grant.exclusive.mask)
    if fewest_domains_of(context, len(placed.grant.exclusive)) >= domains:
        return None
    pools = ClearedPools(context)
    otherwise = _updates(context, placed.moved, placed.grant.exclusive.mask)
    for level in _as_good(context, ranking, placed.grant.pool):
        found = []
        for i in level[:MOST_TRIED]:
            cleared = pools.cleared(i)
            fewer = domains if cleared is None else domains_of(context.tree.domains.root, cleared.taken.exclusive)
            if cleared is None or fewer >= domains or cleared.moved_mcpu >= SMALL_MCPU * fewer[2]:
                continue
            choice = pools.choice_of(cleared)
            updates = _updates(context, choice.moved, choice.taken.exclusive)
            if updates <= otherwise:
                found.append((fewer, updates, i, choice))
        if found:
            _, updates, _, choice = min(found, key=lambda f: f[:3])
            why = reasons.kept_together(choice.pool.name, domains, updates, otherwise)
            return replace(choice, reasons=(why, *choice.reasons))
    return None


def domains_of_choice(context: PlacementContext, choice: PoolChoice) -> tuple[int, int, int]:
    """Return on how many packages, NUMA nodes and cache domains the CPUs are that it gives."""
    return domains_of(context.tree.domains.root, choice.taken.exclusive)


def fewest_domains_of(context: PlacementContext, count: int) -> tuple[int, int, int]:
    """Return a lower bound of the domains of so many CPUs, wherever others move."""
    free = context.supply.shared[0] & ~context.supply.withheld
    return fewest_domains(context.tree.domains.root, free, count)


def _as_good(context: PlacementContext, ranking: Ranking, name: str) -> Iterator[list[int]]:
    """Yield the pools of each level, the deepest first, that are as good as this one before size counts."""
    pools, keys, here = context.tree.pools, ranking.keys, context.tree.named(name)
    good = [
        i for i in ranking.order if keys[i][1:_DEPTH] >= keys[here.index][1:_DEPTH] and pools[i].depth >= here.depth
    ]
    for depth in sorted({pools[i].depth for i in good}, reverse=True):
        yield sorted((i for i in good if pools[i].depth == depth), key=lambda i: context.supply.granted_mcpu[i])


def _updates(context: PlacementContext, moved: tuple[Grant, ...], owned: int) -> int:
    """Return how many others get another pinning if these move and these CPUs are owned."""
    by_container = {g.container: g for g in moved}
    pairs = [(g, by_container.get(g.container, g) if moved else g) for g in context.others]
    return count_changed(context.supply, context.supply.owning(owned), pairs, context.options)
