"""Histories that never come to an interesting place prove nothing: what they come to is counted here."""

import random
from collections import Counter

from policies.base import CpuKind
from policies.topology_aware import reasons
from policies.topology_aware.memory import reasons as memory_reasons
from tests.property.life import Kind, Life, first_world
from tests.property.policy_events import Narrow, Step, Warm
from tests.property.policy_history import play

LIVES = (*(Life(Kind.LARGE, seed, 120) for seed in range(8)), *(Life(Kind.SMALL, 1000 + s, 120) for s in range(12)))
TOLD = {
    reasons.POOL,
    reasons.RESERVED,
    reasons.PRESERVED,
    reasons.LEVELS_UP,
    reasons.PREVIOUS_KEPT,
    reasons.PREVIOUS_LOST,
    reasons.ISOLATED_SHORT,
    reasons.NO_WHOLE_CORES,
    reasons.EMPTIED,
    reasons.LIFTED,
    reasons.DISPLACED,
    reasons.CPU_FULL,
    reasons.STRICT_ISOLATED,
    reasons.STRICT_CONFLICT,
    reasons.STRICT_HINTS,
    memory_reasons.STRICT_MEMORY,
    memory_reasons.WIDENED,
    memory_reasons.OTHERS_WIDENED,
    memory_reasons.SHORT,
    memory_reasons.KINDS_ABSENT,
    memory_reasons.NORMAL_ADDED,
    memory_reasons.COLD_START,
    memory_reasons.NO_COLD_START,
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
