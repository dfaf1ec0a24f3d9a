from pathlib import Path

import pytest

from cri_proxy import events
from cri_proxy.config.model import Config
from cri_proxy.config.option_groups import DeviceOptions
from cri_proxy.daemon.device_sources import (
    INVENTORY_FILE,
    DeviceSources,
    NodeDevices,
    inventory_in_force,
    inventory_source,
)
from cri_proxy.in_force.last_good_writer import StateDirectory
from cri_proxy.in_force.text_files import KeptTexts
from cri_proxy.inventory.numbers import NUMBERS, DeviceNumbers
from cri_proxy.tasks import Tasks
from policies.devices import EMPTY_INVENTORY, DeviceInventory, InventoryDevice, JoinedDevices, PciePath
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.fakes.clock import ManualClock
from tests.fakes.nvidia_tree import write_gpu
from tests.fakes.reloads import Heard

ONE, TWO = "gpu: [{minor: 0}]\n", "gpu: [{minor: 0}, {minor: 1}]\nrdma: [{minor: 0}]\n"
A, B = "0000:10:00.0", "0000:20:00.0"


class Scene:
    def __init__(self, tmp_path: Path) -> None:
        self.path, self.state, self.root = tmp_path / "devices.yaml", tmp_path / "state", tmp_path
        self.config, self.journal, self.tasks = Config(devices=DeviceOptions(str(self.path))), Heard(), Tasks()
        self.restart()

    def restart(self) -> None:
        state = StateDirectory(self.state, self.tasks, self.journal)
        self.sources = DeviceSources(self.config, self.root, state, clock=ManualClock())

    async def begin(self) -> None:
        await self.sources.begin()

    async def change(self, text: str) -> None:
        self.path.write_text(text)
        self.path.chmod(0o644)
        await self.look()

    async def look(self) -> None:
        listed = self.sources.listed
        listed.use(await listed.again(await listed.read()))

    def listed(self) -> list[str]:
        return [f"{device.kind} {device.minor}" for device in self.sources.listed.content.devices]

    async def scan(self, *buses: str) -> dict[str, int]:
        """The numbers of the GPUs that are in force after a scan of a machine with these."""
        config = Config(devices=DeviceOptions(scan=True))
        inventory = await self.sources.joined(config, machine(*buses))
        self.sources.use(config, JoinedDevices(inventory))
        await self.tasks.join()
        return {device.path.bus: device.minor for device in inventory.devices}


def machine(*buses: str) -> Machine:
    pci = [{"address": bus, "class": 0x030200, "node": 0} for bus in buses]
    return describe({"packages": 1, "cores": 2, "memory": "1Gi", "pci": pci})


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


async def test_a_bad_file_keeps_what_it_said_before_also_over_a_restart(scene: Scene) -> None:
    INVENTORY_FILE.state.save(scene.state, KeptTexts(scene.path, (("devices.yaml", ONE),)))
    scene.path.write_text("gpu: [{minor: x}]\n")
    await scene.begin()
    assert (scene.listed(), scene.sources.listed.report.is_good) == (["gpu 0"], False)
    (warning,) = scene.sources.listed.warnings()
    assert warning.startswith(f"inventory file {scene.path}:1: gpu.minor: expected a number")
    assert warning.endswith("its last good content stays in force")


async def test_a_file_that_went_away_is_reported_and_its_devices_stay(scene: Scene) -> None:
    await scene.begin()
    await scene.change(ONE)
    scene.path.unlink()
    await scene.look()
    assert scene.listed() == ["gpu 0"]
    assert "cannot be read: No such file" in next(scene.sources.listed.warnings())


async def test_no_file_lists_nothing_and_nothing_is_wrong(scene: Scene) -> None:
    scene.config = Config(devices=DeviceOptions())
    scene.restart()
    await scene.begin()
    listed = scene.sources.listed
    assert (scene.listed(), listed.report.is_good, list(listed.warnings())) == ([], True, [])
    assert await listed.lookups() == {}


async def test_another_file_replaces_what_the_first_one_said(scene: Scene) -> None:
    await scene.begin()
    await scene.change(TWO)
    scene.sources.listed.use(await scene.sources.listed.at(inventory_source(DeviceOptions())))
    assert scene.listed() == []


def test_a_scan_adds_what_pci_has_to_what_the_file_lists() -> None:
    listed = DeviceInventory((InventoryDevice("rdma", 0), InventoryDevice("gpu", 4, path=PciePath(bus="0000:09:00.0"))))
    assert inventory_in_force(DeviceOptions(), describe({}), NodeDevices(listed=listed)) is listed
    both = inventory_in_force(DeviceOptions(scan=True), machine(A), NodeDevices(listed=listed))
    assert [device.minor for device in both.of("gpu")] == [0, 4]


async def test_a_scan_goes_by_what_is_in_force_and_by_what_was_there_before(scene: Scene) -> None:
    await scene.begin()
    assert await scene.scan(A, B) == {A: 0, B: 1}
    assert await scene.scan(B) == {B: 1}
    assert await scene.scan(A, B) == {A: 0, B: 1}


async def test_a_disagreement_of_sources_is_logged_once_until_it_changes(scene: Scene) -> None:
    last = InventoryDevice("gpu", 7, uuid="GPU-1")
    one, two = (DeviceInventory((InventoryDevice("gpu", n, uuid="GPU-1"), last)) for n in (0, 1))
    for inventory in (EMPTY_INVENTORY, one, one, two, EMPTY_INVENTORY, two):
        scene.sources.use(scene.config, JoinedDevices(inventory))
    said = [str(fields["reason"]) for fields in scene.journal.all(events.DEVICES_DISAGREE)]
    assert [text[:15] for text in said] == ["gpu 0 and gpu 7", "gpu 1 and gpu 7", "gpu 1 and gpu 7"]


async def test_the_numbers_of_a_scan_hold_over_a_restart(scene: Scene) -> None:
    await scene.begin()
    await scene.scan(A, B)
    scene.restart()
    await scene.begin()
    assert await scene.scan(B) == {B: 1}


async def test_only_a_change_of_numbers_is_saved(scene: Scene) -> None:
    await scene.begin()
    await scene.scan(A)
    assert NUMBERS.find(scene.state) == DeviceNumbers((("gpu", A, 0),))
    (scene.state / NUMBERS.name).unlink()
    await scene.scan(A)
    assert NUMBERS.find(scene.state) is None


async def test_numbers_that_cannot_be_read_are_reported_and_counting_begins_again(scene: Scene) -> None:
    scene.state.mkdir(0o700)
    (scene.state / NUMBERS.name).write_text("{")
    (scene.state / NUMBERS.name).chmod(0o600)
    await scene.begin()
    assert "remove it" in str(scene.journal.fields(events.INVENTORY_NOT_KEPT)["reason"])
    assert await scene.scan(B) == {B: 0}


async def test_gpus_are_called_by_the_identifiers_of_their_driver(scene: Scene) -> None:
    write_gpu(scene.root, "0000:3b:00.0", 0, "GPU-5a")
    await scene.begin()
    await scene.change('gpu: [{minor: 0, bus: "0000:3b:00.0"}]')
    inventory = await scene.sources.joined(scene.config, describe({}))
    assert [gpu.uuid for gpu in inventory.devices] == ["GPU-5a"]
