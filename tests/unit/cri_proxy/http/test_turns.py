"""Turns on the event loop."""

import asyncio
import itertools

import pytest

from cri_proxy.http.turns import Turns
from cri_proxy.slices import Slices
from cri_proxy.tasks import Tasks


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


def noting(seen: list[str], name: str, slices: int) -> Slices[str]:
    """Work that notes every slice, the last one too, and its end."""
    try:
        for _ in range(slices):
            seen.append(name)
            yield
        return f"{name} done"
    finally:
        seen.append(f"end of {name}")


def test_every_slice_of_a_long_answer_is_a_turn_and_others_run_before_each() -> None:
    async def work() -> tuple[str, list[float]]:
        clock, began = JumpingClock(), []
        turns = Turns(clock)

        def slices() -> Slices[str]:
            for _ in range(3):
                began.append(clock.now)
                clock.now += 1
                yield
            return "done"

        return await turns.take(slices()), began

    assert asyncio.run(work()) == ("done", [0, 2, 4])


def test_a_short_answer_does_not_wait_for_the_end_of_a_long_one() -> None:
    async def work() -> list[str]:
        seen: list[str] = []
        turns = Turns(JumpingClock())

        async def short() -> None:
            async with turns.turn():
                seen.append("short")

        await asyncio.gather(turns.take(noting(seen, "long", 5)), short())
        return seen

    assert asyncio.run(work()) == ["long", "short", *["long"] * 4, "end of long"]


def test_of_long_answers_one_is_begun_when_the_one_before_is_done() -> None:
    async def work() -> list[str]:
        seen: list[str] = []
        turns = Turns(JumpingClock())
        assert await asyncio.gather(*(turns.take(noting(seen, name, 2)) for name in "ab")) == ["a done", "b done"]
        return seen

    assert asyncio.run(work()) == ["a", "a", "end of a", "b", "b", "end of b"]


def test_a_long_answer_that_nobody_wants_any_more_is_ended_and_gives_the_turn_on() -> None:
    async def work() -> list[str]:
        seen: list[str] = []
        turns, asking = Turns(JumpingClock()), Tasks()

        async def ask() -> None:
            await turns.take(noting(seen, "long", 1_000_000))

        asking.start(ask())
        await asyncio.sleep(0)  # it stands in line now
        async with asyncio.timeout(20), turns.turn():
            assert seen == ["long"]
        await asking.cancel()
        assert await turns.take(noting(seen, "next", 1)) == "next done"
        return [name for name, _ in itertools.groupby(seen)]

    assert asyncio.run(work()) == ["long", "end of long", "next", "end of next"]
