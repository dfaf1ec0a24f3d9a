"""Find containers that share CPUs and that a fresh decision would place better (docs/placement.md, Enactment).

They were lifted, grew over their node, or came while it was full; or they belong on the reserved CPUs, and these have
room for them again, or are promised more than they have. Moves come to an end, as each improves a measure of all
sharers together (``_Search``).

To the reserved CPUs they only move while there is room, and away from them only while there is none: either ends, too.

Sharers whose CPUs go to a container that comes are updated anyway: a move costs no update more then, and one more at a
slow check.
"""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import compress, islice, repeat
from operator import attrgetter, is_, itemgetter

from policies.base import Allocations, ContainerKey, CpuKind, Grant, Placed
from policies.hardware.pools import Pool, PoolTree
from policies.policy import BetterPlaces
from policies.preferences import Threads
from policies.topology_aware import reasons
from policies.topology_aware.keys.score import Key
from policies.topology_aware.locality.affinity import gain_of_others
from policies.topology_aware.locality.devices import at_devices
from policies.topology_aware.memory.home import home_zone, in_pool
from policies.topology_aware.memory.hugepages import ON_ITS_NODES
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.pinning import pinning_of
from policies.topology_aware.place import place
from policies.topology_aware.ranking import best_pool
from policies.topology_aware.supply.context import PlacementContext, context_of, with_moved
from policies.topology_aware.supply.demand import has_overflowed, off_reserved
from policies.topology_aware.supply.load import FELT_MCPU, IDLE_MCPU, load_of
from policies.topology_aware.supply.supply import FEW_CPUS, Supply, room_of
from sysfs.cpuset import NodeSet

# Containers of one call, each of which costs half a decision: the next call goes on behind them.
LOOKED_AT = 64
# Sharers of one placement, before the reply to the kubelet.
SQUEEZED_LOOKED_AT = 2
# A sharer that asks for so much goes where its CPUs are quieter though smaller ones are crowded then: they find a place
# sooner than it does.
LARGE_MCPU = 1000
# Fields that tell equal places apart, or say nothing about one for a container that shares.
_TIES = frozenset(
    {
        *("previous", "isolated", "priority", "cpu_domains", "undisturbed", "cores"),
        *("squeezed", "pod", "expected", "used", "full", "left", "first"),
    }
)
# A move for one of these changes it for no other container or, for those in the new pool, to no worse than it was for
# the one that moves (quiet). The measure knows what it takes from others in the fields before. No other field decides.
_STEADY = frozenset(
    {"hints", "hint_distance", "memory", "memory_suits", "width", "crowded", "near_memory", "depth", "quiet"}
)
_FROM_CROWDED = frozenset(Key._fields[Key._fields.index("crowded") :])
_FROM_MEMORY = frozenset(Key._fields[Key._fields.index("near_memory") :])
_LAST = "quiet"
_HAS_MEMORY = 2  # see ``MemoryOffer``
_POOL, _THREADS = attrgetter("pool"), attrgetter("request.preferences.threads")  # of all containers of a node, in C
_PLACE = tuple(i for i, name in enumerate(Key._fields) if name not in _TIES)


def better_places(
    options: TopologyAwareOptions, held: Allocations, supply: Supply, after: ContainerKey | None
) -> BetterPlaces:
    """Return few grants that move, each computed beside those before it, among the containers that follow ``after``.

    Their memory nodes grow by those of the new pool; what is too much then is for ``narrowed``.
    """
    if not supply.memory.holds:  # then zones grow, wherever their containers are
        return BetterPlaces()
    is_crowded = supply.tree.root.reserved and supply.reserved_free_mcpu() < 0
    kinds = (CpuKind.SHARED, CpuKind.RESERVED) if is_crowded else (CpuKind.SHARED,)
    # One without a reservation is placed again by the check for room, with all that it asked for or not at all.
    sharers = [g for g in held.grants if g.kind in kinds and not g.is_overcommitted]
    waiting = [g for g in sharers if after is None or g.container > after]
    search = _Search(options, held, supply)
    found: list[Grant] = []
    for i, grant in enumerate(waiting):
        if i == LOOKED_AT or len(found) >= options.moves_per_check:
            return BetterPlaces(tuple(found), waiting[i - 1].container if i else after)
        better = search.better(grant)
        if better is not None:
            found.append(better)
    return BetterPlaces(tuple(found))


def with_rebalanced(context: PlacementContext, held: Allocations, placed: Placed, after: Supply) -> Placed:
    """Return the placement with few of those moved that it squeezes, if a fresh decision places them better then.

    ``after`` is the supply with it.

    Only of a new container: one that grows while it runs, or is placed again, changes as little as can be. A reason
    names those that run on one thread of each core and have too few cores then.
    """
    placed = _with_moves(context, held, placed, after)
    short = tuple(_short_of_cores(context, placed))
    return replace(placed, reasons=(*placed.reasons, reasons.others_too_few_cores(short))) if short else placed


def _with_moves(context: PlacementContext, held: Allocations, placed: Placed, after: Supply) -> Placed:
    most = context.options.moves_per_check
    # While promises cannot be kept, zones grow, wherever their containers are.
    if context.own is not None or not most or not after.memory.holds:
        return placed
    effective = after.effective()
    # Those without the cores that they ask for first: the others have too few only for what they may use.
    order = sorted(
        _squeezed(context, after, placed), key=lambda g: (not _lacks_cores(context, g, after, effective), _rank_of(g))
    )
    squeezed = order[:SQUEEZED_LOOKED_AT]
    if not squeezed:
        return placed
    then = held.with_grants(*placed.moved, placed.grant)
    search = _Search(context.options, then, after)
    found = tuple(islice(filter(None, map(search.better, squeezed)), most))
    if not found:
        return placed
    moved = sorted((*placed.moved, *found), key=lambda grant: grant.container)
    keys = tuple(grant.container for grant in found)
    why = (*placed.reasons, reasons.rebalanced(found))
    return replace(placed, moved=tuple(moved), rebalanced=keys, reasons=why)


def _squeezed(context: PlacementContext, after: Supply, placed: Placed) -> Iterator[Grant]:
    """Yield the sharers that get fewer CPUs by this placement than they may use, and do not move for it."""
    supply, options = context.supply, context.options
    old, new = supply.effective(), after.effective()
    counts = zip(context.tree.pools, map(int.bit_count, old), map(int.bit_count, new), strict=True)
    left = {pool.name: now for pool, was, now in counts if now < was}
    moved = {grant.container for grant in placed.moved}
    for grant in compress(context.others, map(left.__contains__, map(_POOL, context.others))):
        if grant.kind is not CpuKind.SHARED or grant.container in moved:
            continue
        # Without a limit it uses all that it finds: two CPUs or fewer are too few then.
        limit_mcpu = grant.request.cpu_limit_mcpu or 1000 * (FEW_CPUS + 1)
        is_wide = 1000 * left[grant.pool] >= limit_mcpu and not _lacks_cores(context, grant, after, new)
        if is_wide or grant.is_overcommitted:
            continue
        # Without this it would be an update more: its CPUs are not written, or it runs on one thread of each core.
        if pinning_of(grant, after, new, options).cpus != pinning_of(grant, supply, old, options).cpus:
            yield grant


def _short_of_cores(context: PlacementContext, placed: Placed) -> Iterator[Grant]:
    """Yield the others that had enough cores before this placement, and have too few of them with it."""
    hiding = [grant for grant in _preferring(context, Threads.HIDE) if _hides(context, grant)]
    if not hiding:
        return
    after, moved = with_moved(context, placed.moved).plus(placed.grant), {g.container: g for g in placed.moved}
    old, new = context.supply.effective(), after.effective()
    for grant in hiding:
        now = moved.get(grant.container, grant)
        if _lacks_cores(context, now, after, new) and not _lacks_cores(context, grant, context.supply, old):
            yield now


def _lacks_cores(context: PlacementContext, grant: Grant, supply: Supply, effective: tuple[int, ...]) -> bool:
    """Return whether it only shares, on one thread of each core, and has fewer cores than it asks for."""
    if not _hides(context, grant):
        return False
    cpus = pinning_of(grant, supply, effective, context.options).cpus
    return cpus is not None and 1000 * len(cpus) < grant.shared_mcpu


def _preferring(context: PlacementContext, threads: Threads) -> Iterator[Grant]:
    """Yield the others that may have these threads: all where that is the option."""
    if context.options.threads is threads:
        return iter(context.others)
    return compress(context.others, map(is_, map(_THREADS, context.others), repeat(threads)))


def _hides(context: PlacementContext, grant: Grant) -> bool:
    threads = grant.request.preferences.threads or context.options.threads
    return grant.kind is CpuKind.SHARED and threads is Threads.HIDE


class _Search:
    """The grants while moves are looked for; never leaves this module.

    The measure that each move improves is a list, compared from its start, larger is better:

    1. the sums, over all sharers, of each field before ``crowded``, in the order of the key;
    2. ``crowded``, ``near_memory`` and ``depth`` of each large sharer (``LARGE_MCPU``), those that ask for most first;
    3. minus the unevenness of the load that large sharers and the fractions of owners make;
    4. and 5. as 2. and 3., of the others and of all.

    The unevenness is the sum over CPUs of the squared load, plus that over sharers of their squared request divided by
    the CPUs of their pool. A sharer that asks for x and moves changes it by 2x times the load of each CPU, its own part
    included, in the new pool less that in the old one. So it falls just where the load (``quiet``) does. There are
    finitely many ways to place the sharers: as no move leads to a measure that was there before, moves end.
    """

    def __init__(self, options: TopologyAwareOptions, held: Allocations, supply: Supply) -> None:
        self._options = options
        self._held = held
        self._supply = supply

    def better(self, grant: Grant) -> Grant | None:
        """Return the grant in a better pool, and count on that from now on; None where it is well placed."""
        context = context_of(self._options, self._held, self._supply, replace(grant.request, previous=None))
        moved = _on_or_off_reserved(context) if context.demand.kind is CpuKind.RESERVED else None
        if moved is None and grant.kind is CpuKind.SHARED:
            moved = self._in_better_pool(_as_sharer(context), grant)
        if moved is not None:
            # Its zone will be narrowed to home, where there is room: the next one is to find the rest.
            home = home_zone(context.supply, moved)
            self._take(context.supply, replace(moved, mems=NodeSet(home)) if home else moved)
        return moved

    def _take(self, others: Supply, moved: Grant) -> None:
        self._held, self._supply = self._held.with_grants(moved), others.plus(moved)

    def _in_better_pool(self, context: PlacementContext, grant: Grant) -> Grant | None:
        tree, levels = context.tree, context.demand.levels_up
        here = tree.named(grant.pool)
        best = best_pool(context, room_of(context.supply, keep_busy=True), beside=here.index)
        target = tree.pools[_above(tree, best.index, levels)]
        if target.index == here.index:
            return None
        memory = best.fixed.memory_in(best.index)
        # A move must not make a third container move: with room as zones are, and its huge pages there.
        has_memory = memory.room == _HAS_MEMORY and memory.huge_pages == ON_ITS_NODES and memory.as_is
        if not has_memory or not best.keys[best.index].fits:
            return None
        fresh, now = best.keys[best.index], best.keys[here.index]
        moved = in_pool(context.supply, grant, target.name)
        if levels:
            # The key is that of another pool than its own. So it only comes down to where it was lifted from.
            return moved if here.index < target.index < here.end else None
        if _place(fresh) <= _place(now):
            return None
        farther = _nearest(target, memory.zone) - _nearest(here, best.fixed.memory_in(here.index).zone)
        return moved if self._is_for_all(context, moved, fresh, now, farther) else None

    def _is_for_all(self, context: PlacementContext, moved: Grant, fresh: Key, now: Key, farther: int) -> bool:
        """Return whether this move brings all sharers together nearer to their best places.

        ``farther`` is how much farther its nearest memory is then. Which of it is full, others have a part in.
        """
        field = next(Key._fields[i] for i in _PLACE if fresh[i] != now[i])
        # The measure counts first how many fit where they are: nothing after it outweighs that.
        if field == "fits":
            return True
        # Affinities pull both ways: what the others gain or lose by the move counts as much.
        gained = fresh.affinity - now.affinity
        if context.own is not None:
            gained += gain_of_others(context.tree, self._options, context.others, context.own, moved)
        if gained < 0 or field == "affinity":
            return gained > 0
        is_worth_it = field in _STEADY and (field != _LAST or fresh.quiet - now.quiet >= FELT_MCPU)
        stays_near = farther < 0 if field == "near_memory" else field not in _FROM_MEMORY or farther <= 0
        if not is_worth_it or not stays_near or not self._stays_at_devices(context, moved, field):
            return False
        return field not in _FROM_CROWDED or self._is_less_crowded(context, moved, field)

    def _is_less_crowded(self, context: PlacementContext, moved: Grant, field: str) -> bool:
        """Return whether a move for this field, from ``crowded`` on, betters what counts first of those it changes."""
        changes = [(_rank_of(g), gain) for g, gain in self._crowding_lost(context, moved)]
        if field != _LAST:
            return min([*changes, (_rank_of(moved), 1)])[1] > 0
        of_large = [change for change in changes if _is_large(change[0])]
        if not of_large and _is_large(_rank_of(moved)):
            less_load = self._of_large(context, context.own or moved) - self._of_large(context, moved)
            if less_load:
                return less_load > 0
        return not changes or min(changes)[1] > 0

    def _stays_at_devices(self, context: PlacementContext, moved: Grant, field: str) -> bool:
        """Return whether it stays as near its devices, nearer where that decides: not by room that others may take.

        A pool that owners have left few CPUs is not near (``devices.at_devices``). Moves of sharers change no width.
        """
        if not context.request.localities or context.own is None:
            return True
        tree = context.tree
        target, here = tree.named(moved.pool), tree.named(context.own.pool)
        after, before = (at_devices(context, target), target.depth), (at_devices(context, here), here.depth)
        return after > before if field == "hints" else after[0] >= before[0]

    def _crowding_lost(self, context: PlacementContext, moved: Grant) -> Iterator[tuple[Grant, int]]:
        """Yield the other sharers that are crowded more or less afterwards, with how much less."""
        before, after = load_of(self._supply), load_of(context.supply.plus(moved))
        for grant in self._held.grants:
            if grant.kind is CpuKind.SHARED and grant.container != moved.container:
                pool, own_mcpu = context.tree.named(grant.pool).index, grant.shared_mcpu or IDLE_MCPU
                gain = before.crowding(pool, own_mcpu) - after.crowding(pool, own_mcpu)
                if gain:
                    yield grant, gain

    def _of_large(self, context: PlacementContext, there: Grant) -> Fraction:
        """Return the load per CPU that large sharers and the fractions of owners make with this grant, where it is.

        Exact: a rounded load could be the same to and fro.
        """
        effective, tree = context.supply.effective(), context.tree
        here = effective[tree.named(there.pool).index]
        load = Fraction(there.shared_mcpu)
        for grant in context.others:
            if grant.shared_mcpu and (grant.owned or _is_large(_rank_of(grant))):
                cpus = effective[tree.named(grant.pool).index]
                load += Fraction(grant.shared_mcpu * (cpus & here).bit_count(), cpus.bit_count())
        return load / here.bit_count()


def _on_or_off_reserved(context: PlacementContext) -> Grant | None:
    """Return the grant of a reserved container on the reserved CPUs, where these have room, else on shared ones.

    None where it is already, or where others would have to change for it.
    """
    fresh = place(context)
    if not isinstance(fresh, Placed) or fresh.moved or context.own is None or fresh.grant.kind is context.own.kind:
        return None
    # With room on neither it stays where it is: only a new container goes to reserved CPUs that have none.
    has_room = context.demand.reserved_mcpu <= context.supply.reserved_free_mcpu() or not context.tree.root.reserved
    if has_overflowed(context.own) and fresh.grant.kind is CpuKind.RESERVED and not has_room:
        return None
    return replace(fresh.grant, request=context.own.request)


def _as_sharer(context: PlacementContext) -> PlacementContext:
    """Return the context of one that overflowed with what it asks of shared CPUs; of any other as it is."""
    if context.demand.kind is not CpuKind.RESERVED:
        return context
    return replace(context, demand=off_reserved(context.request, context.options, context.tree.threads_per_core))


def _above(tree: PoolTree, pool: int, levels: int) -> int:
    """Return the pool so many levels up, at most the root."""
    path = tree.pools[pool].path
    return path[min(levels, len(path) - 1)]


def _place(key: Key) -> tuple[float, ...]:
    """Return how good a place is, without what only tells equal places apart."""
    found: tuple[float, ...] = itemgetter(*_PLACE)(key)
    return found


def _nearest(pool: Pool, zone: int) -> int:
    """Return how far the nearest memory of this zone is from the pool, full or not; 0 where memory is not ours."""
    return next((distance for distance, nodes in pool.distances if nodes & zone), 0)


def _rank_of(grant: Grant) -> tuple[int, ContainerKey]:
    """Return whose place counts first: that of the container that asks for most."""
    return (-grant.shared_mcpu, grant.container)


def _is_large(rank: tuple[int, ContainerKey]) -> bool:
    """Return whether that container asks for so much that its load counts before the places of others."""
    return -rank[0] >= LARGE_MCPU
