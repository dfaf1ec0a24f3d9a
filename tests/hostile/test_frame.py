"""The frame sees what it is there to see."""

import asyncio

from cri_proxy.testbed.wait import until
from tests.fakes.reference import reference_seconds
from tests.hostile.bounds import Bounds, Cost
from tests.hostile.node import cost_of
from tests.hostile.watched_daemon import Heart, Report


async def test_a_callback_that_blocks_the_loop_is_seen_in_cpu_time_and_by_the_clock() -> None:
    heart = Heart(asyncio.get_running_loop())
    blocked = reference_seconds() + reference_seconds()  # both in one turn of this loop

    async def seen() -> bool:
        return min(heart.turn_seconds, heart.stall_seconds) >= blocked

    await until("the heart has seen it", seen, seconds=20)


def test_a_cost_above_its_bound_is_named_with_both() -> None:
    assert Cost(turn_references=3.0).beyond(Bounds(turn_references=2.0)) == ["turn_references: 3.0, at most 2.0"]
    assert Cost(log_bytes=65_536).beyond(Bounds(log_bytes=65_536)) == []


def test_time_is_counted_in_reference_loops_and_memory_from_before_the_attack() -> None:
    before = Report(1, 9, 9, 100, 900, 0.5)
    cost = cost_of(before, Report(2, 1, 3, 800, 900, 0.25), Report(3, 9, 9, 150, 1, 0.25))
    assert (cost.turn_references, cost.stall_references, cost.peak_bytes, cost.kept_bytes) == (2, 6, 800, 50)
