import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest

from cri_proxy import events
from cri_proxy.costs.merge import CostDirectory
from cri_proxy.daemon.device_sources import COST_FILES
from cri_proxy.file_workers import FilesFailed
from cri_proxy.in_force.files import POLL_SECONDS, FilesInForce, InForce
from cri_proxy.in_force.last_good_writer import StateDirectory
from cri_proxy.in_force.symlinks import ANY
from cri_proxy.in_force.text_files import FoundFiles, KeptTexts
from cri_proxy.tasks import Tasks
from policies.devices.costs import NO_DEVICES, Inventory, Missing, Normalize
from tests.fakes.clock import ManualClock
from tests.fakes.reloads import Heard

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

GPUS = "a.com/gpu/gpu0-1: {10: [cpu/cpu0-3]}\n"
NICS = "b.com/nic/nic0: {5: [cpu/cpu0-3]}\n"


class Failing:
    """Workers that fail for these subjects."""

    def __init__(self) -> None:
        self.subjects: set[str] = set()

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        if subject in self.subjects:
            raise FilesFailed(subject, "no answer within 2 s")
        return function(*args)


class Scene:
    def __init__(self, tmp_path: Path, *, missing: Missing = Missing.ZERO) -> None:
        self.directory, self.state = tmp_path / "costs.d", tmp_path / "state"
        self.source: CostDirectory | None = CostDirectory(self.directory, missing, Normalize.PER_TYPE_MAX)
        self.clock, self.journal, self.files, self.tasks = ManualClock(), Heard(), Failing(), Tasks()
        self.restart()

    def restart(self) -> None:
        state = StateDirectory(self.state, self.tasks, self.journal, self.files)
        self.costs = FilesInForce(COST_FILES, self.source, state, clock=self.clock)

    def write(self, name: str, text: str) -> None:
        self.directory.mkdir(mode=0o755, exist_ok=True)
        (self.directory / name).write_text(text)
        (self.directory / name).chmod(0o644)

    async def begin(self) -> None:
        await self.costs.begin()
        self.follower = self.costs.follow(self.take)

    async def take(self, found: FoundFiles, is_asked: bool) -> None:
        self.costs.use(await self.costs.again(found), is_asked=is_asked)

    async def look(self) -> None:
        await self.follower.watch.check()

    async def change(self, name: str, text: str) -> None:
        self.write(name, text)
        await self.look()

    def counts(self) -> dict[str, int]:
        return {kind: len(names) for kind, names in self.costs.content.devices.items()}

    async def saved(self) -> KeptTexts | None:
        await self.tasks.join()
        return COST_FILES.state.find(self.state)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_what_is_there_at_the_start_is_in_force(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    assert scene.counts() == {"a.com/gpu": 2}
    assert await scene.saved() == KeptTexts(scene.directory, (("gpu.yaml", GPUS),))
    assert list(scene.costs.warnings()) == []


async def test_without_a_directory_nothing_is_listed_and_nothing_is_wrong(scene: Scene) -> None:
    await scene.begin()
    assert scene.costs.content == NO_DEVICES
    assert (scene.costs.report.is_good, scene.costs.report.files) == (True, ())
    assert await scene.saved() is None


async def test_where_no_directory_is_named_nothing_is_read(scene: Scene) -> None:
    scene.source = None
    scene.restart()
    scene.files.subjects = {str(scene.state), "."}
    await scene.begin()
    assert (await scene.costs.at(None)).judged.content == NO_DEVICES
    assert await scene.costs.lookups() == {}
    assert scene.costs.report.is_good


async def test_a_changed_file_is_in_force_counted_and_saved(scene: Scene) -> None:
    await scene.begin()
    await scene.clock.advance(5.0)
    await scene.change("gpu.yaml", GPUS)
    report = scene.costs.report
    assert (report.applied, report.unchanged, report.rejected) == (1, 0, 0)
    assert report.since_seconds == scene.clock.now_seconds()
    assert await scene.saved() == KeptTexts(scene.directory, (("gpu.yaml", GPUS),))
    assert scene.journal.fields(events.COST_FILES_RELOADED)["devices"] == {"a.com/gpu": 2}


async def test_a_change_that_means_the_same_is_counted_as_that(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    since = scene.costs.report.since_seconds
    await scene.change("gpu.yaml", GPUS + "# the same\n")
    view = scene.costs.report
    assert (view.applied, view.unchanged, view.rejected, view.since_seconds) == (0, 1, 0, since)


async def test_what_was_read_twice_is_noted_once_unless_it_is_asked_for(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    await scene.look()
    assert scene.costs.report.unchanged == 0
    scene.follower.watch.ask()
    await scene.look()
    assert scene.costs.report.unchanged == 1


async def test_a_bad_file_keeps_its_last_good_content_and_is_told(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    await scene.change("gpu.yaml", "a.com/gpu/gpu0: [\n")
    assert scene.counts() == {"a.com/gpu": 2}
    report = scene.costs.report
    assert (report.rejected, report.is_good) == (1, False)
    assert [(f.name, f.state) for f in report.files] == [("gpu.yaml", "kept")]
    said = scene.journal.fields(events.COST_FILE_REJECTED)
    assert (said["file"], said["last_good_stays"]) == (str(scene.directory / "gpu.yaml"), True)
    (warning,) = scene.costs.warnings()
    assert warning.startswith(f"cost file {scene.directory}/gpu.yaml:")
    assert warning.endswith("its last good content stays in force")
    assert await scene.saved() == KeptTexts(scene.directory, (("gpu.yaml", GPUS),))


async def test_a_start_with_a_bad_file_goes_on_with_what_it_said_last(scene: Scene) -> None:
    COST_FILES.state.save(scene.state, KeptTexts(scene.directory, (("gpu.yaml", GPUS),)))
    scene.write("gpu.yaml", "")
    scene.write("nic.yaml", NICS)
    await scene.begin()
    assert scene.counts() == {"a.com/gpu": 2, "b.com/nic": 1}
    assert "is empty" in str(scene.journal.fields(events.COST_FILE_REJECTED)["reason"])


async def test_a_start_forgets_the_files_that_are_gone(scene: Scene) -> None:
    COST_FILES.state.save(scene.state, KeptTexts(scene.directory, (("gpu.yaml", GPUS),)))
    await scene.begin()
    assert scene.counts() == {}
    assert await scene.saved() == KeptTexts(scene.directory)


async def test_a_directory_that_hangs_at_the_start_is_as_it_was(scene: Scene) -> None:
    COST_FILES.state.save(scene.state, KeptTexts(scene.directory, (("gpu.yaml", GPUS),)))
    scene.files.subjects = {str(scene.directory)}
    await scene.begin()
    assert scene.counts() == {"a.com/gpu": 2}
    assert "hangs" in str(scene.journal.fields(events.COST_FILES_UNREADABLE)["reason"])
    assert "does not answer" in next(scene.costs.warnings())


async def test_a_state_directory_that_hangs_keeps_no_start_from_reading_the_files(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    scene.files.subjects = {str(scene.state)}
    await scene.begin()
    assert scene.counts() == {"a.com/gpu": 2}
    assert "no answer" in str(scene.journal.fields(events.COST_FILES_NOT_KEPT)["reason"])


async def test_while_the_directory_hangs_everything_stays_and_nothing_is_watched(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    assert ANY in (await scene.costs.lookups())[Path(os.path.realpath(scene.directory))]
    scene.files.subjects = {str(scene.directory)}
    await scene.look()
    assert (scene.counts(), await scene.costs.lookups()) == ({"a.com/gpu": 2}, {})
    scene.files.subjects = set()
    await scene.look()
    assert (scene.costs.report.is_good, scene.counts()) == (True, {"a.com/gpu": 2})


async def test_files_that_cannot_be_joined_in_time_are_to_be_read_again(scene: Scene) -> None:
    await scene.begin()
    scene.files.subjects = {"the judging of the cost files"}
    await scene.change("gpu.yaml", GPUS)
    assert scene.counts() == {}
    assert "cannot be merged" in scene.costs.report.problem
    scene.files.subjects = set()
    await scene.look()
    assert (scene.costs.report.is_good, scene.counts()) == (True, {"a.com/gpu": 2})


async def test_another_directory_has_nothing_of_the_former(scene: Scene, tmp_path: Path) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    (tmp_path / "other").mkdir(mode=0o755)
    (tmp_path / "other" / "gpu.yaml").write_text("[")
    scene.costs.use(await scene.costs.at(CostDirectory(tmp_path / "other")))
    assert scene.counts() == {}
    assert await scene.saved() == KeptTexts(tmp_path / "other")


async def test_what_was_found_where_the_files_are_not_any_more_is_looked_up_anew(scene: Scene, tmp_path: Path) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    before = await scene.costs.read()
    scene.costs.use(await scene.costs.at(CostDirectory(tmp_path / "other")))
    await scene.take(before, False)
    assert (scene.counts(), scene.costs.source) == ({}, CostDirectory(tmp_path / "other"))


async def test_other_options_make_another_inventory_of_the_same_files(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    plain: InForce[Inventory] = await scene.costs.at(CostDirectory(scene.directory, Missing.MIRROR, Normalize.NONE))
    assert plain.judged.content != scene.costs.content
    assert plain.judged.content.missing is Missing.MIRROR


async def test_silent_devices_are_told_once_a_change(scene: Scene) -> None:
    await scene.begin()
    await scene.change("gpu.yaml", f"{GPUS}a.com/gpu/gpu2:\n")
    said = scene.journal.fields(events.COST_FILES_SILENT)
    assert str(said["reason"]).startswith("a.com/gpu/gpu2 says nothing about costs")
    assert "a.com/gpu/gpu2" in next(scene.costs.warnings())
    said.clear()
    await scene.change("nic.yaml", NICS)
    assert scene.journal.fields(events.COST_FILES_SILENT) == {}
    await scene.change("gpu.yaml", f"{GPUS}a.com/gpu/gpu2-3:\n")
    assert str(scene.journal.fields(events.COST_FILES_SILENT)["reason"]).startswith(
        "a.com/gpu/gpu2, a.com/gpu/gpu3 say"
    )


async def test_silence_is_no_word_worth_where_costs_count_both_ways(tmp_path: Path) -> None:
    scene = Scene(tmp_path, missing=Missing.MIRROR)
    await scene.begin()
    await scene.change("gpu.yaml", f"{GPUS}a.com/gpu/gpu2:\n")
    assert list(scene.costs.warnings()) == []


async def test_what_is_late_or_not_saved_is_a_warning_each(scene: Scene) -> None:
    await scene.begin()
    scene.follower.watch.problem, scene.follower.writer.problem = "too many watches", "the disk is full"
    assert list(scene.costs.warnings()) == [
        "changes of the cost files are found by polling only, every 60 s: too many watches",
        "a start with bad cost files would not find the last good content: the disk is full",
    ]
    assert POLL_SECONDS >= 60


async def test_files_are_read_off_the_event_loop(scene: Scene) -> None:
    state = StateDirectory(scene.state, scene.tasks, scene.journal)
    costs = FilesInForce(COST_FILES, scene.source, state, clock=scene.clock)
    scene.write("gpu.yaml", GPUS)
    await asyncio.wait_for(costs.begin(), 20)
    assert list(costs.content.devices) == ["a.com/gpu"]
