"""Find better places for sharers whose CPUs go to a container that comes (docs/placement.md, Enactment). Pure.

They are updated anyway, as their shared set shrinks: a move costs no update more now, and one more at a slow check.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from policies.base import Allocations, CpuKind, Grant, Placed
from policies.preferences import Threads
from policies.topology_aware import reasons
from policies.topology_aware.pinning import pinning_of
from policies.topology_aware.rebalance import better_among, rank_of
from policies.topology_aware.supply.context import PlacementContext, with_moved
from policies.topology_aware.supply.supply import Supply

LOOKED_AT: Final = 2
"""Sharers of one placement, each of which costs half a decision, before the reply to the kubelet."""
FEW_CPUS: Final = 2
"""Where a container without a CPU limit is squeezed: it may use all that it finds, and finds next to nothing."""


def with_rebalanced(context: PlacementContext, held: Allocations, placed: Placed) -> Placed:
    """Return the placement with few of those moved that it squeezes, if a fresh decision places them better then.

    Only of a new container: one that grows while it runs, or is placed again, changes as little as can be. A reason
    names those that run on one thread of each core and have too few cores then.
    """
    placed = _with_moves(context, held, placed)
    short = tuple(_short_of_cores(context, placed))
    return replace(placed, reasons=(*placed.reasons, reasons.others_too_few_cores(short))) if short else placed


def _with_moves(context: PlacementContext, held: Allocations, placed: Placed) -> Placed:
    most = context.options.moves_per_check
    if context.own is not None or not most:
        return placed
    after = with_moved(context, placed.moved).plus(placed.grant)
    if not after.memory.holds:
        return placed
    effective = after.effective()
    # Those without the cores that they ask for first: the others have too few only for what they may use.
    order = sorted(
        _squeezed(context, after, placed), key=lambda g: (not _lacks_cores(context, g, after, effective), rank_of(g))
    )
    squeezed = order[:LOOKED_AT]
    if not squeezed:
        return placed
    then = held.with_grants(*placed.moved, placed.grant)
    found = tuple(islice(better_among(context.options, then, after, squeezed), most))
    if not found:
        return placed
    moved = sorted((*placed.moved, *found), key=lambda grant: grant.container)
    return replace(placed, moved=tuple(moved), reasons=(*placed.reasons, reasons.rebalanced(found)))


def _squeezed(context: PlacementContext, after: Supply, placed: Placed) -> Iterator[Grant]:
    """Yield the sharers that get fewer CPUs by this placement than they may use, and do not move for it."""
    supply, options = context.supply, context.options
    old, new = supply.effective(), after.effective()
    left = {
        pool.name: now.bit_count()
        for pool, was, now in zip(context.tree.pools, old, new, strict=True)
        if now.bit_count() < was.bit_count()
    }
    moved = {grant.container for grant in placed.moved}
    for grant in context.others:
        if grant.kind is not CpuKind.SHARED or grant.pool not in left or grant.container in moved:
            continue
        limit_mcpu = grant.request.cpu_limit_mcpu or 1000 * (FEW_CPUS + 1)
        is_wide = 1000 * left[grant.pool] >= limit_mcpu and not _lacks_cores(context, grant, after, new)
        if is_wide or grant.is_overcommitted:
            continue
        # Without this it would be an update more: its CPUs are not written, or it runs on one thread of each core.
        if pinning_of(grant, after, new, options).cpus != pinning_of(grant, supply, old, options).cpus:
            yield grant


def _short_of_cores(context: PlacementContext, placed: Placed) -> Iterator[Grant]:
    """Yield the others that had enough cores before this placement, and have too few of them with it."""
    hiding = [grant for grant in context.others if _hides(context, grant)]
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


def _hides(context: PlacementContext, grant: Grant) -> bool:
    threads = grant.request.preferences.threads or context.options.threads
    return grant.kind is CpuKind.SHARED and threads is Threads.HIDE
