import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.in_force.inotify_events import CREATE, DELETE, MODIFY, InotifyDescriptor, InotifyEvent


@pytest.fixture
def descriptor() -> Iterator[InotifyDescriptor]:
    descriptor = InotifyDescriptor()
    yield descriptor
    descriptor.close()


def test_events_name_their_watch_kind_and_file(descriptor: InotifyDescriptor, tmp_path: Path) -> None:
    watch = descriptor.watch(tmp_path, CREATE | DELETE)
    for name in ("a", "a-longer-name", "ü"):
        (tmp_path / name).touch()
    (tmp_path / "a").unlink()
    assert list(descriptor.events()) == [
        *(InotifyEvent(watch, CREATE, name) for name in ("a", "a-longer-name", "ü")),
        InotifyEvent(watch, DELETE, "a"),
    ]
    assert list(descriptor.events()) == []


def test_a_file_has_one_watch_by_whatever_name(descriptor: InotifyDescriptor, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    assert descriptor.watch(tmp_path, MODIFY) == descriptor.watch(tmp_path / "link", MODIFY)


def test_what_is_not_watched_any_more_is_not_reported(descriptor: InotifyDescriptor, tmp_path: Path) -> None:
    watch = descriptor.watch(tmp_path, CREATE)
    descriptor.unwatch(watch)
    descriptor.unwatch(watch)
    (tmp_path / "a").touch()
    assert not any(event.mask & CREATE for event in descriptor.events())


def test_what_cannot_be_watched_is_an_error(descriptor: InotifyDescriptor, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        descriptor.watch(tmp_path / "missing", CREATE)


def test_a_limit_is_named() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        with pytest.raises(OSError, match=r"open files, or fs\.inotify\.max_user_instances is used up"):
            InotifyDescriptor()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
