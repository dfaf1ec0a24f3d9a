"""Make, check, read and replace files that only root and this process may change, without following symlinks.

The functions that raise StoreError are for the state directory. The others raise OSError and work below a directory's
descriptor, so that swapping a part of the path meanwhile cannot redirect them.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from cri_proxy.errors import StoreError, StoreUnavailable

_DISK: Final = frozenset({errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EIO})
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: to open a FIFO in the place of the file would wait for its writer.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Larger than any file that is read back here: a ConfigMap holds 1 MiB.
_LARGEST_BYTES = 1 << 20


def shared_problem(status: os.stat_result, path: str | Path) -> str:
    """Return why others could change the file of this status, with the remedy; '' where they could not."""
    if status.st_uid not in (0, os.geteuid()):
        return f"belongs to user {status.st_uid}: expected root or the user of this process; chown it"
    mode = stat.S_IMODE(status.st_mode)
    if mode & (stat.S_IWGRP | stat.S_IWOTH):
        return f"has mode {mode:04o}, others may write to it: chmod go-w {path}"
    return ""


@contextmanager
def open_directory(path: str | Path, at: int | None = None) -> Iterator[int]:
    """Yield a descriptor of this directory, which may not be a link; below the descriptor ``at`` where given."""
    descriptor = os.open(path, _OPEN_DIRECTORY, dir_fd=at)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_file(at: int, name: str, mode: int) -> bytes:
    """Return the content of a regular file of this mode in a directory, cut after 1 MiB.

    Raises OSError, for a link and for anything else too.
    """
    descriptor = os.open(name, _READ, dir_fd=at)
    try:
        found = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(found) or stat.S_IMODE(found) != mode:
            raise OSError(errno.EINVAL, f"expected a regular file of mode {mode:04o}", name)
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            return file.read(_LARGEST_BYTES + 1)
    finally:
        os.close(descriptor)


def write_file(at: int, name: str, content: bytes, mode: int, *, is_synced: bool) -> None:
    """Write a file that is not in this directory yet, with this mode whatever the umask.

    ``is_synced``: the content is on the disk when this returns; its name is once the directory is synced.
    """
    with os.fdopen(os.open(name, _CREATE, mode, dir_fd=at), "wb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(content)
        if is_synced:
            file.flush()
            os.fsync(file.fileno())


def replace_file(at: int, name: str, content: bytes, mode: int, *, is_synced: bool) -> None:
    """Replace a file of this directory as a whole (rename(2)): a reader finds the old or the new one.

    ``is_synced``: this holds after a crash too, and the new file is on the disk when this returns.
    """
    temporary = f".{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(temporary, dir_fd=at)  # an earlier attempt was interrupted
    write_file(at, temporary, content, mode, is_synced=is_synced)
    os.rename(temporary, name, src_dir_fd=at, dst_dir_fd=at)
    if is_synced:
        os.fsync(at)  # the rename itself: a crash could bring the old file back


def put_file(path: Path, content: bytes, mode: int, *, is_synced: bool) -> bool:
    """Replace a file as a whole (``replace_file``); return False where it had this content and mode, and is left alone.

    Its directory may not be a link. Raises OSError.
    """
    with open_directory(path.parent) as at:
        if _has_content(at, path.name, content, mode):
            return False
        replace_file(at, path.name, content, mode, is_synced=is_synced)
    return True


def _has_content(at: int, name: str, content: bytes, mode: int) -> bool:
    try:
        return read_file(at, name, mode) == content
    except OSError:  # absent, or something else in its place, which is replaced
        return False


def _refuse_shared(path: Path, status: os.stat_result, kind: str) -> None:
    problem = shared_problem(status, path)
    if problem:
        raise StoreError(str(path), f"{kind} {problem}")


def private_directory(path: Path) -> None:
    """Make this directory (mode 0700) or check the one that is there; missing parents are made too.

    Raises StoreError for a symlink, something that is no directory, and one that others may write to.
    """
    try:
        if not os.path.lexists(path):  # on a frozen disk mkdir(2) waits also where there is nothing to make
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        status = path.lstat()
    except OSError as error:
        raise StoreError(str(path), f"cannot make the state directory: {error.strerror}") from error
    if stat.S_ISLNK(status.st_mode):
        raise StoreError(str(path), "state directory is a symbolic link: name the directory it leads to")
    if not stat.S_ISDIR(status.st_mode):
        raise StoreError(str(path), f"cannot make the state directory: {os.strerror(errno.EEXIST)}")
    _refuse_shared(path, status, "state directory")


def open_private(path: Path, flags: int) -> int:
    """Return a descriptor of this file, created with mode 0600 if absent. The caller closes it.

    Raises StoreError for a symlink, anything but a regular file, and one that others may write to; StoreUnavailable
    where the disk is full, read-only or broken.
    """
    flags |= os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        try:
            descriptor = os.open(path, flags)  # on a frozen disk O_CREAT waits also for a file that is there
        except FileNotFoundError:
            descriptor = os.open(path, flags | os.O_CREAT, _FILE_MODE)
    except OSError as error:
        if path.is_symlink():
            raise StoreError(str(path), "is a symbolic link: remove it, or name its target") from error
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
