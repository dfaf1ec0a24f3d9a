import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.private_files import (
    check_private,
    open_directory,
    open_private,
    private_directory,
    read_file,
    replace_file,
    write_file,
)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_directory_is_ours_alone(tmp_path: Path) -> None:
    private_directory(tmp_path / "lib" / "cri-proxy")
    assert mode_of(tmp_path / "lib" / "cri-proxy") == 0o700


def test_a_file_is_ours_alone(tmp_path: Path) -> None:
    check_private(tmp_path / "state.db")
    assert mode_of(tmp_path / "state.db") == 0o600


def test_a_directory_that_others_write_to_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o775)
    with pytest.raises(StoreError, match="chmod go-w"):
        private_directory(tmp_path)


def test_a_file_that_others_write_to_is_refused(tmp_path: Path) -> None:
    check_private(tmp_path / "state.db")
    (tmp_path / "state.db").chmod(0o602)
    with pytest.raises(StoreError, match="mode 0602"):
        check_private(tmp_path / "state.db")


def test_a_linked_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(StoreError, match="symbolic link"):
        private_directory(tmp_path / "link")


def test_a_linked_file_is_refused_and_its_target_left_alone(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "victim")
    with pytest.raises(StoreError, match="symbolic link"):
        open_private(tmp_path / "link", os.O_RDWR)
    assert not (tmp_path / "victim").exists()


def test_a_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(StoreError, match="not a regular file"):
        open_private(tmp_path / "pipe", os.O_RDWR)


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    check_private(tmp_path / "state.db")
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(tmp_path / "state.db", 12345, -1)
    with pytest.raises(StoreError, match="belongs to user 12345"):
        check_private(tmp_path / "state.db")


def test_a_file_in_the_way_of_the_directory_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="cannot make the state directory"):
        private_directory(tmp_path / "file")


@pytest.mark.parametrize("is_synced", [True, False])
def test_a_file_is_replaced_as_a_whole_with_its_mode(tmp_path: Path, is_synced: bool) -> None:
    (tmp_path / "f").write_text("old")
    (tmp_path / ".f.new").write_text("half")
    old = os.umask(0o077)
    try:
        with (tmp_path / "f").open() as reader, open_directory(tmp_path) as at:
            replace_file(at, "f", b"new", 0o644, is_synced=is_synced)
            assert (reader.read(), read_file(at, "f", 0o644)) == ("old", b"new")
    finally:
        os.umask(old)
    assert [(path.name, mode_of(path)) for path in tmp_path.iterdir()] == [("f", 0o644)]


def test_a_link_in_the_place_of_the_new_file_or_the_old_one_is_not_followed(tmp_path: Path) -> None:
    for name in ("f", ".f.new"):
        (tmp_path / name).symlink_to("victim")
    with open_directory(tmp_path) as at:
        replace_file(at, "f", b"new", 0o600, is_synced=False)
    assert [path.name for path in tmp_path.iterdir() if not path.is_symlink()] == ["f"]


def test_a_file_that_is_there_is_not_written_over(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("old")
    with open_directory(tmp_path) as at, pytest.raises(FileExistsError):
        write_file(at, "f", b"new", 0o600, is_synced=True)
    assert (tmp_path / "f").read_text() == "old"


@pytest.mark.parametrize("put", [lambda p: p.symlink_to("/etc/hostname"), os.mkfifo, Path.mkdir, Path.touch])
def test_only_a_regular_file_of_the_expected_mode_is_read(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "f")
    with open_directory(tmp_path) as at, pytest.raises(OSError, match="f"):
        read_file(at, "f", 0o600)


def test_a_linked_directory_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(OSError, match="link"), open_directory(tmp_path / "link"):
        pass
