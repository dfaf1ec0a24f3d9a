"""On files of a directory: the kernel reports those of cgroups in the same way."""

import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.node.drift.writes import FILES, InotifyWrites
from tests.fakes.waiting import holds


class Scene:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.written: list[str] = []
        self.writes = InotifyWrites(self.written.append)

    def cgroup(self, name: str) -> Path:
        directory = self.root / name
        directory.mkdir()
        for file in FILES:
            (directory / file).write_text("0-7\n")
        return directory


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    scene = Scene(tmp_path)
    yield scene
    scene.writes.close()


@pytest.mark.parametrize("name", FILES)
async def test_a_write_names_its_container(scene: Scene, name: str) -> None:
    for container_id in ("a", "b"):
        assert scene.writes.follow(container_id, scene.cgroup(container_id))
    (scene.root / "b" / name).write_text("0\n")
    await holds("it is reported", lambda: "b" in scene.written)
    assert "a" not in scene.written


async def test_many_writes_are_one_report_for_each_container(scene: Scene) -> None:
    for container_id in ("a", "b"):
        scene.writes.follow(container_id, scene.cgroup(container_id))
    for text in map(str, range(50)):
        for container_id in ("a", "b"):
            (scene.root / container_id / FILES[0]).write_text(text)
    await holds("both are reported", lambda: len(scene.written) >= 2)
    assert sorted(scene.written) == ["a", "b"]


async def test_a_container_is_followed_once_and_reading_is_no_write(scene: Scene) -> None:
    directory = scene.cgroup("a")
    assert scene.writes.follow("a", directory)
    assert not scene.writes.follow("a", directory)
    (directory / FILES[0]).read_text()
    scene.writes.follow("b", scene.cgroup("b"))
    (scene.root / "b" / FILES[0]).write_text("1")
    await holds("the later one is reported", lambda: bool(scene.written))
    assert set(scene.written) == {"b"}


async def test_a_container_that_is_gone_is_not_followed_and_no_problem(scene: Scene) -> None:
    assert not scene.writes.follow("a", scene.root / "a")
    assert scene.writes.problem == ""
    assert scene.writes.follow("a", scene.cgroup("a"))


async def test_what_is_not_kept_is_not_reported(scene: Scene) -> None:
    for container_id in ("a", "b"):
        scene.writes.follow(container_id, scene.cgroup(container_id))
    scene.writes.keep(["b"])
    (scene.root / "a" / FILES[0]).write_text("1")
    (scene.root / "b" / FILES[0]).write_text("1")
    await holds("the other one is reported", lambda: bool(scene.written))
    assert set(scene.written) == {"b"}


async def test_a_limit_is_named_and_the_next_attempt_may_succeed(scene: Scene) -> None:
    directory, (soft, hard) = scene.cgroup("a"), resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        assert not scene.writes.follow("a", directory)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert scene.writes.problem.startswith("inotify: too many open files")
    assert scene.writes.follow("a", directory)
    assert scene.writes.problem == ""
