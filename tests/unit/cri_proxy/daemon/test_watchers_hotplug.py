import asyncio
from collections.abc import Callable, Sequence

from cri_proxy.daemon.watchers import POLL_SECONDS, SETTLE_SECONDS, HotplugWatcher
from cri_proxy.node.decision_log.journal import Journal
from tests.fakes.clock import ManualClock
from tests.fakes.site import InstantClock, Silent
from tests.unit.cri_proxy.node.stage import background


class Scene:
    """A machine that shows these faces one after the other, then the last for ever; problems of taking it over."""

    def __init__(self, faces: Sequence[str], problems: Sequence[str] = ()) -> None:
        self.faces = list(faces)
        self.problems = list(problems)
        self.taken: list[str] = []
        self.log = Silent()
        self.clock = InstantClock()
        journal = Journal(self.log, self.clock)
        self.hotplug = HotplugWatcher(self.look, self.take, clock=self.clock, journal=journal, in_force=("0-7",))

    def look(self) -> tuple[str, ...]:
        return (self.faces.pop(0) if len(self.faces) > 1 else self.faces[0],)

    async def take(self) -> str:
        problem = self.problems.pop(0) if self.problems else ""
        if not problem:
            self.taken.append(self.faces[0])
        return problem

    async def check(self, times: int = 1) -> None:
        for _ in range(times):
            await self.hotplug.check()


async def test_a_machine_that_stays_is_left_alone() -> None:
    scene = Scene(["0-7"])
    await scene.check()
    assert scene.taken == []


async def test_a_change_is_taken_over_once() -> None:
    scene = Scene(["0-3"])
    await scene.check(3)
    assert scene.taken == ["0-3"]


async def test_it_waits_until_the_machine_stands_still() -> None:
    """CPUs are taken offline one by one."""
    scene = Scene(["0-6", "0-5", "0-4", "0-4"])
    await scene.check()
    assert scene.taken == ["0-4"]


async def test_a_machine_that_never_stands_still_is_taken_over_all_the_same() -> None:
    scene = Scene([str(n) for n in range(100)])
    before = scene.clock.now_seconds()
    await scene.check()
    assert len(scene.taken) == 1
    assert scene.clock.now_seconds() - before <= 20 * SETTLE_SECONDS


async def test_what_cannot_be_taken_over_is_told_once_and_tried_again() -> None:
    scene = Scene(["0-3"], ["cannot read", "cannot read"])
    await scene.check(2)
    assert (scene.taken, scene.log.warnings) == ([], ["machine_unreadable"])
    (warning,) = scene.hotplug.warnings()
    assert "the old one stays in force: cannot read" in warning
    await scene.check()
    assert (scene.taken, scene.hotplug.warnings()) == (["0-3"], ())


async def test_a_machine_that_is_as_it_was_again_needs_no_warning() -> None:
    scene = Scene(["0-3", "0-3", "0-7"], ["cannot read"])
    await scene.check(2)
    assert scene.hotplug.warnings() == ()


async def test_it_is_looked_at_again_and_again() -> None:
    clock, looks = ManualClock(), list[int]()

    def look() -> tuple[str, ...]:
        looks.append(1)
        return ("0-7",)

    async def never() -> str:
        raise AssertionError("nothing has changed")

    hotplug = HotplugWatcher(look, never, clock=clock, journal=Journal(Silent(), clock), in_force=("0-7",))
    watch = background(hotplug.watch())
    await _ticks(clock, lambda: len(looks) >= 3)
    watch.cancel()
    await asyncio.gather(watch, return_exceptions=True)


async def _ticks(clock: ManualClock, enough: Callable[[], bool]) -> None:
    """Let polls come due until this holds; the looks are taken on a thread."""
    async with asyncio.timeout(20):
        while not enough():
            if clock.waiting:
                await clock.advance(POLL_SECONDS)
            await asyncio.sleep(0.001)
