import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from cri_proxy.clock import SystemClock
from cri_proxy.config.files.agent import REPAIR_SECONDS, Agent, Origin, Payload
from cri_proxy.config.files.location import ConfigLocation
from tests.fakes.clock import ManualClock
from tests.fakes.kubelet_volume import KubeletVolume
from tests.fakes.site import Silent
from tests.fakes.waiting import holds


class Scene:
    def __init__(self, directory: Path, *, group_file: bool = False, clock: SystemClock | ManualClock) -> None:
        self.volume = KubeletVolume(directory / "config")
        self.labels = KubeletVolume(directory / "labels")
        self.target = directory / "host" / "cluster"
        self.log = Silent()
        origin = Origin(directory / "config", "", directory / "labels" / "group" if group_file else None)
        self.agent = Agent(origin, self.target, log=self.log, clock=clock)

    def read(self) -> tuple[str, str, str]:
        """What the daemon finds: file, text, group."""
        source = ConfigLocation(self.target, "w1").read()
        return source.file.name, source.text, source.group

    async def comes(self, *wanted: str) -> None:
        await holds(f"{wanted} in the target", lambda: self.read() == wanted)


@asynccontextmanager
async def served(scene: Scene) -> AsyncIterator[None]:
    stop = asyncio.Event()
    serving = asyncio.get_running_loop().create_task(scene.agent.serve(stop.wait()))
    try:
        yield
    finally:
        stop.set()
        await serving


def test_it_copies_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, clock=SystemClock())
    scene.volume.write({"default.yaml": "adopt: pin", "node.w1.yaml": "adopt: leave"})
    assert asyncio.run(scene.agent.copy())
    assert scene.read() == ("node.w1.yaml", "adopt: leave", "")


def test_it_takes_over_a_directory_that_was_made_once_from_plain_files(tmp_path: Path) -> None:
    """As for a new node, which has no agent before it has a proxy."""
    scene = Scene(tmp_path, clock=SystemClock())
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "default.yaml").write_text("first")
    assert asyncio.run(Agent(Origin(tmp_path / "plain"), scene.target, log=scene.log, clock=SystemClock()).copy())
    assert scene.read() == ("default.yaml", "first", "")
    scene.volume.write({"default.yaml": "from the cluster"})
    assert asyncio.run(scene.agent.copy())
    assert scene.read() == ("default.yaml", "from the cluster", "")


async def test_it_follows_the_kubelet_files_that_come_and_go_included(tmp_path: Path) -> None:
    scene = Scene(tmp_path, clock=SystemClock())
    scene.volume.write({"default.yaml": "1"})
    async with served(scene):
        await scene.comes("default.yaml", "1", "")
        scene.volume.write({"default.yaml": "2"})
        await scene.comes("default.yaml", "2", "")
        scene.volume.write({"default.yaml": "2", "node.w1.yaml": "3"})
        await scene.comes("node.w1.yaml", "3", "")
        scene.volume.write({"default.yaml": "2"})
        await scene.comes("default.yaml", "2", "")
    assert scene.log.errors == []


async def test_the_group_of_the_label_comes_with_it_and_goes_with_it(tmp_path: Path) -> None:
    scene = Scene(tmp_path, group_file=True, clock=SystemClock())
    scene.volume.write({"default.yaml": "d", "group.rt.yaml": "r"})
    scene.labels.write({"group": ""})
    async with served(scene):
        await scene.comes("default.yaml", "d", "")
        scene.labels.write({"group": "rt"})
        await scene.comes("group.rt.yaml", "r", "rt")
        scene.labels.write({"group": ""})
        await scene.comes("default.yaml", "d", "")


def test_the_group_is_found_among_the_labels_of_the_pod(tmp_path: Path) -> None:
    scene = Scene(tmp_path, group_file=True, clock=SystemClock())
    scene.volume.write({"default.yaml": "d", "group.rt.yaml": "r"})
    scene.labels.write({"group": 'app="agent"\nconfig.nri/group="rt"\n'})
    assert asyncio.run(scene.agent.copy())
    assert scene.read() == ("group.rt.yaml", "r", "rt")


async def test_a_mounted_configmap_that_comes_late_is_copied_then(tmp_path: Path) -> None:
    scene = Scene(tmp_path, clock=SystemClock())
    async with served(scene):
        await holds("it says that there is nothing", lambda: len(scene.log.errors) == 1)
        scene.volume.write({"default.yaml": "1"})
        await scene.comes("default.yaml", "1", "")


def test_what_fails_again_is_told_once(tmp_path: Path) -> None:
    scene = Scene(tmp_path, clock=SystemClock())
    assert [asyncio.run(scene.agent.copy()) for _ in range(3)] == [False] * 3
    assert len(scene.log.errors) == 1


async def test_a_problem_that_stays_is_said_again_at_each_repair(tmp_path: Path) -> None:
    clock = ManualClock()
    scene = Scene(tmp_path, clock=clock)
    (tmp_path / "config").rmdir()
    async with served(scene):
        await holds("it was said", lambda: len(scene.log.errors) == 1)
        await clock.advance(REPAIR_SECONDS)
        await holds("it is said again", lambda: len(scene.log.errors) == 2)
    assert all("config: cannot read: No such file or directory" in error for error in scene.log.errors)


async def test_what_failed_is_tried_again_after_a_while(tmp_path: Path) -> None:
    clock = ManualClock()
    scene = Scene(tmp_path, clock=clock)
    scene.volume.write({"default.yaml": "1"})
    scene.target.mkdir(parents=True)
    (scene.target / "default.yaml").write_text("by hand")
    async with served(scene):
        await holds("it was refused", lambda: len(scene.log.errors) == 1)
        (scene.target / "default.yaml").unlink()
        await clock.advance(REPAIR_SECONDS)
        await scene.comes("default.yaml", "1", "")


@pytest.mark.parametrize(
    ("data", "problem"), [({}, "holds no file"), ({"a": "x" * (1 << 20), "b": "x"}, "larger than 1048576 bytes")]
)
def test_what_is_no_configmap_leaves_what_was_written(tmp_path: Path, data: dict[str, str], problem: str) -> None:
    scene = Scene(tmp_path, clock=SystemClock())
    scene.volume.write({"default.yaml": "1"})
    asyncio.run(scene.agent.copy())
    scene.volume.write(data)
    assert not asyncio.run(scene.agent.copy())
    assert problem in scene.log.errors[0]
    assert scene.read() == ("default.yaml", "1", "")


def test_a_label_that_is_no_name_is_refused(tmp_path: Path) -> None:
    scene = Scene(tmp_path, group_file=True, clock=SystemClock())
    scene.volume.write({"default.yaml": "1"})
    scene.labels.write({"group": "../../etc"})
    assert not asyncio.run(scene.agent.copy())
    assert "labels/group: expected a group's name" in scene.log.errors[0]


def test_after_every_step_of_the_kubelet_the_copy_is_the_old_or_the_new(tmp_path: Path) -> None:
    scene = Scene(tmp_path, clock=SystemClock())
    scene.volume.write({"default.yaml": "old"})
    seen = []
    for _ in scene.volume.steps({"default.yaml": "new"}):
        assert asyncio.run(scene.agent.copy())
        seen.append(scene.read()[1])
    assert seen == ["old"] * 3 + ["new"] * 4


@pytest.mark.parametrize("name", ["x" * 300, "loop", "absent"])
def test_a_mount_that_is_not_there_is_a_problem_and_no_fault(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    origin = Origin(tmp_path / name)
    assert "cannot read" in origin.read().problem
    assert tmp_path in origin.lookups()


@pytest.mark.parametrize("name", ["a", "..data"])
def test_a_link_out_of_the_mounted_directory_is_not_copied(tmp_path: Path, name: str) -> None:
    scene = Scene(tmp_path, clock=SystemClock())
    scene.volume.write({"default.yaml": "1"})
    asyncio.run(scene.agent.copy())
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a").write_text("secret")
    there = scene.volume.directory if name == "..data" else scene.volume.directory / "..data"
    (there / name).unlink(missing_ok=True)
    (there / name).symlink_to(tmp_path / "secret" / ("" if name == "..data" else "a"))
    assert not asyncio.run(scene.agent.copy())
    assert f"{name}: is a link that leads out of its directory" in scene.log.errors[0]
    assert scene.read() == ("default.yaml", "1", "")
    assert {path.name for path in scene.target.iterdir()} >= {"default.yaml"}
    assert not (scene.target / "a").exists()


def test_what_is_no_file_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "plain" / "inner").mkdir(parents=True)
    (tmp_path / "plain" / "default.yaml").write_text("1")
    os.mkfifo(tmp_path / "plain" / "pipe")
    assert Origin(tmp_path / "plain").read() == Payload((("default.yaml", b"1"),))


def test_a_group_is_no_link_out_and_no_other_text_is_repeated(tmp_path: Path) -> None:
    scene = Scene(tmp_path, group_file=True, clock=SystemClock())
    scene.volume.write({"default.yaml": "1"})
    scene.labels.write({"group": "zqroot:zqsecret"})
    (tmp_path / "secret").write_text("rt")
    assert not asyncio.run(scene.agent.copy())
    (tmp_path / "labels" / "group").unlink()
    (tmp_path / "labels" / "group").symlink_to("../secret")
    assert not asyncio.run(scene.agent.copy())
    assert "zq" not in scene.log.errors[0]
    assert "labels/group: is a link that leads out" in scene.log.errors[1]


def test_a_file_that_cannot_be_read_is_named_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "default.yaml").symlink_to("default.yaml")
    problem = f"{tmp_path}/plain/default.yaml: cannot read: Too many levels of symbolic links"
    assert Origin(tmp_path / "plain").read().problem == problem
    (tmp_path / "plain" / "default.yaml").unlink()
    group = tmp_path / "labels" / "group"
    assert (
        Origin(tmp_path / "plain", group_file=group).read().problem
        == f"{group}: cannot read: No such file or directory"
    )


def test_a_name_that_a_volume_keeps_for_itself_is_not_copied(tmp_path: Path) -> None:
    KubeletVolume(tmp_path / "config").write({"default.yaml": "1", "..b": "2"})
    assert Origin(tmp_path / "config").read() == Payload((("default.yaml", b"1"),))
