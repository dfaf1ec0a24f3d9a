"""On a loop whose time passes at once: an hour of an open page takes no second."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

import pytest

from cri_proxy.http.status_stream import ALIVE_SECONDS, LOOK_SECONDS, POLL_SECONDS, SHARE, Budget, StatusFeed
from cri_proxy.node.status.model import StatusView
from cri_proxy.steps import Steps, at_once
from tests.fakes.clock import LoopClock
from tests.fakes.lone_loop import LoneLoop
from tests.fakes.views import FixedDaemon, status_view


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": LoneLoop}


class ChangingDaemon(FixedDaemon):
    """Counts how often it is looked at; each look takes ``look_seconds``."""

    def __init__(self, look_seconds: float = 0.0) -> None:
        super().__init__()
        self.view = status_view()
        self.moment = self.looks = 0
        self.cpu_seconds, self._look_seconds = 0.0, look_seconds

    def mark(self) -> object:
        return self.moment

    def status_steps(self) -> Steps[StatusView]:
        yield
        self.cpu_seconds += self._look_seconds
        self.looks += 1
        return self.view

    def warn(self, text: str, *, is_marked: bool = True) -> None:
        self.view = replace(self.view, warnings=(text,))
        self.moment += is_marked


@dataclass
class Scene:
    daemon: ChangingDaemon
    feed: StatusFeed
    errors: list[BaseException]
    wholes: int = 0

    async def run(self, work: Steps[bytes]) -> bytes:
        self.wholes += 1
        return at_once(work)

    def open(self) -> AsyncGenerator[bytes, None]:
        return self.feed.events(self.run)


def scene(look_seconds: float = 0.0) -> Scene:
    daemon = ChangingDaemon(look_seconds)
    errors: list[BaseException] = []
    return Scene(daemon, StatusFeed(daemon, LoopClock(), errors.append, lambda: daemon.cpu_seconds), errors)


async def event(page: AsyncGenerator[bytes, None]) -> tuple[str, dict[str, object]]:
    """The next event: its name and data."""
    async for part in page:
        if part and not part.startswith(b":"):
            name, data = part.decode().removesuffix("\n\n").split("\n")
            return name.removeprefix("event: "), json.loads(data.removeprefix("data: "))
    raise AssertionError("the stream has ended")


async def test_a_page_gets_the_whole_and_then_what_changes() -> None:
    the = scene()
    async with aclosing(the.open()) as page:
        name, whole = await event(page)
        assert (name, whole["node"]) == ("status", "worker-1")
        the.daemon.warn("hot")
        assert await event(page) == ("change", {"warnings": ["hot"]})


async def test_a_page_that_is_opened_gets_the_first_status_as_soon_as_it_is_made() -> None:
    the = scene()
    begun = asyncio.get_running_loop().time()
    async with aclosing(the.open()) as page:
        await event(page)
        assert asyncio.get_running_loop().time() - begun < POLL_SECONDS / 2


async def test_a_change_is_made_once_for_all_pages() -> None:
    the = scene()
    async with aclosing(the.open()) as one, aclosing(the.open()) as other:
        for page in (one, other):
            await event(page)
        looks = the.daemon.looks
        the.daemon.warn("hot")
        assert await event(one) == await event(other)
        assert (the.daemon.looks - looks, the.wholes) == (1, 2)


async def test_a_page_that_missed_a_change_gets_the_whole_again() -> None:
    the = scene()
    async with aclosing(the.open()) as quick, aclosing(the.open()) as slow:
        for page in (quick, slow):
            await event(page)
        for text in ("hot", "hotter"):
            the.daemon.warn(text)
            await event(quick)
        name, whole = await event(slow)
        assert (name, whole["warnings"]) == ("status", ["hotter"])


async def test_other_pools_are_told_whole() -> None:
    the = scene()
    async with aclosing(the.open()) as page:
        await event(page)
        the.daemon.view = replace(the.daemon.view, pools=the.daemon.view.pools[:1])
        the.daemon.moment += 1
        assert (await event(page))[0] == "status"


async def test_a_change_that_no_mark_shows_is_found_later() -> None:
    the = scene()
    async with aclosing(the.open()) as page:
        await event(page)
        begun = asyncio.get_running_loop().time()
        the.daemon.warn("hot", is_marked=False)
        assert await event(page) == ("change", {"warnings": ["hot"]})
        assert asyncio.get_running_loop().time() - begun <= LOOK_SECONDS + 2


async def test_without_a_page_nothing_is_looked_at() -> None:
    the = scene()
    async with aclosing(the.open()) as page:
        await event(page)
    looks = the.daemon.looks
    the.daemon.warn("hot")
    await asyncio.sleep(100 * LOOK_SECONDS)
    assert looks == the.daemon.looks == 1
    async with aclosing(the.open()) as page:  # and a later one sees it
        assert (await event(page))[1]["warnings"] == ["hot"]


async def test_a_silent_stream_shows_that_it_is_alive() -> None:
    the = scene()
    async with aclosing(the.open()) as page:
        await event(page)
        begun = asyncio.get_running_loop().time()
        async for part in page:
            if part:
                assert part == b":\n\n"
                break
        assert asyncio.get_running_loop().time() - begun == pytest.approx(ALIVE_SECONDS, abs=1)


async def test_the_stream_ends_where_the_status_cannot_be_made() -> None:
    the = scene()
    async with aclosing(the.open()) as page:
        await event(page)
        the.daemon.status_steps = None  # type: ignore[assignment,method-assign]  # a fault of ours
        the.daemon.moment += 1
        with pytest.raises(AssertionError, match="the stream has ended"):
            await event(page)
    assert [type(error) for error in the.errors] == [TypeError]


async def test_looks_take_their_share_of_the_time_however_much_changes() -> None:
    the = scene(look_seconds=0.05)
    async with aclosing(the.open()) as page:
        await event(page)
        begun, looks = asyncio.get_running_loop().time(), the.daemon.looks
        while asyncio.get_running_loop().time() - begun < 3600:
            the.daemon.moment += 1
            await anext(page)
    worked = 0.05 * (the.daemon.looks - looks)
    assert 0.9 * SHARE * 3600 < worked < 1.1 * SHARE * 3600


def test_what_was_not_spent_for_a_while_may_be_spent_at_once() -> None:
    budget = Budget()
    budget.spend(SHARE, 1000.0)
    assert budget.allows(1000.0)
    budget.spend(1.0, 1000.0)
    assert [budget.allows(1000.0 + seconds) for seconds in (0.0, 100.0, 190.0)] == [False, False, True]
