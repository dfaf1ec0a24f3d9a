"""Where the policy and the model must say the same (``check``): which pools are possible, and who is refused."""

from dataclasses import replace

from policies.base import CpuKind, Grant, Placed, Ranked, Request
from policies.topology_aware import ReasonCode
from tests.property.invariants import scene_of
from tests.property.model import Scene
from tests.property.policy_events import Step, World


def check(step: Step) -> None:
    """Hold one decision against the model. Raises AssertionError."""
    if step.subject is None or step.decision is None:
        return
    scene = scene_of(without(step.before, step.subject))
    need = scene.model.need(step.subject)
    if need.hides and need.strict_cores and step.subject.previous is not None:
        return  # it may stay where others have since left it fewer cores
    if step.refused is not None:
        refused = step.refused.reason
        lifts = not (need.strict_cores and need.whole_cores)  # room is made for CPUs and not for whole cores
        own = step.before.held.get(step.subject.container)
        must = scene.must_be_refused(step.subject, lifts=lifts, runs=own is not None and bool(own.exclusive))
        assert must, f"refused though possible: {refused.code}: {refused.text}"
        if step.before.admits and refused.code == ReasonCode.CPU_FULL:
            assert scene.model.need(step.subject).own, "refused though it only shares"
    elif step.placed is not None and step.placed.grant.is_overcommitted:
        assert scene.must_be_refused(step.subject), "let in without a booking though there is room"
    elif step.placed is not None:
        if not keeps_isolated(step.placed.grant):
            assert not scene.must_be_refused(step.subject), "placed though impossible"
        if need.kind is CpuKind.RESERVED and scene.kinds.reserved:
            check_overflow(scene, step.subject, step.placed.grant)
        if step.subject.previous is None and scene.model.need(step.subject).kind is CpuKind.SHARED:
            check_pools(scene, step.subject, step.placed)


def without(world: World, request: Request) -> World:
    return World(world.policy, world.options, world.held.without(request.container), world.whole)


def keeps_isolated(grant: Grant) -> bool:
    """Whether it keeps isolated CPUs that the model would not give now, or not beside ordinary ones."""
    return grant.request.previous is not None and bool(grant.isolated)


def check_overflow(scene: Scene, request: Request, grant: Grant) -> None:
    """No more is asked of the reserved CPUs than they have while others are free; and no less."""
    need = scene.model.need(request)
    if need.reserved_mcpu <= max(0, scene.reserved_room_mcpu()):
        assert grant.kind is CpuKind.RESERVED, f"{grant.container} overflows though there is room"
    elif grant.kind is CpuKind.RESERVED:
        shared = replace(request.preferences, prefer_reserved=False, prefer_shared=True, require_isolated=False)
        assert scene.has_no_room(replace(request, preferences=shared)), f"{grant.container} does not overflow"


def check_pools(scene: Scene, request: Request, placed: Placed) -> None:
    told = {reason.code for reason in placed.reasons}
    if ReasonCode.RESERVED_RETURNED in told:
        assert not scene.possible_pools(request), "reserved containers move though there is room"
        return
    if {ReasonCode.KEPT_TOGETHER, ReasonCode.NO_WHOLE_CORES} <= told:
        return  # the pools that have whole cores say nothing where these were done without
    if ReasonCode.KEPT_TOGETHER in told:
        need = scene.model.need(request)
        assert scene.possible_pools(request), "others make room to keep CPUs together, not to place a container"
        assert scene.lifted().is_possible(placed.grant.pool, need, keep_busy=False)
        return
    possible = scene.possible_pools(request)
    # Pools that no table shows have no key.
    fitting = [r.pool for r in placed.ranking if dict(r.key).get("fits", r.outcome == "not tried")]
    need = scene.model.need(request)
    has_all_cores = len(placed.grant.owned) == need.own or not need.whole_cores
    if possible and has_all_cores and not placed.moved:
        if not need.is_packed:
            return  # ``fits`` promises less
        if not need.near:  # where CPUs near several devices are wanted, so it does
            assert sorted(fitting) == sorted(possible)
        best = next(pool for pool in fitting if pool in possible)
        assert best == chosen(placed.ranking), f"{best} is possible and ranks first"


def chosen(ranking: tuple[Ranked, ...]) -> str:
    """The pool that was found best: the container's own, or the one that it was displaced upward from."""
    outcomes = {ranked.pool: ranked.outcome for ranked in ranking}
    best = [pool for pool, outcome in outcomes.items() if outcome.startswith("best; ")]
    return (best or [pool for pool, outcome in outcomes.items() if outcome == "chosen"])[0]
