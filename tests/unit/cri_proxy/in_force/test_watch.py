"""When a configuration is looked at, and when it is handed over. Time is virtual, and threads take none."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cri_proxy.config.files.location import Source
from cri_proxy.in_force.symlinks import Lookups
from cri_proxy.in_force.watch import DEBOUNCE_ROUNDS, DEBOUNCE_SECONDS, POLL_SECONDS, OnThreads, Watch
from tests.fakes.clock import ManualClock
from tests.fakes.threads import AtOnce
from tests.fakes.waiting import holds
from tests.testbed.wait import until


class Scene:
    """A place that holds what the test says, and the list of what was taken over."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.text = "old"
        self.looks = 0
        self.taken: list[tuple[str, bool]] = []
        self.limit = ""
        self.ways: list[str] = []
        self.followed: list[Lookups] = []
        self.is_closed = False
        self.gate: asyncio.Event | None = None
        self.watch = Watch(OnThreads(self), Source(Path("c"), "old"), self.take, clock=self.clock)

    def read(self) -> Source:
        self.looks += 1
        return Source(Path("c"), self.text)

    def lookups(self) -> Lookups:
        return {Path(self.ways.pop(0)): frozenset({"c"})} if self.ways else {}

    def follow(self, lookups: Lookups) -> str:
        self.followed.append(lookups)
        return self.limit

    def close(self) -> None:
        self.is_closed = True

    async def take(self, source: Source, is_asked: bool) -> None:
        self.taken.append((source.text, is_asked))
        if self.gate is not None:
            await self.gate.wait()

    async def saw(self, looks: int) -> None:
        await holds(f"{looks} looks", lambda: self.looks >= looks)
        for _ in range(20):
            await asyncio.sleep(0)

    async def hears(self, text: str | None = None) -> None:
        self.text = text or self.text
        self.watch.notice()
        for _ in range(5):
            await asyncio.sleep(0)


@asynccontextmanager
async def watched() -> AsyncIterator[Scene]:
    asyncio.get_running_loop().set_default_executor(AtOnce())
    scene = Scene()
    watching = asyncio.get_running_loop().create_task(scene.watch.watch(scene))
    await scene.saw(1)
    yield scene
    watching.cancel()
    await asyncio.wait([watching])


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with watched() as scene:
        yield scene


async def test_what_changed_between_the_start_and_the_first_look_is_taken() -> None:
    scene = Scene()
    scene.text = "new"
    await scene.watch.check()
    await scene.watch.check()
    assert scene.taken == [("new", False)]


async def test_a_change_is_taken_once_it_is_quiet(scene: Scene) -> None:
    await scene.hears("half")
    await scene.clock.advance(DEBOUNCE_SECONDS / 2)
    await scene.hears("new")
    await scene.clock.advance(DEBOUNCE_SECONDS)
    assert scene.looks == 1
    await scene.clock.advance(DEBOUNCE_SECONDS)
    await scene.saw(2)
    assert scene.taken == [("new", False)]


async def test_who_writes_all_the_time_is_looked_at_all_the_same(scene: Scene) -> None:
    await scene.hears("0")
    for i in range(1, DEBOUNCE_ROUNDS + 1):
        assert scene.taken == []
        await scene.clock.advance(DEBOUNCE_SECONDS / 2)
        await scene.hears(f"{i}")
        await scene.clock.advance(DEBOUNCE_SECONDS / 2)
    await scene.saw(2)
    assert scene.taken == [(f"{DEBOUNCE_ROUNDS}", False)]


async def test_the_same_content_is_never_taken_again(scene: Scene) -> None:
    for _ in range(3):
        await scene.hears()
        await scene.clock.advance(DEBOUNCE_SECONDS)
    await scene.saw(2)
    assert scene.taken == []


async def test_who_asks_gets_it_at_once_and_of_the_same_content_too(scene: Scene) -> None:
    scene.watch.ask()
    await scene.saw(2)
    assert scene.taken == [("old", True)]


async def test_wishes_while_one_is_carried_out_are_one(scene: Scene) -> None:
    scene.gate = asyncio.Event()
    scene.watch.ask()
    await scene.saw(2)
    for _ in range(3):
        scene.watch.ask()
    scene.gate.set()
    await scene.saw(3)
    assert scene.taken == [("old", True), ("old", True)]


async def test_a_slow_look_finds_what_nobody_tells(scene: Scene) -> None:
    poll = asyncio.get_running_loop().create_task(scene.watch.poll())
    await asyncio.sleep(0)
    scene.text = "new"
    await scene.clock.advance(POLL_SECONDS)
    await scene.clock.advance(DEBOUNCE_SECONDS)
    await scene.saw(2)
    poll.cancel()
    assert scene.taken == [("new", False)]


async def test_that_the_kernel_does_not_tell_is_known_until_it_does(scene: Scene) -> None:
    for limit in ("inotify: no space left", ""):
        scene.limit = limit
        scene.watch.ask()

        async def is_known(wanted: str = limit) -> bool:
            return scene.watch.problem == wanted

        await until("it is known", is_known, seconds=20)


async def test_a_way_that_changes_while_it_is_being_followed_is_followed_as_it_is_then(scene: Scene) -> None:
    scene.followed.clear()
    scene.ways = ["/old", "/new", "/new"]
    scene.watch.ask()
    await scene.saw(2)
    assert scene.followed == [{Path("/old"): frozenset({"c"})}, {Path("/new"): frozenset({"c"})}]


async def test_a_way_that_always_changes_is_left_to_the_slow_look(scene: Scene) -> None:
    scene.followed.clear()
    scene.ways = [f"/{number}" for number in range(1000)]
    scene.watch.ask()
    await scene.saw(2)
    assert len(scene.followed) < 10


async def test_at_the_end_the_notices_are_closed() -> None:
    async with watched() as scene:
        assert not scene.is_closed
    assert scene.is_closed
