"""Plan which shared grants move to wider pools, so that a pool can give whole CPUs to an exclusive request. Pure.

A pool keeps a whole CPU for a fraction that is granted in it. Four nodes with 500m each keep four CPUs; in the root
the same grants need two. There are two plans: the fewest moves until a pool can give so many CPUs, and the moves that
clear given CPUs.
"""

from bisect import bisect_left
from dataclasses import replace

from policies.base import ContainerKey, Grant
from policies.hardware.pools import Pool
from policies.preferences import Threads
from policies.topology_aware.cpus.cores import on_free_cores
from policies.topology_aware.locality.devices import reach_in
from policies.topology_aware.memory.home import in_pool
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.demand import is_for_single_node
from policies.topology_aware.supply.supply import Supply, givable
from sysfs.cpuset import gathered


def with_shares_in_root(context: PlacementContext) -> PlacementContext:
    """Return the input as if all shares were granted in the root, but those that must be near their devices.

    What a pool can give then, it can give once others have moved (``Clearing``).
    """
    granted = [0] * len(context.tree.pools)
    granted[0] = context.supply.granted_mcpu[0]
    for grant in context.others:
        if grant.shared_mcpu and _stays(context, grant):
            # The sum of the root has it already.
            for i in context.tree.named(grant.pool).path[:-1]:
                granted[i] += grant.shared_mcpu
    return replace(context, supply=replace(context.supply, granted_mcpu=tuple(granted)))


Move = tuple[Grant, str]
"""A shared grant, and the wider pool to which it moves."""


class Clearing:
    """The shared grants that may move, to clear CPUs of several pools in turn."""

    def __init__(self, context: PlacementContext) -> None:
        """Take the input of a placement."""
        self._context = context
        movable = (g for g in context.others if g.shared_mcpu and not _stays(context, g))
        self._grants = sorted(movable, key=lambda g: (g.shared_mcpu, g.container))
        self._mcpu = [g.shared_mcpu for g in self._grants]
        self._homes = [context.tree.named(g.pool).index for g in self._grants]

    def moves(self, pool: Pool, taken: int) -> tuple[Move, ...] | None:
        """Return few moves, so that the container may own these CPUs of the pool; None if impossible.

        Every pool from the deepest up that has less left than is granted in it sends grants to the next one: first
        those that move in any case, then those whose CPUs shrink in any case, then others.
        """
        pools, shared = self._context.tree.pools, self._context.supply.shared
        granted = list(self._context.supply.granted_mcpu)
        for i in pool.path:
            granted[i] += self._context.demand.shared_mcpu
        homes, moved = list(self._homes), set[int]()
        # These are updated in any case: to move them costs no update more.
        shrink = [bool(pools[home].cpus & taken) for home in homes]
        # Deepest first: what leaves a pool is granted in the next one, which is looked at afterwards.
        for low in reversed(pools[1:]):
            over = granted[low.index] - 1000 * (shared[low.index] & ~taken).bit_count()
            # A pool that loses no CPU, and holds no new share, covers what is granted in it as before.
            if over <= 0 or (low.index not in pool.path and not low.cpus & taken):
                continue
            tiers: tuple[list[int], list[int], list[int]] = ([], [], [])
            for n, home in enumerate(homes):
                if low.index <= home < low.end:
                    tiers[0 if n in moved else 1 if shrink[n] else 2].append(n)
            chosen: list[int] = []
            for tier in tiers:
                fewest = self._fewest(tier, over)
                chosen += fewest
                over -= sum(self._mcpu[n] for n in fewest)
            if over > 0:
                return None
            for n in chosen:
                path = pools[homes[n]].path
                for i in path[: path.index(low.parent)]:
                    granted[i] -= self._mcpu[n]
                homes[n] = low.parent
            moved.update(chosen)
        found = ((self._grants[n], pools[homes[n]].name) for n in moved)
        return tuple(sorted(found, key=lambda move: move[0].container))

    def _fewest(self, grants: list[int], mcpu: int) -> list[int]:
        """Return the fewest of these with this much CPU time together, small ones of those; all if that is too little.

        They are in the order of their CPU time.
        """
        left, chosen = list(grants), list[int]()
        while mcpu > 0 and left:
            enough = bisect_left(left, mcpu, key=self._mcpu.__getitem__)
            chosen.append(left.pop(min(enough, len(left) - 1)))
            mcpu -= self._mcpu[chosen[-1]]
        return chosen


def _stays(context: PlacementContext, grant: Grant) -> bool:
    """Return whether the grant must be near its devices, or in one NUMA node: it moves nowhere."""
    if is_for_single_node(grant.request, context.options, owns=bool(grant.owned)):
        return True
    return bool(grant.request.preferences.strict_locality and grant.request.localities)


class _Plan:
    """The shared accounts while moves are tried; never leaves this module."""

    def __init__(self, context: PlacementContext, pool: Pool) -> None:
        self._tree = context.tree
        self._supply = _without_unusable(context, pool)
        self._pool = pool
        self._granted = list(context.supply.granted_mcpu)
        self._keep = [0] * len(context.tree.pools)

    def gives(self) -> int:
        """Return how many CPUs the pool's subtree can give up now."""
        return givable(self._supply, self._granted, self._keep)[0][self._pool.index]

    def shift(self, mcpu: int, low: int, high: int) -> None:
        """Move this much from pool ``low`` to ``high``, one above it; a negative amount undoes that."""
        for i in self._tree.pools[low].path:
            if i == high:
                return
            self._granted[i] -= mcpu

    def gives_after(self, mcpu: int, low: int) -> int:
        """Return how many CPUs could be given if this much moved from ``low`` to the pool."""
        self.shift(mcpu, low, self._pool.index)
        result = self.gives()
        self.shift(-mcpu, low, self._pool.index)
        return result

    def last_cpu_mcpu(self, pool: int) -> int:
        """Return how much of its last CPU the pool's shared account needs: 1 to 1000."""
        return (self._granted[pool] - 1) % 1000 + 1


def plan_migrations(context: PlacementContext, pool: Pool, count: int) -> tuple[Grant, ...] | None:
    """Return few grants in wider pools, so that the pools below ``pool`` give ``count`` CPUs; None if impossible.

    The caller knows that the pool itself has the CPU time. The smallest grant that frees a CPU goes first, then by
    container; if no single one does, the largest of the pool that is nearest to freeing one. Unneeded moves are undone,
    and a grant moves no higher than it must.
    """
    plan = _Plan(context, pool)
    waiting = _candidates(context, pool)
    chosen: list[tuple[Grant, int]] = []
    while plan.gives() < count:
        found = _next_migration(plan, waiting)
        if found is None:
            return None
        low, position = found
        grant = waiting[low].pop(position)
        plan.shift(grant.shared_mcpu, low, pool.index)
        chosen.append((grant, low))
    needed = _without_needless(plan, chosen, pool.index, count)
    return tuple(sorted(_lowest_targets(context, plan, needed, pool, count), key=lambda g: g.container))


def _without_unusable(context: PlacementContext, pool: Pool) -> Supply:
    """Return the supply with CPUs withheld that the container may not own: far from its devices, on broken cores."""
    supply = context.supply
    usable = supply.shared[0] & ~supply.withheld & reach_in(context, pool)
    # A freed thread whose sibling another container owns is none of a whole core.
    if context.demand.threads is not Threads.ANY:
        usable = on_free_cores(context.tree, usable)
    return replace(supply, withheld=supply.withheld | supply.shared[0] & ~usable)


def _candidates(context: PlacementContext, pool: Pool) -> dict[int, list[Grant]]:
    """Return shared grants by pool below, smallest first, except those that must be near their devices."""
    homes = ((context.tree.named(grant.pool).index, grant) for grant in context.others if grant.shared_mcpu)
    below = [(home, g) for home, g in homes if pool.index < home < pool.end and not _stays(context, g)]
    return gathered(sorted(below, key=lambda move: (move[0], move[1].shared_mcpu, move[1].container)))


def _next_migration(plan: _Plan, waiting: dict[int, list[Grant]]) -> tuple[int, int] | None:
    """Return (pool, position) of the grant to move next, or None if none is left."""
    now = plan.gives()
    freeing: list[tuple[int, ContainerKey, int, int]] = []
    for low, grants in waiting.items():
        # In order of size: where the largest frees no CPU, none does.
        if grants and plan.gives_after(grants[-1].shared_mcpu, low) > now:
            position = _smallest_freeing(plan, grants, low, now)
            freeing.append((grants[position].shared_mcpu, grants[position].container, low, position))
    if freeing:
        return min(freeing)[2:]
    left = [low for low, grants in waiting.items() if grants]
    if not left:
        return None
    # No single move frees a CPU: begin where the least has to leave for one.
    low = min(left, key=lambda i: (plan.last_cpu_mcpu(i), i))
    return low, len(waiting[low]) - 1


def _smallest_freeing(plan: _Plan, grants: list[Grant], low: int, now: int) -> int:
    """Return the position of the smallest grant that frees a CPU when moved; the largest one is known to."""
    return bisect_left(grants, 1, hi=len(grants) - 1, key=lambda g: plan.gives_after(g.shared_mcpu, low) > now)


def _without_needless(plan: _Plan, chosen: list[tuple[Grant, int]], top: int, count: int) -> list[tuple[Grant, int]]:
    needed = []
    for grant, low in sorted(chosen, key=lambda c: (-c[0].shared_mcpu, c[0].container)):
        plan.shift(-grant.shared_mcpu, low, top)
        if plan.gives() < count:
            plan.shift(grant.shared_mcpu, low, top)
            needed.append((grant, low))
    return needed


def _lowest_targets(
    context: PlacementContext, plan: _Plan, needed: list[tuple[Grant, int]], top: Pool, count: int
) -> list[Grant]:
    moved = []
    for grant, low in needed:
        plan.shift(-grant.shared_mcpu, low, top.index)
        for target in context.tree.pools[low].path[1:]:
            plan.shift(grant.shared_mcpu, low, target)
            if target == top.index or plan.gives() >= count:
                moved.append(in_pool(context.supply, grant, context.tree.pools[target].name))
                break
            plan.shift(-grant.shared_mcpu, low, target)
    return moved
