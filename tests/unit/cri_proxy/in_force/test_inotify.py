"""The kernel's notices, of real directories."""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cri_proxy.config.files.location import ConfigLocation
from cri_proxy.in_force.inotify import Inotify
from cri_proxy.in_force.symlinks import Lookups
from tests.fakes.kubelet_volume import KubeletVolume

SECONDS = 20.0
QUIET_SECONDS = 0.3


class Heard:
    """Follows a place, and knows whether anything was heard since it was asked last."""

    def __init__(self, location: ConfigLocation) -> None:
        self._event = threading.Event()
        self._place = location
        self.notices = Inotify(self._event.set)
        self.follow()

    def follow(self) -> None:
        assert not self.notices.follow(self._place.lookups())
        self._event.clear()

    def something(self) -> bool:
        heard = self._event.wait(SECONDS)
        self._event.clear()
        return heard

    def all(self) -> bool:
        heard = self.something()
        while not self.nothing():
            self._event.clear()
        return heard

    def nothing(self) -> bool:
        return not self._event.wait(QUIET_SECONDS)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "c.yaml").write_text("a")
    return tmp_path / "d"


@pytest.fixture
def heard(directory: Path) -> Iterator[Heard]:
    heard = Heard(ConfigLocation(directory / "c.yaml"))
    yield heard
    heard.notices.close()


def replaced(directory: Path) -> None:
    """As an editor writes."""
    (directory / "c.yaml~").write_text("b")
    (directory / "c.yaml~").rename(directory / "c.yaml")


@pytest.mark.parametrize(
    "act",
    [
        lambda directory: (directory / "c.yaml").write_text("b"),
        replaced,
        lambda directory: (directory / "c.yaml").unlink(),
        lambda directory: (directory / "c.yaml").chmod(0),
        lambda directory: directory.chmod(0),
        lambda directory: (directory / "node-group").write_text("g"),
        lambda directory: directory.rename(directory.with_name("elsewhere")),
        shutil.rmtree,
    ],
    ids=[
        "in place",
        "by an editor",
        "deleted",
        "closed to us",
        "directory closed to us",
        "group",
        "directory renamed",
        "directory deleted",
    ],
)
def test_a_change_is_heard_of(directory: Path, heard: Heard, act: Callable[[Path], object]) -> None:
    act(directory)
    assert heard.something()


def test_reading_and_other_files_are_not_heard_of(directory: Path, heard: Heard) -> None:
    (directory / "c.yaml").read_text()
    (directory / "other").write_text("x")
    assert heard.nothing()


def test_the_kubelets_swap_is_heard_of_time_and_again(tmp_path: Path) -> None:
    volume = KubeletVolume(tmp_path / "v")
    volume.write({"default.yaml": "0"})
    heard = Heard(ConfigLocation(tmp_path / "v"))
    for text in ("1", "2", "3"):
        volume.write({"default.yaml": text})
        assert heard.something()
        heard.follow()
    heard.notices.close()


def test_a_directory_that_comes_back_is_followed_again(directory: Path, heard: Heard) -> None:
    shutil.rmtree(directory)
    assert heard.something()
    heard.follow()
    directory.mkdir()
    assert heard.something()
    heard.follow()
    (directory / "c.yaml").write_text("b")
    assert heard.something()


def test_a_directory_that_was_made_anew_since_the_last_look_is_followed(directory: Path, heard: Heard) -> None:
    for _ in range(3):
        shutil.rmtree(directory)
        directory.mkdir()
        assert heard.all()
        heard.follow()
        (directory / "c.yaml").write_text("b")
        assert heard.all()


class Disturbed(dict[Path, frozenset[str]]):
    """Directories to follow; once all were looked at for the first time, something happens."""

    def __init__(self, lookups: Lookups, act: Callable[[], object]) -> None:
        super().__init__(lookups)
        self._acts = [act]

    def __iter__(self) -> Iterator[Path]:
        yield from super().__iter__()
        while self._acts:
            self._acts.pop()()


def test_a_directory_that_comes_while_the_others_are_being_followed_is_followed_too(directory: Path) -> None:
    event = threading.Event()
    notices = Inotify(event.set)
    lookups = ConfigLocation(directory / "c.yaml").lookups()
    shutil.rmtree(directory)
    assert not notices.follow(Disturbed(lookups, directory.mkdir))
    event.clear()
    (directory / "c.yaml").write_text("b")
    assert event.wait(SECONDS)
    notices.close()


def watching() -> list[threading.Thread]:
    """The threads that wait for events; what others leave behind may end at any moment."""
    return [thread for thread in threading.enumerate() if type(thread).__name__.startswith("Inotify")]


def test_what_is_closed_holds_no_thread_and_no_descriptor(directory: Path) -> None:
    def held() -> tuple[int, int]:
        inotify = [fd for fd in Path("/proc/self/fd").iterdir() if fd.is_symlink() and "inotify" in str(fd.readlink())]
        return len(watching()), len(inotify)

    before = held()
    heard = Heard(ConfigLocation(directory / "c.yaml"))
    assert held() > before
    heard.notices.close()
    heard.notices.close()
    assert held() == before


def test_nothing_to_follow_opens_nothing() -> None:
    before = watching()
    assert not Inotify(lambda: None).follow({})
    assert watching() == before


def test_no_descriptor_is_left_where_none_remains_for_the_threads_end(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(flags: int) -> tuple[int, int]:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "pipe2", full)
    before = list(Path("/proc/self/fd").iterdir())
    notices = Inotify(lambda: None)
    assert notices.follow(ConfigLocation(directory / "c.yaml").lookups()) == "inotify: Too many open files"
    assert len(list(Path("/proc/self/fd").iterdir())) == len(before)


def test_what_is_closed_while_its_thread_starts_is_no_fault(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process ends while a helper thread of the event loop still begins to follow."""
    notices, start = Inotify(lambda: None), threading.Thread.start

    def closed_meanwhile(thread: threading.Thread) -> None:
        notices.close()
        start(thread)

    monkeypatch.setattr("cri_proxy.in_force.inotify.InotifyThread.start", closed_meanwhile)
    assert notices.follow(ConfigLocation(directory / "c.yaml").lookups()) == ""
    notices.close()
