"""The health that is known: what was reported last stays where there is no answer, with the reason."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest

from cri_proxy import events
from cri_proxy.file_workers import PLAIN_THREADS, FilesFailed
from cri_proxy.inventory.health_source import HealthSource
from cri_proxy.inventory.health_watch import HEALTH_SECONDS, HealthWatch
from cri_proxy.tasks import Tasks
from policies.devices import DeviceInventory, InventoryDevice, PciePath
from tests.fakes.clock import ManualClock
from tests.fakes.reloads import Heard
from tests.fakes.waiting import holds

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
GPUS = DeviceInventory(
    tuple(InventoryDevice("gpu", minor, path=PciePath(bus=f"0000:{17 + minor}:00.0")) for minor in range(2))
)


class Scene:
    """A report in a file, which is asked for."""

    def __init__(self, tmp_path: Path) -> None:
        self.path, self.heard = tmp_path / "health", Heard()
        self.source, self.hangs = HealthSource(str(self.path)), False
        self.answers, self.asked = asyncio.Event(), 0
        self.answers.set()
        self.watch = HealthWatch(lambda: self.source, self, self.heard.noted)

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        if self.hangs:
            raise FilesFailed(subject, "no answer within 12 s")
        self.asked += 1
        await self.answers.wait()
        return await PLAIN_THREADS.run(subject, function, *args, within_seconds=within_seconds)

    async def says(self, text: str) -> None:
        self.path.write_text(text)
        await self.watch.ask()

    def sick(self) -> list[int]:
        found = self.watch.applied(GPUS)
        self.watch.tell(found)
        return [device.minor for device in found.devices if not device.is_healthy]


async def test_what_is_reported_counts_and_a_change_is_told_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    for text in ("gpu 1 ok", "gpu 1 unhealthy fan", "gpu 1 unhealthy fan"):
        await scene.says(text)
    assert scene.sick() == scene.sick() == [1]
    assert scene.heard.all(events.DEVICE_UNHEALTHY) == [{"device": "gpu 1", "reason": "fan"}]
    await scene.says("gpu 1 ok")
    assert (scene.sick(), scene.heard.all(events.DEVICE_HEALTHY)) == ([], [{"device": "gpu 1"}])


async def test_what_was_known_last_stays_where_there_is_no_answer(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.says("gpu 0 unhealthy")
    for breaks in ("gpu 0 perhaps", ""):
        await scene.says(breaks)
        assert (scene.sick(), bool(scene.watch.problem)) == ([0], True)
    scene.hangs = True
    await scene.watch.ask()
    assert scene.sick() == [0]
    (warning,) = scene.watch.warnings()
    assert warning.startswith(
        f"the health of devices cannot be read, what was known last stays: {scene.path}: no answer"
    )
    assert len(scene.heard.all(events.HEALTH_UNKNOWN)) == 3
    scene.hangs = False
    await scene.says("gpu 0 ok")
    assert (scene.sick(), scene.watch.problem, list(scene.watch.warnings())) == ([], "", [])


@pytest.mark.parametrize("rest", ["", "\n<nvidia_smi_log>", "\nuuid\nGPU-5a"], ids=["alone", "xml", "csv"])
async def test_what_was_known_of_other_gpus_stays_where_a_lost_one_is_all_that_is_told(
    tmp_path: Path, rest: str
) -> None:
    """nvidia-smi fails as a whole where one GPU is lost, and its timer writes these words into the file."""
    scene = Scene(tmp_path)
    lost = f"Unable to determine the device handle for GPU0000:17:00.0: GPU is lost.{rest}"
    await scene.says("gpu 1 unhealthy 3 uncorrected memory errors")
    await scene.says(lost)
    assert (scene.sick(), scene.watch.problem) == ([0, 1], "")
    await scene.says(lost)
    await scene.says("gpu 0 ok\ngpu 1 ok")
    assert scene.sick() == []


async def test_another_source_begins_with_nothing_known(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.says("gpu 0 unhealthy")
    scene.source = HealthSource()
    await scene.watch.ask()
    assert scene.sick() == []


async def test_a_device_that_the_inventory_lacks_is_warned_of(tmp_path: Path) -> None:
    scene = Scene(tmp_path)
    await scene.says("gpu 5 ok")
    scene.sick()
    assert list(scene.watch.warnings()) == [
        f"the health of devices: {scene.path} names gpu 5, which the inventory does not have"
    ]


async def test_what_could_not_be_taken_is_taken_once_more(tmp_path: Path) -> None:
    """The daemon does again what has failed; by then the answer is known already."""
    scene, taken, fails = Scene(tmp_path), list[list[int]](), [True, False]

    async def take() -> None:
        if fails.pop(0):
            raise OSError("no space")
        taken.append(scene.sick())

    scene.path.write_text("gpu 1 unhealthy")
    with pytest.raises(OSError, match="no space"):
        await scene.watch.keep(take)
    tasks = Tasks()
    tasks.start(scene.watch.keep(take), name="health")
    await holds("it was taken", lambda: taken == [[1]])
    scene.path.write_text("gpu 1 perhaps")
    scene.watch.ask_now()
    await holds("it was asked again", lambda: bool(scene.watch.problem))
    await tasks.cancel()
    assert taken == [[1]]


async def test_an_answer_that_comes_late_at_the_start_is_taken_and_nobody_asked_twice(tmp_path: Path) -> None:
    scene, taken = Scene(tmp_path), list[list[int]]()

    async def take() -> None:
        taken.append(scene.sick())

    scene.path.write_text("gpu 1 unhealthy")
    scene.answers.clear()
    await scene.watch.begin(0.01)
    assert scene.sick() == []
    tasks = Tasks()
    tasks.start(scene.watch.keep(take), name="health")
    scene.answers.set()
    await holds("it was taken", lambda: taken == [[1]])
    await tasks.cancel()
    assert scene.asked == 1


async def test_it_is_asked_again_and_again(tmp_path: Path) -> None:
    scene, clock, taken = Scene(tmp_path), ManualClock(), []

    async def take() -> None:
        taken.append(scene.sick())

    scene.path.write_text("gpu 0 unhealthy")
    tasks = Tasks()
    tasks.start(scene.watch.keep(take), name="health")
    tasks.start(scene.watch.poll(clock), name="poll")
    await holds("it waits", lambda: clock.waiting == 1)
    scene.path.write_text("gpu 1 unhealthy")
    await clock.advance(HEALTH_SECONDS)
    await holds("it was asked again", lambda: len(taken) == 2)
    scene.path.write_text("gpu 0 unhealthy")
    scene.watch.ask_now()
    await holds("it was asked at once", lambda: len(taken) == 3)
    await tasks.cancel()
    assert taken == [[0], [1], [0]]
