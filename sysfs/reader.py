"""The ``Tree`` interface, ``DirectoryTree`` on disk, and ``TreeReader``: typed reads, with notes on fallbacks taken.

Paths are relative to the root, with forward slashes (``sys/devices/system/cpu/online``). Whatever cannot be read or
parsed raises a SysfsError that names the path.
"""

import os
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from sysfs.cpuset import CpuSet, CpuSetError, NodeSet, shown
from sysfs.errors import FileMissing, SysfsError

# A sysfs attribute is one page, a CPU list of the largest kernels a few; /proc/meminfo is below two kilobytes.
MAX_FILE_BYTES = 1 << 16
_T = TypeVar("_T")


class Tree(Protocol):
    """A source of files: a directory, or an archive in memory. All methods raise OSError."""

    def read(self, path: str) -> bytes:
        """Return at most MAX_FILE_BYTES + 1 bytes of a file; links are followed."""

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, in any order."""

    def link(self, path: str) -> str:
        """Return the text of a symbolic link."""


class DirectoryTree:
    """A tree on disk: ``/``, or a directory that holds ``sys/`` and ``proc/``."""

    def __init__(self, root: Path) -> None:
        self._prefix = f"{root}/" if str(root) != "/" else "/"

    def read(self, path: str) -> bytes:
        """See Tree."""
        # Plain os calls: discovery of a large machine reads some fifteen thousand files.
        # O_NONBLOCK, so that a pipe in the place of a file does not hang.
        fd = os.open(self._prefix + path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            # Until nothing comes: seq_file returns a page or less for each read, though there is more.
            data = chunk = os.read(fd, MAX_FILE_BYTES + 1)
            while chunk and len(data) <= MAX_FILE_BYTES:
                chunk = os.read(fd, MAX_FILE_BYTES + 1 - len(data))
                data += chunk
        finally:
            os.close(fd)
        return data

    def names(self, path: str) -> list[str]:
        """See Tree."""
        return os.listdir(self._prefix + path)  # noqa: PTH208 - no Path objects on the hot path

    def link(self, path: str) -> str:
        """See Tree."""
        return os.readlink(self._prefix + path)  # noqa: PTH115 - as above


def _failure(path: str, expected: str, error: OSError) -> SysfsError:
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return FileMissing(path, expected, "no such file")
    return SysfsError(path, expected, f"the error {error.strerror or error}")


class TreeReader:
    """Typed reads of a tree, and notes on the fallbacks that were taken."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._notes: dict[str, None] = {}

    @property
    def notes(self) -> tuple[str, ...]:
        """The notes so far, each once, in order."""
        return tuple(self._notes)

    def note(self, sentence: str) -> None:
        """Add a note, unless it has been added before."""
        self._notes.setdefault(sentence)

    def text(self, path: str, expected: str = "a text file") -> str:
        """Return the content without surrounding white space. Raises FileMissing or SysfsError."""
        try:
            data = self._tree.read(path)
        except OSError as error:
            raise _failure(path, expected, error) from None
        if len(data) > MAX_FILE_BYTES:
            raise SysfsError(path, expected, f"more than {MAX_FILE_BYTES} bytes")
        if not data.isascii() or b"\0" in data:
            raise SysfsError(path, expected, f"the bytes {data[:20]!r}")
        return data.decode("ascii").strip()

    def integer(self, path: str, *, base: int = 10) -> int:
        """Return a whole number, possibly negative; base 16 accepts the prefix 0x. Raises SysfsError."""
        expected = "a number" if base == 10 else "a hexadecimal number"
        text = self.text(path, expected)
        try:
            # int() reads 1_000 as a number.
            if len(text) > 20 or "_" in text:
                raise ValueError
            return int(text, base)
        except ValueError:
            raise SysfsError(path, expected, shown(text)) from None

    def cpus(self, path: str) -> CpuSet:
        """Return a CPU list; an empty file is the empty set. Raises SysfsError."""
        text = self.text(path, "a CPU list")
        try:
            return CpuSet.parse(text)
        except CpuSetError as error:
            raise SysfsError(path, "a CPU list", f"{shown(text)} ({error.problem})") from None

    def nodes(self, path: str) -> NodeSet:
        """Return a NUMA node list; an empty file is the empty set. Raises SysfsError."""
        return NodeSet(self.cpus(path).mask)

    def optional(self, read: Callable[[str], _T], path: str, default: _T) -> _T:
        """Return what ``read`` returns for the path; the default without the file. Raises SysfsError."""
        try:
            return read(path)
        except FileMissing:
            return default

    def lenient(self, read: Callable[[str], _T], path: str, default: _T) -> _T:
        """Return what ``read`` returns for the path; the default without the file and, with a note, for its garbage."""
        try:
            return self.optional(read, path, default)
        except SysfsError as error:
            self.note(f"{error}; ignored")
            return default

    def names(self, path: str) -> list[str]:
        """Return the names in a directory, sorted; none when it does not exist. Raises SysfsError."""
        try:
            return sorted(self._tree.names(path))
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise _failure(path, "a directory", error) from None

    def numbered(self, path: str, prefix: str) -> list[int]:
        """Return the numbers of the entries ``prefix`` + number, ascending: of cpu0 and cpu1, but not of cpufreq."""
        rests = (name[len(prefix) :] for name in self.names(path) if name.startswith(prefix))
        return sorted(int(rest) for rest in rests if rest.isascii() and rest.isdigit() and len(rest) < 8)

    def link(self, path: str) -> str:
        """Return the target of a link as a path below the root; it need not exist. Raises SysfsError."""
        try:
            text = self._tree.link(path)
        except OSError as error:
            raise _failure(path, "a link", error) from None
        return posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
