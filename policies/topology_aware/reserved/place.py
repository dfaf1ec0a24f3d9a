"""Place containers of the reserved CPUs elsewhere while these are full, and send them back where others need room."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from policies.base import CpuKind, Decision, Grant, Placed, Rejected
from policies.topology_aware import reasons
from policies.topology_aware.supply.context import Place, PlacementContext, with_moved
from policies.topology_aware.supply.demand import has_overflowed, off_reserved
from sysfs.cpuset import CpuSet

# Containers that may stay on shared CPUs after all when others go back for a container: each one costs a decision.
MOST_SPARED: Final = 16


def overflowed(context: PlacementContext, place: Place) -> Placed | None:
    """Return a place on shared CPUs where more would be booked on the reserved ones than they have; None if none fits.

    ``place`` finds it. A container that asks for no CPU time takes none from the others there.
    """
    supply, wanted_mcpu = context.supply, context.demand.reserved_mcpu
    # With no CPU reserved these containers share the root already; without a request there is nothing to overbook.
    if not context.tree.root.reserved or not wanted_mcpu or wanted_mcpu <= supply.reserved_free_mcpu():
        return None
    demand = off_reserved(context.request, context.options, context.tree.threads_per_core)
    placement = place(replace(context, demand=demand))
    if isinstance(placement, Rejected):
        return None
    why = reasons.reserved_full(CpuSet(context.tree.root.reserved), wanted_mcpu, supply.reserved_mcpu)
    # Marks it as overflowed (``has_overflowed``): the slow check, and others that need room, send it back.
    grant = replace(placement.grant, reserved_mcpu=wanted_mcpu)
    return replace(placement, grant=grant, reasons=(why, *placement.reasons))


def with_reserved_back(context: PlacementContext, place: Place, refusal: Rejected) -> Decision:
    """Return a place for which as few of those that overflowed go back as suffice; ``place`` has none without that.

    The refusal, if all of them are too few. They are the first to do with less: no other container is refused for them.
    """
    away = sorted(filter(has_overflowed, context.others), key=lambda grant: (-grant.shared_mcpu, grant.container))
    best = _with_back(context, place, away) if away else None
    if best is None:
        return refusal
    # What lacks is CPU time of one pool, nearly always: so the largest are the fewest.
    low, high = 1, len(away)
    while low < high:
        middle = (low + high) // 2
        if (found := _with_back(context, place, away[:middle])) is not None:
            best, high = found, middle
        else:
            low = middle + 1
    back = away[:high]
    # Some of the larger ones may be where nothing lacks. The smallest is needed beside them.
    for grant in back[-2 : -2 - MOST_SPARED : -1]:
        fewer = [other for other in back if other is not grant]
        if (found := _with_back(context, place, fewer)) is not None:
            best, back = found, fewer
    return best


def _with_back(context: PlacementContext, place: Place, away: Sequence[Grant]) -> Placed | None:
    """Return a placement once these are back on the reserved CPUs; None if there is none even then."""
    root = context.tree.root.name  # their memory stays where it is
    back = {g.container: replace(g, pool=root, kind=CpuKind.RESERVED, shared_mcpu=0) for g in away}
    others = tuple(back.get(grant.container, grant) for grant in context.others)
    supply = with_moved(context, tuple(back.values()))
    placement = place(replace(context, supply=supply, others=others))
    if isinstance(placement, Rejected):
        return None
    moved = back | {grant.container: grant for grant in placement.moved}
    why = (reasons.reserved_returned(tuple(back[key] for key in sorted(back))), *placement.reasons)
    return replace(placement, moved=tuple(moved[key] for key in sorted(moved)), reasons=why)
