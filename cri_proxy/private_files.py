"""The state directory and the files in it: made private, and refused when somebody else could have changed them."""

import errno
import os
import stat
from pathlib import Path
from typing import Final

from cri_proxy.errors import StoreError, StoreUnavailable

_DISK: Final = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO})
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


def _refuse_shared(path: Path, status: os.stat_result, kind: str) -> None:
    """Raise StoreError for what group or others may write, or another user owns."""
    if status.st_uid not in (0, os.geteuid()):
        raise StoreError(
            str(path), f"{kind} belongs to user {status.st_uid}: expected root or the user of this process; chown it"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise StoreError(str(path), f"{kind} has mode {mode:04o}, others may write to it: chmod go-w {path}")


def private_directory(path: Path) -> None:
    """Make this directory (mode 0700) or check the one that is there; missing parents are made too.

    Raises StoreError for a symlink, something that is no directory, and one that others may write to.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise StoreError(str(path), f"cannot make the state directory: {error.strerror}") from error
    if stat.S_ISLNK(status.st_mode):
        raise StoreError(str(path), "state directory is a symbolic link: name the directory it leads to")
    _refuse_shared(path, status, "state directory")


def open_private(path: Path, flags: int) -> int:
    """A file descriptor of this file, created with mode 0600 if absent. The caller closes it.

    Raises StoreError for a symlink, anything but a regular file, and one that others may write to; StoreUnavailable
    where the disk is full, read-only or broken.
    """
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, _FILE_MODE)
    except OSError as error:
        if path.is_symlink():
            raise StoreError(str(path), "is a symbolic link: remove it, or name what it leads to") from error
        kind = StoreUnavailable if error.errno in _DISK else StoreError
        raise kind(str(path), f"cannot open: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(str(path), "is not a regular file: remove it")
        _refuse_shared(path, status, "file")
    except StoreError:
        os.close(descriptor)
        raise
    return descriptor


def check_private(path: Path) -> None:
    """Make this file if it is absent; raises StoreError as ``open_private`` does."""
    os.close(open_private(path, os.O_RDWR))
