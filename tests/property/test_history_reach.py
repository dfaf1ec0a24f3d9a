"""Histories that never come to an interesting place prove nothing: what they come to is counted here."""

import random
from collections import Counter

from policies.base import CpuKind
from policies.topology_aware import ReasonCode
from tests.property.life import Kind, Life, first_world
from tests.property.policy_events import Narrow, Step, Warm
from tests.property.policy_history import play

LIVES = (
    *(Life(Kind.LARGE, seed, 120) for seed in range(8)),
    *(Life(Kind.SMALL, 1000 + s, 120) for s in (*range(12), 35)),
)
TOLD = {
    ReasonCode.POOL,
    ReasonCode.RESERVED,
    ReasonCode.PRESERVED,
    ReasonCode.LEVELS_UP,
    ReasonCode.PREVIOUS_KEPT,
    ReasonCode.PREVIOUS_LOST,
    ReasonCode.ISOLATED_SHORT,
    ReasonCode.NO_WHOLE_CORES,
    ReasonCode.EMPTIED,
    ReasonCode.LIFTED,
    ReasonCode.KEPT_TOGETHER,
    ReasonCode.DISPLACED,
    ReasonCode.CPU_FULL,
    ReasonCode.OVERCOMMITTED,
    ReasonCode.STRICT_ISOLATED,
    ReasonCode.STRICT_CONFLICT,
    ReasonCode.STRICT_HINTS,
    ReasonCode.STRICT_MEMORY,
    ReasonCode.MEMORY_WIDENED,
    ReasonCode.MEMORY_OTHERS_WIDENED,
    ReasonCode.MEMORY_SHORT,
    ReasonCode.MEMORY_KINDS_ABSENT,
    ReasonCode.MEMORY_NORMAL_ADDED,
    ReasonCode.COLD_START,
    ReasonCode.NO_COLD_START,
}


def codes(step: Step) -> list[str]:
    """What the policy said at this step, the kind of the grant, and whether upkeep had something to do."""
    told = [reason.code for reason in step.placed.reasons] if step.placed else []
    told += [step.placed.grant.kind] if step.placed else []
    told += [step.refused.reason.code] if step.refused else []
    did_something = isinstance(step.event, Narrow | Warm) and step.after.held != step.before.held
    return [*told, type(step.event).__name__] if did_something else told


def test_histories_make_the_policy_say_all_it_can_say() -> None:
    seen: Counter[str] = Counter()
    for life in LIVES:
        rng = random.Random(life.seed)
        for step in play(first_world(life, rng), rng, life.steps):
            seen.update(codes(step))
    assert sorted({*TOLD, *CpuKind, "Narrow", "Warm"} - seen.keys()) == []
