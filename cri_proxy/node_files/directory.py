"""Read the files of a directory, or one file, as texts within bounds; list what to watch to notice changes."""

import os
import stat
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.config.files.symlinks import ANY, directories_to_watch, of_one_generation
from cri_proxy.private_files import shared_problem

SUFFIXES: Final = (".yaml", ".json")
MAX_FILES: Final = 64
MAX_FILE_BYTES: Final = 1 << 20
"""As a ConfigMap holds. What the kernel says of 1,792 CPUs, written with ranges, is a tenth of it."""
MAX_BYTES: Final = 4 << 20
"""Of all files together."""
MAX_ENTRIES: Final = 4096
"""Names in the directory, of other files too."""

_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
# Without O_NONBLOCK, opening a pipe would wait until a process writes to it.
_FILE: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class TextFile:
    """A file's text, or the ``problem`` why it cannot be read ('' = it can), with its ``line`` (0 = unknown)."""

    name: str
    text: str
    problem: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class FoundFiles:
    """The files of a directory by name, or the one at a path.

    ``problem`` is why the directory cannot be read ('' = it can, or there is none). ``is_one``: the path is the file's.
    """

    path: Path
    files: tuple[TextFile, ...] = ()
    problem: str = ""
    is_one: bool = False

    def place(self, name: str) -> Path:
        """Return the path of a file of this name."""
        return self.path if self.is_one else self.path / name


class _Unreadable(Exception):
    """Why a file or directory is not read."""


@dataclass(frozen=True, slots=True)
class _Remedies:
    """What to do about something that is no file, and about a file that is too large."""

    odd: str
    large: str


_OF_MANY: Final = _Remedies("remove it", "write ranges of names, or several files")
_OF_ONE: Final = _Remedies("put a file there, or name another one", "leave out what no pod asks for")


def read_directory(path: Path) -> FoundFiles:
    """Return the cost files that are there now, all of one generation of a ConfigMap volume. Blocks on the disk.

    A missing directory has no files. Links are followed, what they lead to counts.
    """
    return of_one_generation(path, lambda: _read(path))


def read_one(path: Path) -> FoundFiles:
    """Return the file at this path, of one generation of the ConfigMap volume that it is in. Blocks on the disk.

    One that is missing has a problem: it was named. Links are followed, and only root may write to what they lead to.
    """
    return of_one_generation(path.parent, lambda: FoundFiles(path, (_one(path),), is_one=True))


def file_lookups(path: Path) -> dict[Path, frozenset[str]]:
    """Return the directories on the way to this file, with the names that matter. Blocks. It may appear later."""
    return {directory: frozenset(names) for directory, names in directories_to_watch([path]).items()}


def directory_lookups(path: Path) -> dict[Path, frozenset[str]]:
    """Return the directories on the way to this one and those that hold its files, with the names that matter. Blocks.

    The directory may appear later, or be replaced.
    """
    found = directories_to_watch([path, *(path / name for name in _names_now(path))])
    real = Path(os.path.realpath(path))
    if real.is_dir():
        found.setdefault(real, set()).add(ANY)
    return {directory: frozenset(names) for directory, names in found.items()}


def _names_now(path: Path) -> tuple[str, ...]:
    try:
        return _names(path)
    except (OSError, _Unreadable):
        return ()


def _read(path: Path) -> FoundFiles:
    try:
        descriptor = os.open(path, _DIRECTORY)
    except FileNotFoundError:
        return FoundFiles(path)
    except OSError as error:
        return FoundFiles(path, problem=f"cannot be read: {error.strerror}")
    try:
        _refuse_shared(descriptor, path)
        return FoundFiles(path, tuple(_files(descriptor, path)))
    except _Unreadable as error:
        return FoundFiles(path, problem=str(error))
    except OSError as error:
        return FoundFiles(path, problem=f"cannot be read: {error.strerror}")
    finally:
        os.close(descriptor)


def _refuse_shared(descriptor: int, path: Path) -> None:
    """Raise for a directory into which others than root and this user may put files."""
    # The kubelet makes the directories of its volumes with mode 0777, and mounts those of ConfigMaps read-only.
    if os.fstatvfs(descriptor).f_flag & os.ST_RDONLY:
        return
    problem = shared_problem(os.fstat(descriptor), path)
    if problem:
        raise _Unreadable(problem)


def _names(path: int | Path) -> tuple[str, ...]:
    """Return the names of cost files, in order: neither hidden files nor what editors leave (``a.yaml~``, ``#a#``)."""
    found, entries = [], 0
    with closing(os.scandir(path)) as listed:
        for entry in listed:
            entries += 1
            if entries > MAX_ENTRIES:
                raise _Unreadable(f"has more than {MAX_ENTRIES} files: keep only cost files there")
            if entry.name.endswith(SUFFIXES) and not entry.name.startswith("."):
                found.append(entry.name)
    return tuple(sorted(found))


def _files(descriptor: int, path: Path) -> Iterator[TextFile]:
    """Yield the files of a directory. Raises OSError and _Unreadable for the directory itself."""
    left = MAX_BYTES
    for number, name in enumerate(_names(descriptor), start=1):
        try:
            if number > MAX_FILES:
                raise _Unreadable(
                    f"more than {MAX_FILES} cost files; those after it in the order of names are not read"
                )
            data = _content(descriptor, name, path / name, _OF_MANY)
            left -= len(data)
            if left < 0:
                raise _Unreadable(f"the cost files up to this one have more than {MAX_BYTES} bytes; write ranges")
            yield _decoded(name, data)
        except FileNotFoundError:
            if _is_there(descriptor, name):  # else removed since
                yield TextFile(name, "", "is a link that leads nowhere: remove it")
        except (_Unreadable, OSError) as error:
            yield TextFile(name, "", _reason(error))


def _one(path: Path) -> TextFile:
    try:
        descriptor = os.open(path.parent, _DIRECTORY)
    except OSError as error:
        return TextFile(path.name, "", _reason(error))
    try:
        return _decoded(path.name, _content(descriptor, path.name, path, _OF_ONE))
    except (OSError, _Unreadable) as error:
        return TextFile(path.name, "", _reason(error))
    finally:
        os.close(descriptor)


def _reason(error: OSError | _Unreadable) -> str:
    return f"cannot be read: {error.strerror}" if isinstance(error, OSError) else str(error)


def _is_there(descriptor: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=descriptor, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _content(descriptor: int, name: str, path: Path, remedies: _Remedies) -> bytes:
    """Return a file's content. Raises OSError, and _Unreadable for anything but a file that only root may change."""
    file = os.open(name, _FILE, dir_fd=descriptor)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise _Unreadable(f"is not a regular file: {remedies.odd}")
        problem = shared_problem(status, path)
        if problem:
            raise _Unreadable(problem)
        with os.fdopen(file, "rb", closefd=False) as opened:
            data = opened.read(MAX_FILE_BYTES + 1)
    finally:
        os.close(file)
    if len(data) > MAX_FILE_BYTES:
        raise _Unreadable(f"larger than {MAX_FILE_BYTES} bytes: {remedies.large}")
    return data


def _decoded(name: str, data: bytes) -> TextFile:
    try:
        return TextFile(name, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        return TextFile(name, "", f"not UTF-8: byte {data[error.start]:#04x}; save it as UTF-8 text", line)
