"""Find a pool that gives own CPUs on fewer domains once shared grants have left it. Pure.

A share of 100m in every NUMA node keeps each node from giving all of its CPUs. The sharers of a node that loses CPUs
are updated anyway: they move to a wider pool instead, where that costs no more updates.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Final

from policies.base import Grant, Placed
from policies.topology_aware import reasons
from policies.topology_aware.cpus.allocate import take
from policies.topology_aware.cpus.offer import Offer, offers_of
from policies.topology_aware.cpus.spread import domains_of, fewest_domains
from policies.topology_aware.explain import PoolChoice
from policies.topology_aware.keys.score import Key
from policies.topology_aware.memory.home import in_pools
from policies.topology_aware.migration import Clearing, Move, with_shares_in_root
from policies.topology_aware.pinning import OtherGrants, count_changed
from policies.topology_aware.ranking import Ranking
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.supply import Room, room_of

SMALL_MCPU: Final = 1000
"""Shares that leave are small below this, together, for each domain that the container gets: what they run on elsewhere
is farther from their memory, and more of it would cost more than CPUs on fewer domains gain."""
MOST_TRIED: Final = 8
"""Pools of one level that are tried, those with the smallest shares: each costs a tenth of a decision or more."""
_DEPTH: Final = Key._fields.index("depth")


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

    def choice(self, i: int, otherwise: tuple[int, int, int] | None = None) -> PoolChoice | None:
        """Return what this pool gives on the fewest domains, with the moves for it; None if it gives too few CPUs.

        Beside a placement on so many domains ``otherwise``, None too if they are no fewer, or other than small shares
        leave.
        """
        pool, offer = self._context.tree.pools[i], self._offers[i]
        taken = take(self._ideal, pool, offer, self._room.give) if offer.fits and offer.sliced else None
        if taken is None:
            return None
        moves = self._clearing.moves(pool, taken.exclusive)
        domains = domains_of(self._context.tree.domains.root, taken.exclusive)
        if moves is None or (otherwise is not None and (domains >= otherwise or not _are_small(moves, domains[2]))):
            return None
        moved = in_pools(self._context.supply, moves)
        return PoolChoice(pool, i, offer, taken, moved, (reasons.lifted(moved),) if moved else ())


def _are_small(moves: Sequence[Move], domains: int) -> bool:
    return sum(grant.shared_mcpu for grant, _ in moves) < SMALL_MCPU * domains


def better_choice(context: PlacementContext, ranking: Ranking, placed: Placed) -> PoolChoice | None:
    """Return a choice on fewer domains than this placement, with no more updates of others; None if there is none.

    In all that is compared before the size of pools its pool is as good.
    """
    domains = domains_of(context.tree.domains.root, placed.grant.exclusive.mask)
    # A bound that no move can beat: most placements end here, without a second search.
    if fewest_domains_of(context, len(placed.grant.exclusive)) >= domains:
        return None
    pools = ClearedPools(context)
    otherwise = _updates(context, placed.moved, placed.grant.exclusive.mask)
    for level in _as_good(context, ranking, placed.grant.pool):
        found = []
        for i in level[:MOST_TRIED]:
            choice = pools.choice(i, domains)
            updates = _updates(context, choice.moved, choice.taken.exclusive) if choice is not None else 0
            # An update is a call to the runtime, which the start of the container waits for.
            if choice is not None and updates <= otherwise:
                found.append((domains_of_choice(context, choice), updates, i, choice))
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
    least = keys[here.index][1:_DEPTH]
    # No more keys are made than are needed: only these that may be as good by their first fields.
    may_be = [i for i, head in enumerate(ranking.heads) if head[1:] >= least[: len(head) - 1]]
    good = [i for i in may_be if keys[i][1:_DEPTH] >= least and pools[i].depth >= here.depth]
    good.sort(key=keys.__getitem__, reverse=True)
    for depth in sorted({pools[i].depth for i in good}, reverse=True):
        yield sorted((i for i in good if pools[i].depth == depth), key=lambda i: context.supply.granted_mcpu[i])


def _updates(context: PlacementContext, moved: tuple[Grant, ...], owned: int) -> int:
    """Return how many others get another pinning if these move and these CPUs are owned."""
    others = OtherGrants(context.others, moved)
    return count_changed(context.supply, context.supply.owning(owned), others, context.options)
