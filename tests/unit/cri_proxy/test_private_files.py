"""Files of the state directory."""

import os
import stat
from pathlib import Path

import pytest

from cri_proxy.errors import StoreError
from cri_proxy.private_files import check_private, open_private, private_directory


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
