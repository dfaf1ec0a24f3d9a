"""Cost files are followed by a daemon that serves: written, spoilt, removed, moved to another directory."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from cri_proxy.in_force.report import FilesReport
from policies.devices.costs import Missing
from tests.fakes.waiting import holds
from tests.unit.cri_proxy.daemon.test_watchers import CONFIG, Scene, started, was_kept

GPUS = "a.com/gpu/gpu0-1: {10: [cpu/cpu0-3]}\n"
NICS = "b.com/nic/nic0: {5: [cpu/cpu0-3]}\n"


class CostScene(Scene):
    def __init__(self, directory: Path) -> None:
        self.files = directory / "costs.d"
        self.config = f"{CONFIG}costs: {{dir: {self.files}}}\n"
        super().__init__(directory, self.config)

    def announce(self, name: str, text: str) -> None:
        """Write a cost file as a plugin does: under another name, then renamed."""
        self.files.mkdir(mode=0o755, exist_ok=True)
        temporary = self.files / f".{name}.new"
        temporary.write_text(text)
        temporary.chmod(0o644)
        temporary.rename(self.files / name)

    def costs(self) -> FilesReport:
        return self.watchers._applier.devices.costs.report

    def devices(self) -> dict[str, int]:
        return {kind: len(names) for kind, names in self.policy().devices.costs.devices.items()}

    async def lists(self, devices: dict[str, int]) -> None:
        await holds(f"{devices} are listed", lambda: self.devices() == devices)


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[CostScene]:
    scene = CostScene(tmp_path)
    async with started(scene):
        yield scene


async def test_a_directory_that_appears_later_is_noticed_and_so_is_each_change(scene: CostScene) -> None:
    assert scene.devices() == {}
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 2})
    scene.announce("nic.yaml", NICS)
    await scene.lists({"a.com/gpu": 2, "b.com/nic": 1})
    (scene.files / "gpu.yaml").unlink()
    await scene.lists({"b.com/nic": 1})


async def test_a_file_that_is_spoilt_stays_in_force_and_the_daemon_stays_ready(scene: CostScene) -> None:
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 2})
    scene.announce("gpu.yaml", "a.com/gpu/gpu0: [")
    scene.announce("nic.yaml", NICS)
    await scene.lists({"a.com/gpu": 2, "b.com/nic": 1})
    assert [(file.name, file.state) for file in scene.costs().files] == [("gpu.yaml", "kept"), ("nic.yaml", "in_force")]
    assert scene.daemon.node is not None
    assert scene.daemon.node.coordinator.is_ready


async def test_a_change_of_cost_files_touches_no_container(scene: CostScene) -> None:
    await scene.kubelet.run_pod(PodSpec("a", (guaranteed("c", 2000),)))
    assert scene.daemon.node is not None
    ledger = scene.daemon.node.context.ledger
    before, grants = scene.cpus(), ledger.allocations.grants
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 2})
    assert scene.cpus() == before
    assert ledger.allocations.grants == grants


async def test_the_configuration_says_where_they_are_and_how_they_are_read(scene: CostScene, tmp_path: Path) -> None:
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 2})
    await scene.change(scene.config.replace("costs: {", "costs: {missing: mirror, normalize: none, "), "applied")
    assert scene.policy().devices.costs.missing is Missing.MIRROR
    assert {cost for row in scene.policy().devices.costs.table.costs for cost in row.values()} == {10}
    scene.files = tmp_path / "others.d"
    scene.announce("nic.yaml", NICS)
    await scene.change(f"{CONFIG}costs: {{dir: {scene.files}}}\n", "applied")
    assert scene.devices() == {"b.com/nic": 1}
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 2, "b.com/nic": 1})
    await scene.change(f"{CONFIG}costs: {{dir: ''}}\n", "applied")
    assert scene.devices() == {}


async def test_a_reload_that_is_asked_for_reads_them_again(scene: CostScene) -> None:
    scene.announce("gpu.yaml", GPUS)
    await scene.lists({"a.com/gpu": 2})
    before = scene.costs().unchanged
    scene.daemon.reload()
    await holds("they were read", lambda: scene.costs().unchanged == before + 1)


async def test_a_restart_finds_the_last_good_content_of_a_bad_file(tmp_path: Path) -> None:
    async with started(CostScene(tmp_path)) as scene:
        assert isinstance(scene, CostScene)
        scene.announce("gpu.yaml", GPUS)
        await scene.lists({"a.com/gpu": 2})
        await holds("it is saved", (tmp_path / "state" / "cost-files-in-force.json").exists)
        await was_kept(scene)
        scene.announce("gpu.yaml", "")
    shutil.rmtree(tmp_path / "config")  # the next scene writes it
    async with started(CostScene(tmp_path)) as scene:
        assert isinstance(scene, CostScene)
        assert scene.devices() == {"a.com/gpu": 2}
        assert [file.state for file in scene.costs().files] == ["kept"]
