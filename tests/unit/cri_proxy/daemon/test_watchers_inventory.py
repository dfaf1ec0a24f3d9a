"""The inventory file is followed by a daemon that serves: written, spoilt, replaced, named by another option."""

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from tests.fakes.waiting import holds
from tests.unit.cri_proxy.daemon.test_watchers import CONFIG, Scene, started

ONE, TWO = "gpu: [{minor: 0, numa: 0}]\n", "gpu: [{minor: 0}, {minor: 1}]\n"


class InventoryScene(Scene):
    def __init__(self, directory: Path) -> None:
        self.file = directory / "devices.yaml"
        super().__init__(directory, f"{CONFIG}devices: {{inventory: {self.file}}}\n")

    def announce(self, text: str) -> None:
        """Write the file as an editor does: under another name, then renamed."""
        temporary = self.file.with_suffix(".new")
        temporary.write_text(text)
        temporary.chmod(0o644)
        temporary.rename(self.file)

    def problems(self) -> list[str]:
        return list(self.watchers._applier.devices.listed.warnings())

    async def has(self, count: int) -> None:
        await holds(f"{count} devices are listed", lambda: len(self.policy().devices.devices) == count)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[InventoryScene]:
    scene = InventoryScene(tmp_path)
    async with started(scene):
        yield scene


async def test_a_file_that_appears_later_is_noticed_and_so_is_each_change(scene: InventoryScene) -> None:
    scene.announce(ONE)
    await scene.has(1)
    scene.announce(TWO)
    await scene.has(2)


async def test_a_bad_file_changes_nothing_until_it_is_corrected(scene: InventoryScene) -> None:
    scene.announce(TWO)
    await scene.has(2)
    scene.announce("gpu: [")
    await holds("a warning stands", lambda: bool(scene.problems()))
    await scene.has(2)
    scene.announce(ONE)
    await scene.has(1)


class HealthScene(InventoryScene):
    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.health = directory / "health"
        self.health.write_text("gpu 0 ok\n")
        self.file.write_text(TWO)
        self.write(f"{CONFIG}devices: {{inventory: {self.file}, health: {self.health}}}\n")

    def is_sick(self, minors: list[int]) -> bool:
        return [device.minor for device in self.policy().devices.devices if not device.is_healthy] == minors


async def test_a_device_that_is_reported_as_unhealthy_is_so_until_it_is_reported_as_healthy(tmp_path: Path) -> None:
    scene = HealthScene(tmp_path)
    async with started(scene):
        await scene.has(2)
        for text, sick in (("gpu 1 unhealthy fan", [1]), ("gpu 1 perhaps", [1]), ("gpu 1 ok", [])):
            scene.health.write_text(text)
            scene.watchers.reload()
            await holds(f"{sick} are unhealthy", partial(scene.is_sick, sick))
