"""Turns on the event loop."""

import asyncio

import pytest

from cri_proxy.http.turns import Turns


class JumpingClock:
    """A clock on which waiting is over at once, and work takes as long as a test says."""

    def __init__(self) -> None:
        self.now = 0.0

    def now_seconds(self) -> float:
        return self.now

    def monotonic_seconds(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(0)
        self.now += max(0.0, seconds)


async def answer(turns: Turns, clock: JumpingClock, seconds: float) -> float:
    """Have a turn that takes so long; when it began."""
    async with turns.turn():
        began = clock.now
        clock.now += seconds
        return began


def test_whoever_asks_next_waits_as_long_again_as_the_answer_took() -> None:
    async def work() -> list[float]:
        clock = JumpingClock()
        turns = Turns(clock)
        return await asyncio.gather(*(answer(turns, clock, seconds) for seconds in (1, 3, 1)))

    assert asyncio.run(work()) == [0, 2, 8]


def test_who_asks_later_does_not_wait() -> None:
    async def work() -> float:
        clock = JumpingClock()
        turns = Turns(clock)
        await answer(turns, clock, 1)
        clock.now = 5
        return await answer(turns, clock, 1)

    assert asyncio.run(work()) == 5


def test_others_run_before_every_answer() -> None:
    async def work() -> list[str]:
        seen: list[str] = []
        turns = Turns(JumpingClock())
        for number in range(2):
            asyncio.get_running_loop().call_soon(seen.append, "other")
            async with turns.turn():
                seen.append(f"answer {number}")
        return seen

    assert asyncio.run(work()) == ["other", "answer 0", "other", "answer 1"]


def test_an_answer_that_fails_gives_the_turn_on() -> None:
    async def work() -> None:
        turns = Turns(JumpingClock())
        with pytest.raises(ValueError, match="fault"):
            async with turns.turn():
                raise ValueError("fault")
        async with asyncio.timeout(20), turns.turn():
            pass

    asyncio.run(work())
