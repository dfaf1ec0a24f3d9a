from pathlib import Path

import pytest

from cri_proxy import events
from cri_proxy.config.option_groups import DeviceOptions
from cri_proxy.daemon.file_reload import WatchedPlace
from cri_proxy.daemon.inventory_file import InventoryFile, NoInventoryFile
from cri_proxy.file_workers import PLAIN_THREADS
from cri_proxy.in_force.last_good import KeptTexts, save_inventory
from cri_proxy.in_force.text_files import FoundFiles
from policies.devices.model import EMPTY_INVENTORY
from tests.fakes.clock import ManualClock
from tests.fakes.reloads import Heard

ONE, TWO = "gpu: [{minor: 0}]\n", "gpu: [{minor: 0}, {minor: 1}]\nrdma: [{minor: 0}]\n"


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.path, self.state = tmp_path / "devices.yaml", tmp_path / "state"
        self.options, self.journal = DeviceOptions(str(self.path)), Heard()
        self.restart()

    def restart(self) -> None:
        self.saved: list[KeptTexts] = []
        self.file = InventoryFile(self.options, PLAIN_THREADS, clock=ManualClock(), journal=self.journal)
        self.file.keep = self.saved.append

    async def change(self, text: str) -> None:
        self.path.write_text(text)
        self.path.chmod(0o644)
        self.file.use(await self.file.read(self.options))

    async def begin(self) -> None:
        await self.file.begin(self.state)

    def listed(self) -> list[str]:
        return [f"{device.kind} {device.minor}" for device in self.file.listed.devices]


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    return Scene(tmp_path)


async def test_what_the_file_lists_is_in_force_and_so_is_each_change(scene: Scene) -> None:
    await scene.begin()
    await scene.change(ONE)
    assert scene.listed() == ["gpu 0"]
    await scene.change(TWO)
    assert scene.listed() == ["gpu 0", "gpu 1", "rdma 0"]
    assert scene.journal.fields(events.INVENTORY_RELOADED)["devices"] == {"gpu": 2, "rdma": 1}
    assert scene.saved[-1].texts == (("devices.yaml", TWO),)


async def test_a_bad_file_keeps_what_it_said_before_also_over_a_restart(scene: Scene) -> None:
    await scene.begin()
    await scene.change(ONE)
    await scene.change("gpu: [{minor: x}]\n")
    assert (scene.listed(), scene.file.view().is_good) == (["gpu 0"], False)
    (warning,) = scene.file.warnings()
    assert warning.startswith(f"inventory file {scene.path}:1: gpu.minor: expected a number")
    assert warning.endswith("its last good content stays in force")
    save_inventory(scene.state, scene.file.kept)
    scene.restart()
    await scene.begin()
    assert scene.listed() == ["gpu 0"]


async def test_a_file_that_went_away_is_reported_and_its_devices_stay(scene: Scene) -> None:
    await scene.begin()
    await scene.change(ONE)
    scene.path.unlink()
    scene.file.use(await scene.file.read(scene.options))
    assert scene.listed() == ["gpu 0"]
    assert "cannot be read: No such file" in next(scene.file.warnings())


async def test_no_file_lists_nothing_and_nothing_is_wrong(scene: Scene) -> None:
    scene.options = DeviceOptions()
    scene.restart()
    await scene.begin()
    assert (scene.listed(), scene.file.view().is_good, list(scene.file.warnings())) == ([], True, [])
    assert await WatchedPlace(scene.file, lambda: scene.options).lookups() == {}


async def test_another_file_replaces_what_the_first_one_said(scene: Scene, tmp_path: Path) -> None:
    await scene.begin()
    await scene.change(TWO)
    scene.file.use(await scene.file.read(DeviceOptions()))
    assert (scene.listed(), scene.saved[-1].texts) == ([], ())


async def test_a_node_without_a_daemon_reads_none(tmp_path: Path) -> None:
    none, options = NoInventoryFile(), DeviceOptions(str(tmp_path))
    read = await none.merged(FoundFiles(tmp_path), options)
    none.use(read)
    assert (read, read.said.inventory) == (await none.read(options), EMPTY_INVENTORY)
