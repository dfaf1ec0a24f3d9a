"""Decide where one container goes: a list of steps, of which the last one searches the pools in up to three passes.

``steps_of`` is the list. A step gets those after it as a function: it may run them more than once, as for other NUMA
nodes, and adds what it decides. Passes of the search:

1. Every pool keeps what it owes, and a pool with a shared set in use keeps a CPU.
2. Only if no pool can give the request: pools that hold only containers without a CPU request may be emptied.
3. Only if that is not enough: shared grants move to wider pools (``migration``).

Own CPUs that a pool of pass 1 or 2 has only on several domains are taken from fewer if small sharers can leave these
(``cleared_domain``).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Protocol

from policies.base import CpuKind, Decision, Grant, Placed, Previous, Reason, Rejected
from policies.hardware.domains import Level
from policies.hardware.pools import Pool
from policies.preferences import CpuDistribution, Threads
from policies.topology_aware import reasons
from policies.topology_aware.alignment.place import place_aligned, place_running
from policies.topology_aware.claims.place import place_claimed
from policies.topology_aware.cleared_domain import ClearedPools, better_choice, domains_of_choice, fewest_domains_of
from policies.topology_aware.cpus.allocate import Taken, added_after, take
from policies.topology_aware.cpus.offer import offers_of
from policies.topology_aware.cpus.spread import domains_of
from policies.topology_aware.devices.step import DeviceStep, at_devices_of_now, near_given
from policies.topology_aware.explain import PoolChoice, choice_reasons, ranked_pools, rejected
from policies.topology_aware.keys.pool_keys import FixedScores
from policies.topology_aware.memory.plan import MemoryPlan, memory_in, with_memory
from policies.topology_aware.migration import plan_migrations
from policies.topology_aware.ranking import Ranking, rank
from policies.topology_aware.reason_codes import ReasonCode
from policies.topology_aware.reserved.place import overflowed, with_reserved_back
from policies.topology_aware.supply.context import Place, PlacementContext, settled, with_moved
from policies.topology_aware.supply.demand import Demand, Isolation, without_whole_cores
from policies.topology_aware.supply.supply import Room, room_of
from sysfs.cpuset import CpuSet, gathered


class PlacementStep(Protocol):
    """A step of a placement."""

    def __call__(self, context: PlacementContext, place: Place) -> Decision:
        """Return what ``place``, the steps after this one, finds, with what this one decides."""


def place(context: PlacementContext) -> Decision:
    """Decide where this container goes. The result has no pinning and no updates yet."""
    if context.demand.conflict:
        return Rejected(reasons.strict_conflict(context.demand.conflict))
    if not context.concerns_devices:
        return _in_steps(context, *steps_of(context))
    # One step for all tries: it chooses devices once for each set of NUMA nodes.
    devices, context = DeviceStep(context), at_devices_of_now(near_given(context), is_chosen=False)
    # Too few devices on the whole machine: no place would change that.
    return devices.lacking or _in_steps(context, *steps_of(context, devices))


def steps_of(context: PlacementContext, *devices: PlacementStep) -> tuple[tuple[PlacementStep, ...], Place]:
    """Return the steps for this container in their order, and what finds its place at last.

    A step that has nothing to do for it is left out, as those of ``devices`` are.
    """
    match context.demand.kind:
        # Its devices are counted all the same, so that no other container gets them.
        case CpuKind.PRESERVE:
            return devices, _preserved
        # No hints and no way to do with less: its CPUs are decided, only room can be made for them.
        case _ if context.request.claim is not None:
            return (*devices, _with_room_made), partial(place_claimed, claim=context.request.claim)
        case CpuKind.RESERVED:
            return (*devices, _on_or_off_reserved, _as_asked_or_less), _search
        case _:
            # Outermost: a merge of hints as for a new container could move a resized one off its CPUs.
            runs = (place_running,) if context.own is not None else ()
            # Before the devices, which are chosen on the nodes that the hints leave.
            within = (place_aligned,) if context.may_be_aligned else ()
            return (*runs, *within, *devices, _with_room_made, _as_asked_or_less), _search


def _in_steps(context: PlacementContext, steps: Sequence[PlacementStep], place: Place) -> Decision:
    for step in reversed(steps):
        place = partial(step, place=place)
    return place(context)


def overcommit(context: PlacementContext, refusal: Rejected) -> Decision:
    """Place a container that only shares CPUs although no pool has the CPU time: it is booked with none.

    It gets the widest pool that its strict preferences allow: there its load falls on the most CPUs.
    """
    # CPUs to own without room for them would be another owner's.
    if refusal.reason.code != ReasonCode.CPU_FULL or context.demand.whole:
        return refusal
    # No tree has as many levels: the walk up ends at the root, or below it at a strict preference.
    demand = replace(context.demand, shared_mcpu=0, levels_up=len(Level))
    # Its earlier place would be preferred to a wide one; its devices stay.
    previous = context.request.previous
    devices = previous.of_devices if previous is not None else None
    unbooked = replace(context, demand=demand, request=replace(context.request, previous=devices))
    placement = _in_steps(near_given(unbooked), (place_aligned, DeviceStep(unbooked)), _search)
    if isinstance(placement, Rejected):
        return placement
    pool = placement.grant.pool
    # Both would speak of levels and figures that the pod did not ask for.
    why = tuple(r for r in placement.reasons if r.code not in (ReasonCode.LEVELS_UP, ReasonCode.POOL))
    grant = replace(placement.grant, request=settled(context.request, placement.grant))
    # That of the refusal was made with the CPU time that lacks; the other one asked for none.
    ranking = tuple(replace(r, outcome="chosen") if r.pool == pool else r for r in refusal.ranking)
    return replace(placement, grant=grant, reasons=(reasons.overcommitted(refusal.reason), *why), ranking=ranking)


def _preserved(context: PlacementContext) -> Decision:
    grant = Grant(context.request, "", CpuKind.PRESERVE)
    why = reasons.preserved(wants_isolated=context.request.preferences.require_isolated)
    return Placed(grant, reasons=(why,))


def _with_room_made(context: PlacementContext, place: Place) -> Decision:
    """Place it, if need be where containers leave room that overflowed from the reserved CPUs."""
    placement = place(context)
    return placement if isinstance(placement, Placed) else with_reserved_back(context, place, placement)


def _on_or_off_reserved(context: PlacementContext, place: Place) -> Decision:
    # With no room elsewhere either the reserved CPUs are promised more than they have: the system is not refused.
    if (elsewhere := overflowed(context, place)) is not None:
        return elsewhere
    # Without reserved CPUs these containers share the root's set, which owners may have taken whole.
    if not context.supply.reserved_set():
        return Rejected(reasons.NOTHING_SHARED)
    root = context.tree.root
    memory = memory_in(context, root, ())
    if isinstance(memory, Reason):
        return Rejected(memory)
    request, mcpu = context.request, context.demand.reserved_mcpu
    grant = Grant(request, root.name, CpuKind.RESERVED, reserved_mcpu=mcpu, mems=memory.mems, is_cold=memory.is_cold)
    annotated = context.request.preferences.prefer_reserved is True
    why = reasons.reserved(CpuSet(root.reserved), by_annotation=annotated)
    return Placed(grant, moved=memory.widened, reasons=(*memory.reasons, why))


def _as_asked_or_less(context: PlacementContext, place: Place) -> Decision:
    """Place as asked, else without what is only preferred."""
    previous = context.request.previous
    plain = without_whole_cores(context.demand)
    # A return or a resize is no reason to move to whole cores elsewhere (docs/placement.md, Whole cores).
    if previous is not None and _did_without_cores(context, previous, plain):
        again = place(replace(context, demand=plain))
        # Where it cannot keep all of them it moves in any case, and whole cores come first again.
        if isinstance(again, Placed) and again.grant.owned == previous.owned:
            return again
    for demand, why in _ways(context):
        placement = place(replace(context, demand=demand))
        if isinstance(placement, Placed):
            return replace(placement, reasons=(*why, *placement.reasons))
    # The last refusal is of the least that would do.
    return _placed_elsewhere(context, place) or placement


def _did_without_cores(context: PlacementContext, previous: Previous, plain: Demand) -> bool:
    """Return whether it had as many CPUs as it asks for without the preferred whole cores, so that it keeps these.

    Not one that lost the rest of a core, nor one that comes back and may no longer do without.
    """
    if previous.only_there or (context.own is None and context.demand.strict_threads):
        return False
    return len(previous.owned) == plain.whole != context.demand.whole


def _placed_elsewhere(context: PlacementContext, place: Place) -> Placed | None:
    """Return a placement for a container that came back and whose earlier CPUs leave no room for what it asks for."""
    request = context.request
    if context.own is not None or request.previous is None or not request.previous.pool:
        return None
    placement = _as_asked_or_less(replace(context, request=replace(request, previous=None)), place)
    if isinstance(placement, Rejected):
        return None
    why = (reasons.previous_lost(request.previous, holds=False), *placement.reasons)
    return replace(placement, grant=replace(placement.grant, request=request), reasons=why)


def _ways(context: PlacementContext) -> Iterator[tuple[Demand, tuple[Reason, ...]]]:
    """Yield the demand, then what does instead, with the reason for each: isolated CPUs last."""
    demand = context.demand
    yield demand, ()
    packed = demand
    if demand.distribution is not CpuDistribution.PACK:
        packed = replace(demand, distribution=CpuDistribution.PACK)
        yield packed, (reasons.not_distributed(demand.asked, demand.distribution),)
    instead: list[tuple[Demand, tuple[Reason, ...]]] = [(packed, ())]
    if demand.threads is not Threads.ANY and not demand.strict_threads:
        instead.append((without_whole_cores(packed), (reasons.no_whole_cores(demand.asked),)))
        yield instead[1]
    # On fewer CPUs than it asks for rather than refused: the siblings of the others stay for other sharers.
    if demand.hides and demand.shared_mcpu and not demand.strict_threads:
        yield replace(demand, hides=False), (reasons.too_few_cores(demand.shared_mcpu),)
    # The kernel balances no load between isolated CPUs, so that threads may crowd on one of them (isolcpus=).
    if _may_have_isolated(context):
        for less, reason in instead:
            yield replace(less, isolation=Isolation.PREFER), (*reason, reasons.isolated_instead(demand.asked))


def _may_have_isolated(context: PlacementContext) -> bool:
    """Return whether isolated CPUs may stand in for ordinary ones, of which none are left."""
    demand, asks = context.demand, context.request.preferences.prefer_isolated
    if not demand.whole or demand.isolation is not Isolation.NO or not context.options.prefer_isolated:
        return False
    # Isolated CPUs are all or none: one that runs would leave its ordinary ones for them.
    moves = context.own is not None and bool(context.own.exclusive)
    return asks is not False and not moves and bool(context.tree.root.isolated)


def _search(context: PlacementContext) -> Decision:
    """Return the first placement of the three passes, or the refusal of the last."""
    fixed = FixedScores(context)
    for room, lenient in _rooms(context):
        ranking = rank(context, fixed, room, lenient)
        placement = _first_placement(context, ranking, _choices(context, ranking))
        if isinstance(placement, Placed):
            return _kept_together(context, fixed, ranking, placement) or placement
    # A pool that is found to have memory is refused it in neither of these passes.
    placement = _first_placement(context, ranking, _after_migration(context, ranking))
    return placement or _without_memory(context, ranking) or rejected(context, ranking)


def _rooms(context: PlacementContext) -> Iterator[tuple[Room, Room]]:
    """Yield the room of each pass, with that for pools where the container was before."""
    lenient, was_nowhere = None, context.request.previous is None
    # The last CPU of sharers without a request is taken only after every pool has been tried.
    for keep_busy in (True, False):
        room = room_of(context.supply, keep_busy=keep_busy)
        # Sharers without a request that came since must not keep a container from where it was.
        if lenient is None and not was_nowhere:
            lenient = room_of(context.supply, keep_busy=False)
        yield room, lenient or room


def _without_memory(context: PlacementContext, ranking: Ranking) -> Rejected | None:
    """Return the refusal for want of memory under a strict preference; None if no pool has the CPUs."""
    for i in ranking.order:
        # It has the CPUs, so that only a strict preference for memory rules it out.
        if ranking.offers[i].fits and not ranking.fits(i):
            memory = memory_in(context, context.tree.pools[i], ())
            return Rejected(memory, ranked_pools(context, ranking, None)) if isinstance(memory, Reason) else None
    return None


def _first_placement(context: PlacementContext, ranking: Ranking, choices: Iterable[PoolChoice]) -> Decision | None:
    """Return the best placement with CPUs and, under a strict preference, memory; None if no pool has the CPUs."""
    refused = None
    for found in choices:
        memory = memory_in(context, found.pool, found.moved, CpuSet(found.taken.exclusive | found.taken.isolated))
        if not isinstance(memory, Reason):
            return _placement(context, ranking, found, memory)
        refused = refused or Rejected(memory, ranked_pools(context, ranking, None))
    return refused


def _choices(context: PlacementContext, ranking: Ranking) -> Iterator[PoolChoice]:
    """Yield the pools that give the requested CPUs, best first; wider ones where an annotation asks for levels up."""
    pools = context.tree.pools
    for i in takewhile(ranking.fits, ranking.best_first()):
        offer = ranking.offers[i]
        room = ranking.lenient if offer.previous else ranking.room
        for pool in _levels_up(context, i, was_here=bool(offer.previous)):
            taken = take(context, pool, offer, room.give)
            if taken is not None:
                levels = context.demand.levels_up
                why = (reasons.levels_up(pools[i].name, pool.name, levels),) if pool.index != i else ()
                yield PoolChoice(pool, i, offer, taken, (), why)
                break


def _levels_up(context: PlacementContext, best: int, *, was_here: bool) -> Iterator[Pool]:
    """Yield the pool ``levels_up`` above the best one, then those below it, which a strict preference may need.

    A pool where the container was before is already that far up.
    """
    path = context.tree.pools[best].path
    levels = 0 if was_here else context.demand.levels_up
    return (context.tree.pools[i] for i in reversed(path[: levels + 1]))


def _kept_together(context: PlacementContext, fixed: FixedScores, ranking: Ranking, placed: Placed) -> Decision | None:
    """Return a placement on fewer domains, from which small sharers move; None if there is none or it costs updates.

    A container that runs, or has run, stays.
    """
    has_run = context.own is not None or context.request.previous is not None
    domains = domains_of(context.tree.domains.root, placed.grant.exclusive.mask)
    # On one cache domain there is nothing to gain; sharers hold no isolated CPU that they could leave.
    if has_run or placed.grant.isolated or domains[2] < 2:
        return None
    found = better_choice(context, ranking, placed)
    if found is None:
        return None
    after = replace(context, supply=with_moved(context, found.moved))
    room = room_of(after.supply, keep_busy=False)
    again = rank(after, fixed, room, room)
    worse = (i for i in again.best_first() if again.keys[i] < again.keys[found.best])
    order = (found.best, *worse)
    return _first_placement(context, replace(again, order=order, sorted=len(order)), (found,))


def _after_migration(context: PlacementContext, ranking: Ranking) -> Iterator[PoolChoice]:
    """Yield the pools that give the requested CPUs once shared grants have moved up, the deepest first.

    Of these the one whose CPUs are on the fewest domains, then the one with the fewest moves.
    """
    # Sharers run on no isolated CPU: their moves free none.
    if context.demand.isolation is Isolation.REQUIRE or not context.demand.whole:
        return
    # Others move for CPUs, not for whole cores that are only preferred.
    needed = context.demand.threads is Threads.ANY or context.demand.strict_threads
    cleared = ClearedPools(context) if needed else None
    least = fewest_domains_of(context, context.demand.whole)
    # Where a pool has the CPUs and does not fit, memory is what lacks.
    tried = (i for i in ranking.best_first() if not ranking.offers[i].fits or ranking.fits(i))
    by_depth = gathered((context.tree.pools[i].depth, i) for i in tried)
    for depth in sorted(by_depth, reverse=True):
        choices = [c for i in by_depth[depth] if (c := _fewest_moves(context, ranking, i))]
        if cleared and all(domains_of_choice(context, choice) > least for choice in choices):
            choices += [c for i in by_depth[depth] if (c := cleared.choice(i))]
        yield from sorted(choices, key=lambda choice: (domains_of_choice(context, choice), len(choice.moved)))


def _fewest_moves(context: PlacementContext, ranking: Ranking, i: int) -> PoolChoice | None:
    """Return what the pool gives after the fewest moves from the pools below it; None if these do not suffice."""
    sliced, pool = ranking.offers[i].sliced, context.tree.pools[i]
    # Moves from below into this pool give it neither CPU time nor spare CPUs of its own.
    enough = ranking.room.free_mcpu[i] >= 1000 * sliced + context.demand.shared_mcpu
    if not sliced or not enough or ranking.room.spare[i] < sliced:
        return None
    moved = plan_migrations(context, pool, sliced)
    if moved is None:
        return None
    after = replace(context, supply=with_moved(context, moved))
    room = room_of(after.supply, keep_busy=False)
    offer = offers_of(after, room, room)[i]
    taken = take(after, pool, offer, room.give)
    # The count may suffice, and no CPUs of the wanted kind be among them: near devices, or on whole cores.
    return None if taken is None else PoolChoice(pool, i, offer, taken, moved, (reasons.lifted(moved),))


def _placement(context: PlacementContext, ranking: Ranking, found: PoolChoice, memory: MemoryPlan) -> Placed:
    demand, taken = context.demand, found.taken
    kind, added = _kind(demand.shared_mcpu, taken), added_after(context, found.offer, taken)
    exclusive, isolated = CpuSet(taken.exclusive), CpuSet(taken.isolated)
    grant = Grant(context.request, found.pool.name, kind, exclusive, isolated, demand.shared_mcpu, added=added)
    placed = with_memory(context, grant, found.moved, memory)
    why = (*placed.reasons, *choice_reasons(context, ranking, found))
    return replace(placed, reasons=why, ranking=ranked_pools(context, ranking, found))


def _kind(shared_mcpu: int, taken: Taken) -> CpuKind:
    if not taken.exclusive and not taken.isolated:
        return CpuKind.SHARED
    if shared_mcpu:
        return CpuKind.MIXED
    return CpuKind.EXCLUSIVE if taken.exclusive else CpuKind.ISOLATED
