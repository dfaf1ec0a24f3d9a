import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext

import pytest

from cri_proxy.http.limits import TURN_SECONDS, ConnectionLimit, FairShare
from cri_proxy.steps import Steps
from cri_proxy.tasks import Tasks


class Talks:
    """Connections that are idle or busy as a test says; ``ended`` names those that are over."""

    def __init__(self, most: int) -> None:
        self.limit = ConnectionLimit(most)
        self.ended: list[str] = []

    async def come(self, name: str, *, idle: bool = True, sends: bool = False) -> bool:
        """Whether one more was let in, and has begun to be idle, to send a body, or to be busy."""
        if not self.limit.make_room():
            return False
        begun = asyncio.Event()
        mark = self.limit.receiving() if sends else self.limit.idle() if idle else nullcontext()
        self.limit.serve(self._talk(name, begun, mark))
        await begun.wait()
        return True

    async def _talk(self, name: str, begun: asyncio.Event, mark: AbstractContextManager[object]) -> None:
        try:
            begun.set()
            with mark:
                await asyncio.Event().wait()
        finally:
            self.ended.append(name)


@asynccontextmanager
async def talking(most: int) -> AsyncIterator[Talks]:
    """Talks that are over at the end of the block."""
    talks = Talks(most)
    async with asyncio.timeout(20):
        yield talks
    await talks.limit.cancel()


async def test_who_has_been_idle_longest_gives_way() -> None:
    async with talking(most=4) as talks:
        for name in ("busy", "a", "b", "c"):
            assert await talks.come(name, idle=name != "busy")
        assert await talks.come("d")
        assert talks.ended == ["a"]


async def test_where_none_is_idle_who_has_been_sending_longest_gives_way() -> None:
    async with talking(most=4) as talks:
        assert await talks.come("busy", idle=False)
        assert await talks.come("a", sends=True)
        assert await talks.come("b")
        assert await talks.come("c", sends=True)
        assert await talks.come("d", idle=False)
        assert await talks.come("e", idle=False)
        assert talks.ended == ["b", "a"]


async def test_at_the_end_the_idle_go_and_the_others_have_their_time() -> None:
    async with talking(most=4) as talks:
        for name in ("busy", "a", "b"):
            assert await talks.come(name, idle=name != "busy")
        await talks.limit.finish(0.01)
        assert sorted(talks.ended) == ["a", "b"]


async def test_there_is_room_while_fewer_are_open() -> None:
    async with talking(most=2) as talks:
        assert [await talks.come(name) for name in "ab"] == [True, True]
        assert (talks.ended, len(talks.limit)) == ([], 2)


async def test_there_is_no_room_where_all_are_busy() -> None:
    async with talking(most=1) as talks:
        assert [await talks.come(name, idle=False) for name in "ab"] == [True, False]


async def test_however_many_come_at_once_no_more_are_open_than_may_be() -> None:
    async with talking(most=3) as talks:
        for name in "abc":
            await talks.come(name)
        assert await asyncio.gather(*(talks.come(name) for name in "defgh")) == [True] * 3 + [False] * 2
        assert (talks.ended, len(talks.limit)) == (["a", "b", "c"], 3)


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


async def answer(share: FairShare, clock: JumpingClock, seconds: float) -> float:
    """Have a turn that takes so long; when it began."""
    async with share.turn():
        began = clock.now
        clock.now += seconds
        return began


async def test_whoever_asks_next_waits_as_long_again_as_the_answer_took() -> None:
    clock = JumpingClock()
    share = FairShare(clock)
    assert await asyncio.gather(*(answer(share, clock, seconds) for seconds in (1, 3, 1))) == [0, 2, 8]


async def test_who_asks_later_does_not_wait() -> None:
    clock = JumpingClock()
    share = FairShare(clock)
    await answer(share, clock, 1)
    clock.now = 5
    assert await answer(share, clock, 1) == 5


async def test_others_run_before_every_answer() -> None:
    seen: list[str] = []
    share = FairShare(JumpingClock())
    for number in range(2):
        asyncio.get_running_loop().call_soon(seen.append, "other")
        async with share.turn():
            seen.append(f"answer {number}")
    assert seen == ["other", "answer 0", "other", "answer 1"]


async def test_an_answer_that_fails_gives_the_turn_on() -> None:
    share = FairShare(JumpingClock())
    with pytest.raises(ValueError, match="fault"):
        async with share.turn():
            raise ValueError("fault")
    async with asyncio.timeout(20), share.turn():
        pass


def noting(clock: JumpingClock, seen: list[str], name: str, slices: int, seconds: float = TURN_SECONDS) -> Steps[str]:
    """Work that notes every slice, each of so many seconds, and its end."""
    try:
        for _ in range(slices):
            seen.append(name)
            clock.now += seconds
            yield
        return f"{name} done"
    finally:
        seen.append(f"end of {name}")


async def test_every_slice_of_a_long_answer_is_a_turn_and_others_run_before_each() -> None:
    clock, began = JumpingClock(), []
    share = FairShare(clock)

    def slices() -> Steps[str]:
        for _ in range(3):
            began.append(clock.now)
            clock.now += 1
            yield
        return "done"

    assert (await share.run(slices()), began) == ("done", [0, 2, 4])


async def test_a_short_answer_does_not_wait_for_the_end_of_a_long_one() -> None:
    seen: list[str] = []
    clock = JumpingClock()
    share = FairShare(clock)

    async def short() -> None:
        async with share.turn():
            seen.append("short")

    await asyncio.gather(share.run(noting(clock, seen, "long", 5)), short())
    assert seen == ["long", "short", *["long"] * 4, "end of long"]


async def test_a_turn_takes_as_many_short_slices_as_fit() -> None:
    clock, seen = JumpingClock(), list[str]()
    share = FairShare(clock)

    async def short() -> None:
        async with share.turn():
            seen.append("short")

    await asyncio.gather(share.run(noting(clock, seen, "long", 5, TURN_SECONDS / 2)), short())
    assert seen == ["long", "long", "short", *["long"] * 3, "end of long"]


async def test_of_long_answers_one_is_begun_when_the_one_before_is_done() -> None:
    seen: list[str] = []
    clock = JumpingClock()
    share = FairShare(clock)
    assert await asyncio.gather(*(share.run(noting(clock, seen, name, 2)) for name in "ab")) == ["a done", "b done"]
    assert seen == ["a", "a", "end of a", "b", "b", "end of b"]


async def test_a_long_answer_that_nobody_wants_any_more_is_ended_and_gives_the_turn_on() -> None:
    seen: list[str] = []
    clock, asking = JumpingClock(), Tasks()
    share = FairShare(clock)

    async def ask() -> None:
        await share.run(noting(clock, seen, "long", 1_000_000))

    asking.start(ask())
    await asyncio.sleep(0)  # it stands in line now
    async with asyncio.timeout(20), share.turn():
        assert seen == ["long"]
    await asking.cancel()
    assert await share.run(noting(clock, seen, "next", 1)) == "next done"
    assert [name for name, _ in itertools.groupby(seen)] == ["long", "end of long", "next", "end of next"]
