"""Find better places for sharers whose CPUs go to a container that comes (docs/placement.md, Enactment). Pure.

They are updated anyway, as their shared set shrinks: a move costs no update more now, and one more at a slow check.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from policies.base import Allocations, CpuKind, Grant, Placed
from policies.topology_aware import reasons
from policies.topology_aware.cleared_domain import with_moved
from policies.topology_aware.pinning import pinning_of
from policies.topology_aware.rebalance import better_among, rank_of
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.supply import Supply

LOOKED_AT: Final = 2
"""Sharers of one placement, each of which costs half a decision, before the reply to the kubelet."""
FEW_CPUS: Final = 2
"""What a container without a CPU limit is squeezed on: it may use all that it finds, and finds next to nothing."""


def with_rebalanced(context: PlacementContext, held: Allocations, placed: Placed) -> Placed:
    """Return the placement with few of those moved that it squeezes, if a fresh decision places them better then.

    Only of a new container: one that grows while it runs, or is placed again, changes as little as can be.
    """
    most = context.options.moves_per_check
    if not placed.grant.exclusive or context.own is not None or not most:
        return placed
    after = with_moved(context, placed.moved).plus(placed.grant)
    if not after.memory.holds:
        return placed
    squeezed = sorted(_squeezed(context, after, placed), key=rank_of)[:LOOKED_AT]
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
        if 1000 * left[grant.pool] >= limit_mcpu or grant.is_overcommitted:
            continue
        # Without this it would be an update more: its CPUs are not written, or it runs on one thread of each core.
        if pinning_of(grant, after, new, options).cpus != pinning_of(grant, supply, old, options).cpus:
            yield grant
