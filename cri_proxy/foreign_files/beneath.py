"""Read regular files beneath a directory into which others write; no link leads out of it.

Links inside it count, as those of a ConfigMap volume do: ``NAME -> ..data/NAME``, ``..data -> ..2026_01_02_…``. The
rules are those of openat2(2) with RESOLVE_BENEATH.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.errors import CriProxyError
from cri_proxy.yaml_fields import read_bounded

# O_PATH opens no device, waits for no pipe, and shows a link itself together with O_NOFOLLOW (open(2)).
_NAME: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY: Final = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_LISTED: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, opening would wait while another process holds a lease on the file (fcntl(2)).
_CONTENT: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
# Links and directories to a file; a ConfigMap volume has four.
_MOST_NAMES: Final = 40


@dataclass(eq=False)
class FileRefused(CriProxyError):
    """A file that is not read: why, with the remedy. ``line`` of its text, 0 = unknown."""

    problem: str
    line: int = 0


class NotRegular(FileRefused):
    """A directory, a pipe, a socket or a device."""


@dataclass(frozen=True, slots=True)
class FileBeneath:
    """A regular file by a descriptor that does not read; ``status`` is of this very file."""

    descriptor: int
    status: os.stat_result

    @property
    def stamp(self) -> tuple[int, ...]:
        """Another one where the file was replaced or written."""
        # Not its time alone: files that a package manager or a copy puts there may all have the same.
        found = self.status
        return (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)

    def read(self, most_bytes: int) -> bytes:
        """Return the content, cut after so many bytes. Raises OSError."""
        # The name may be another file's by now; this one is what the descriptor stands for (proc_pid_fd(5)).
        with os.fdopen(os.open(f"/proc/self/fd/{self.descriptor}", _CONTENT), "rb") as file:
            return read_bounded(file, most_bytes)

    def text(self, most_bytes: int, shorter: str = "leave out what is not needed") -> str:
        """Return the text; ``shorter`` is the remedy for a larger file. Raises OSError and FileRefused."""
        data = self.read(most_bytes + 1)
        if len(data) > most_bytes:
            raise FileRefused(f"larger than {most_bytes} bytes: {shorter}")
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise FileRefused("not UTF-8: save it as UTF-8 text", data.count(b"\n", 0, error.start) + 1) from None


class DirectoryBeneath:
    """A directory by its descriptor."""

    def __init__(self, descriptor: int) -> None:
        """``descriptor`` stays the caller's."""
        self._descriptor = descriptor

    @property
    def status(self) -> os.stat_result:
        """The result of stat(2) of the directory."""
        return os.fstat(self._descriptor)

    @property
    def is_read_only(self) -> bool:
        """Whether it is mounted so."""
        return bool(os.fstatvfs(self._descriptor).f_flag & os.ST_RDONLY)

    def names(self, inside: str = ".") -> Iterator[str]:
        """Yield the names in the directory, or in one beneath it, in any order. Raises OSError and FileRefused."""
        with self._found(inside) as found:
            descriptor = os.open(".", _LISTED, dir_fd=found)
        try:
            with os.scandir(descriptor) as entries:
                for entry in entries:
                    yield entry.name
        finally:
            os.close(descriptor)

    @contextmanager
    def file(self, name: str) -> Iterator[FileBeneath]:
        """Yield the file of this name, or at this path beneath.

        Raises FileNotFoundError where no such name is there, FileRefused for a link that leads nowhere or out of the
        directory and for anything but a regular file, OSError for what the kernel refuses.
        """
        with self._found(name) as descriptor:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise NotRegular("is not a regular file: put one there, or remove it")
            yield FileBeneath(descriptor, status)

    @contextmanager
    def _found(self, name: str) -> Iterator[int]:
        """Yield a descriptor of what this name leads to."""
        # Name by name, as Python has no openat2, nor have kernels before 5.6 and the seccomp filters of some runtimes.
        way, ahead, has_links = [self._descriptor], name.split("/")[::-1], False
        with ExitStack() as opened:
            for _ in range(_MOST_NAMES):
                part = ahead.pop()
                if part not in ("", ".", ".."):
                    descriptor = _opened(part, way[-1], has_links=has_links)
                    opened.callback(os.close, descriptor)
                    if not _is(stat.S_IFLNK, descriptor):
                        way.append(descriptor)
                    else:
                        has_links, target = True, os.readlink("", dir_fd=descriptor)
                        ahead += target.split("/")[::-1]
                        # RESOLVE_BENEATH refuses each absolute link, wherever it leads.
                        if target.startswith("/"):
                            way.clear()
                elif not _is(stat.S_IFDIR, way[-1]):
                    raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
                elif part == "..":
                    # The kernel's ".." is another directory where ours has been moved out meanwhile.
                    way.pop()
                if not way:
                    raise FileRefused("is a link that leads out of its directory: put the file itself there")
                if not ahead:
                    yield way[-1]
                    return
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)


def _is(kind: int, descriptor: int) -> bool:
    return stat.S_IFMT(os.fstat(descriptor).st_mode) == kind


def _opened(part: str, directory: int, *, has_links: bool) -> int:
    try:
        return os.open(part, _NAME, dir_fd=directory)
    except FileNotFoundError:
        if has_links:
            raise FileRefused("is a link that leads nowhere: remove it") from None
        raise


@contextmanager
def open_beneath(directory: Path) -> Iterator[DirectoryBeneath]:
    """Yield this directory. Links on the way to it are followed: its path is the operator's. Raises OSError."""
    descriptor = os.open(directory, _DIRECTORY)
    try:
        yield DirectoryBeneath(descriptor)
    finally:
        os.close(descriptor)


def read_text(path: Path, most_bytes: int) -> str:
    """Return the text of the file at this path, read beneath its directory. Raises OSError and FileRefused."""
    with open_beneath(path.parent) as directory, directory.file(path.name) as file:
        return file.text(most_bytes)
