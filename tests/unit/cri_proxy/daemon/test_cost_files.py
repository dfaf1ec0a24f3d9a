import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, TypeVarTuple

import pytest

from cri_proxy import events
from cri_proxy.config.option_groups import CostOptions
from cri_proxy.daemon.cost_files import CostFiles, NoCostFiles
from cri_proxy.daemon.file_reload import WatchedPlace
from cri_proxy.file_workers import PLAIN_THREADS, FileCalls, FilesFailed
from cri_proxy.in_force.last_good import KeptTexts, save_costs
from cri_proxy.in_force.symlinks import ANY
from cri_proxy.in_force.text_files import FoundFiles
from policies.costs.graph import Missing
from policies.costs.inventory import NO_DEVICES
from policies.costs.table import Normalize
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
        self.options = CostOptions(str(self.directory), missing)
        self.clock, self.journal, self.files = ManualClock(), Heard(), Failing()
        self.restart()

    def restart(self) -> None:
        self.saved: list[KeptTexts] = []
        self.costs = CostFiles(self.options, self.files, clock=self.clock, journal=self.journal)
        self.costs.keep = self.saved.append

    def write(self, name: str, text: str) -> None:
        self.directory.mkdir(mode=0o755, exist_ok=True)
        (self.directory / name).write_text(text)
        (self.directory / name).chmod(0o644)

    async def begin(self) -> None:
        await self.costs.begin(self.state)

    async def change(self, name: str, text: str) -> None:
        self.write(name, text)
        self.costs.use(await self.costs.read(self.options))

    def counts(self) -> dict[str, int]:
        return {kind: len(names) for kind, names in self.costs.inventory.devices.items()}


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_what_is_there_at_the_start_is_in_force(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    assert scene.counts() == {"a.com/gpu": 2}
    assert scene.costs.kept.texts == (("gpu.yaml", GPUS),)
    assert list(scene.costs.warnings()) == []


async def test_without_a_directory_nothing_is_listed_and_nothing_is_wrong(scene: Scene) -> None:
    await scene.begin()
    assert scene.costs.inventory == NO_DEVICES
    view = scene.costs.view()
    assert (view.is_good, view.files, view.device_count) == (True, (), 0)


async def test_where_no_directory_is_named_nothing_is_read(scene: Scene) -> None:
    scene.options = CostOptions("")
    scene.restart()
    scene.files.subjects = {str(scene.state), "."}
    await scene.begin()
    assert (await scene.costs.read(scene.options)).said.inventory == NO_DEVICES
    assert await WatchedPlace(scene.costs, lambda: scene.options).lookups() == {}
    assert scene.costs.view().directory == ""


async def test_a_changed_file_is_in_force_counted_and_saved(scene: Scene) -> None:
    await scene.begin()
    await scene.clock.advance(5.0)
    await scene.change("gpu.yaml", GPUS)
    view = scene.costs.view()
    assert view.device_count == 2
    assert (view.applied, view.unchanged, view.rejected) == (1, 0, 0)
    assert view.since_seconds == scene.clock.now_seconds()
    assert [kept.texts for kept in scene.saved] == [(("gpu.yaml", GPUS),)]
    assert scene.journal.fields(events.COST_FILES_RELOADED)["devices"] == {"a.com/gpu": 2}


async def test_a_change_that_means_the_same_is_counted_as_that(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    since = scene.costs.view().since_seconds
    await scene.change("gpu.yaml", GPUS + "# the same\n")
    view = scene.costs.view()
    assert (view.applied, view.unchanged, view.rejected, view.since_seconds) == (0, 1, 0, since)


async def test_what_was_read_twice_is_noted_once_unless_it_is_asked_for(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    same = await scene.costs.read(scene.options)
    scene.costs.use(same)
    assert scene.costs.view().unchanged == 0
    scene.costs.use(same, is_asked=True)
    assert scene.costs.view().unchanged == 1


async def test_a_bad_file_keeps_its_last_good_content_and_is_told(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    await scene.change("gpu.yaml", "a.com/gpu/gpu0: [\n")
    assert scene.counts() == {"a.com/gpu": 2}
    view = scene.costs.view()
    assert (view.rejected, view.is_good) == (1, False)
    assert [(f.name, f.state) for f in view.files] == [("gpu.yaml", "kept")]
    said = scene.journal.fields(events.COST_FILE_REJECTED)
    assert (said["file"], said["last_good_stays"]) == (str(scene.directory / "gpu.yaml"), True)
    (warning,) = scene.costs.warnings()
    assert warning.startswith(f"cost file {scene.directory}/gpu.yaml:")
    assert warning.endswith("its last good content stays in force")
    assert scene.saved == []


async def test_a_start_with_a_bad_file_goes_on_with_what_it_said_last(scene: Scene) -> None:
    save_costs(scene.state, KeptTexts(scene.directory, (("gpu.yaml", GPUS),)))
    scene.write("gpu.yaml", "")
    scene.write("nic.yaml", NICS)
    await scene.begin()
    assert scene.counts() == {"a.com/gpu": 2, "b.com/nic": 1}
    assert "is empty" in str(scene.journal.fields(events.COST_FILE_REJECTED)["reason"])


async def test_a_start_forgets_the_files_that_are_gone(scene: Scene) -> None:
    save_costs(scene.state, KeptTexts(scene.directory, (("gpu.yaml", GPUS),)))
    await scene.begin()
    assert scene.counts() == {}
    assert scene.costs.kept == KeptTexts(scene.directory)


async def test_a_directory_that_hangs_at_the_start_is_as_it_was(scene: Scene) -> None:
    save_costs(scene.state, KeptTexts(scene.directory, (("gpu.yaml", GPUS),)))
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
    place = WatchedPlace(scene.costs, lambda: scene.options)
    assert ANY in (await place.lookups())[Path(os.path.realpath(scene.directory))]
    scene.files.subjects = {str(scene.directory)}
    scene.costs.use(await scene.costs.merged(await place.read(), scene.options))
    assert (scene.counts(), await place.lookups()) == ({"a.com/gpu": 2}, {})
    scene.files.subjects = set()
    scene.costs.use(await scene.costs.merged(await place.read(), scene.options))
    assert (scene.costs.view().is_good, scene.counts()) == (True, {"a.com/gpu": 2})


async def test_files_that_cannot_be_joined_in_time_are_to_be_read_again(scene: Scene) -> None:
    await scene.begin()
    scene.files.subjects = {"the merging of the cost files"}
    await scene.change("gpu.yaml", GPUS)
    assert (scene.costs.is_merged, scene.counts()) == (False, {})
    assert "cannot be merged" in scene.costs.view().problem
    scene.files.subjects = set()
    scene.costs.use(await scene.costs.read(scene.options))
    assert (scene.costs.is_merged, scene.counts()) == (True, {"a.com/gpu": 2})


async def test_another_directory_has_nothing_of_the_former(scene: Scene, tmp_path: Path) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    (tmp_path / "other").mkdir(mode=0o755)
    (tmp_path / "other" / "gpu.yaml").write_text("[")
    scene.costs.use(await scene.costs.read(CostOptions(str(tmp_path / "other"))))
    assert scene.counts() == {}
    assert scene.saved == [KeptTexts(tmp_path / "other")]


async def test_other_options_make_another_inventory_of_the_same_files(scene: Scene) -> None:
    scene.write("gpu.yaml", GPUS)
    await scene.begin()
    plain = await scene.costs.read(CostOptions(str(scene.directory), Missing.MIRROR, Normalize.NONE))
    assert plain.said.inventory != scene.costs.inventory
    assert plain.said.inventory.missing is Missing.MIRROR


async def test_silent_devices_are_told_once_a_change(scene: Scene) -> None:
    await scene.begin()
    await scene.change("gpu.yaml", f"{GPUS}a.com/gpu/gpu2:\n")
    said = scene.journal.fields(events.COST_FILES_SILENT)
    assert str(said["reason"]).startswith("a.com/gpu/gpu2 says nothing about costs")
    assert scene.costs.view().silent == ("a.com/gpu/gpu2",)
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
    assert (scene.costs.view().silent, list(scene.costs.warnings())) == ((), [])


async def test_a_node_without_a_daemon_reads_none(tmp_path: Path) -> None:
    costs, options = NoCostFiles(), CostOptions(str(tmp_path))
    read = await costs.merged(FoundFiles(tmp_path), options)
    costs.use(read)
    assert (read, read.said.inventory) == (await costs.read(options), NO_DEVICES)


async def test_files_are_read_off_the_event_loop(scene: Scene) -> None:
    files: FileCalls = PLAIN_THREADS
    costs = CostFiles(scene.options, files, clock=scene.clock, journal=scene.journal)
    scene.write("gpu.yaml", GPUS)
    await asyncio.wait_for(costs.begin(scene.state), 20)
    assert list(costs.inventory.devices) == ["a.com/gpu"]
