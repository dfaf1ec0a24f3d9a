"""The frame sees what it is there to see."""

import asyncio
import time

from tests.fakes.reference import reference_seconds
from tests.hostile.bounds import Bounds, Cost
from tests.hostile.node import cost_of
from tests.hostile.watched_daemon import BEAT_SECONDS, Heart, Pulse, Report
from tests.testbed.wait import until


async def test_a_callback_that_blocks_the_loop_is_seen_in_cpu_time_and_by_the_clock() -> None:
    """At the latest when nothing else keeps the pulse from beating meanwhile."""
    pulse = Pulse()
    heart = Heart(asyncio.get_running_loop(), pulse.lost_seconds)

    async def seen() -> bool:
        blocked = reference_seconds() + reference_seconds()  # both in one turn of this loop
        await asyncio.sleep(2 * BEAT_SECONDS)
        return min(heart.turn_seconds, heart.stall_seconds) >= blocked

    await until("the heart has seen it", seen, seconds=30)
    pulse.stop()


async def test_a_process_that_stands_still_as_a_whole_has_not_stalled() -> None:
    heart = Heart(asyncio.get_running_loop(), lambda now: now)
    spent = reference_seconds()
    heart.look()
    assert heart.turn_seconds >= spent
    assert heart.stall_seconds == 0


def test_a_pulse_that_has_not_beaten_for_long_tells_how_long() -> None:
    pulse = Pulse()
    now = time.monotonic()
    assert 4 < pulse.lost_seconds(now + 5) - pulse.lost_seconds(now) <= 5
    pulse.stop()


def test_a_cost_above_its_bound_is_named_with_both() -> None:
    assert Cost(turn_references=3.0).beyond(Bounds(turn_references=2.0)) == ["turn_references: 3.0, at most 2.0"]
    assert Cost(log_bytes=65_536).beyond(Bounds(log_bytes=65_536)) == []


def test_time_is_counted_in_reference_loops_and_memory_from_before_the_attack() -> None:
    before = Report(1, 9, 9, 100, 900, 0.5)
    cost = cost_of(before, Report(2, 1, 3, 800, 900, 0.25), Report(3, 9, 9, 150, 1, 0.25))
    assert (cost.turn_references, cost.stall_references, cost.peak_bytes, cost.kept_bytes) == (2, 6, 800, 50)
