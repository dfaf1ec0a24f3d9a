"""Write a directory of files atomically, in the layout of a kubelet ConfigMap volume (``config-agent`` does).

The files of one generation lie in a directory of their own. ``..data`` points to it, and readers open links through
``..data``: renaming one link over another changes all of them at once (rename(2)). Every step is on disk before the
next, so a power failure leaves the old generation or the new one.
"""

import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from cri_proxy.errors import FileError
from cri_proxy.in_force.symlinks import DATA_LINK
from cri_proxy.private_files import open_directory, read_file, shared_problem, write_file

_NEW_LINK = "..data_tmp"
_GENERATION = re.compile(r"\.\.\d{4}(_\d\d){5}\.\d{9}")
_DIRECTORY_MODE = 0o755
_FILE_MODE = 0o644


class VolumeError(FileError):
    """The directory cannot be written."""


def publish(directory: Path, files: Mapping[str, bytes]) -> bool:
    """Make the directory hold exactly these files, readable by all users; return False when it did already. Blocks.

    Creates a missing directory. Raises VolumeError, and has then changed nothing that readers see, for a target that is
    a link or that others could write to, and for a file of one of these names that this agent did not write.
    """
    try:
        with _opened(directory) as target:
            current = _current(directory, target)
            _refuse_foreign(directory, target, files)
            is_new = current is None or _content(target, current) != dict(files)
            if is_new:
                current = _write(target, files)
            # After ``..data``: until then a new link would dangle, and readers of the old generation need a stale one.
            is_new |= _link(target, files)
            # Last: whatever is interrupted before, the generation in force is whole.
            _clean(target, keep=current)
            os.fsync(target)
            return is_new
    except OSError as error:
        name = f" ({error.filename})" if isinstance(error.filename, str) else ""
        raise VolumeError(str(directory), f"cannot write: {error.strerror}{name}") from error


def published(directory: Path) -> dict[str, bytes] | None:
    """Return the files that were written last; None where there are none, or they cannot be read. Blocks."""
    with suppress(OSError, VolumeError), open_directory(directory) as target:
        current = _current(directory, target)
        return None if current is None else _content(target, current)
    return None


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """Yield a descriptor of the target; refuse one that another user can change."""
    directory.mkdir(mode=_DIRECTORY_MODE, parents=True, exist_ok=True)
    if directory.is_symlink():
        raise VolumeError(str(directory), "is a symbolic link: name the directory it leads to")
    with open_directory(directory) as target:
        problem = shared_problem(os.fstat(target), directory)
        if problem:
            raise VolumeError(str(directory), problem)
        yield target


def _read_link(target: int, name: str) -> str | None:
    """Return the target of this link; None when there is nothing, '' for what is no link."""
    try:
        return os.readlink(name, dir_fd=target)
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def _current(directory: Path, target: int) -> str | None:
    """Return the current generation; None when there is none."""
    name = _read_link(target, DATA_LINK)
    if name is not None and not _GENERATION.fullmatch(name):
        raise VolumeError(str(directory / DATA_LINK), "was not written by cri-proxy config-agent: remove it")
    return name


def _refuse_foreign(directory: Path, target: int, files: Mapping[str, bytes]) -> None:
    """Raise VolumeError for an entry of one of these names that is not a link through ``..data``."""
    for name in files:
        if _read_link(target, name) not in (None, f"{DATA_LINK}/{name}"):
            raise VolumeError(str(directory / name), "was not written by cri-proxy config-agent: remove it")


def _content(target: int, generation: str) -> dict[str, bytes] | None:
    """Return the files of a generation; None when one cannot be read or was changed by hand."""
    try:
        with open_directory(generation, target) as inside:
            return {name: read_file(inside, name, _FILE_MODE) for name in os.listdir(inside)}  # noqa: PTH208 - a descriptor
    except OSError:
        return None


def _write(target: int, files: Mapping[str, bytes]) -> str:
    """Write a new generation, point ``..data`` at it, and return its name."""
    now = time.time_ns()
    name = time.strftime("..%Y_%m_%d_%H_%M_%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}"
    os.mkdir(name, dir_fd=target)
    with open_directory(name, target) as inside:
        # Whatever the umask: other users may read the volume.
        os.fchmod(inside, _DIRECTORY_MODE)
        for file_name, content in files.items():
            write_file(inside, file_name, content, _FILE_MODE, is_synced=True)
        # The names too, before a link leads to them: fsync(2) of a file does not write its directory entry.
        os.fsync(inside)
    with suppress(FileNotFoundError):  # left by a process that was killed between the next two lines
        os.unlink(_NEW_LINK, dir_fd=target)
    os.symlink(name, _NEW_LINK, dir_fd=target)
    os.rename(_NEW_LINK, DATA_LINK, src_dir_fd=target, dst_dir_fd=target)
    os.fsync(target)
    return name


def _link(target: int, files: Mapping[str, bytes]) -> bool:
    """Create the links that readers open and remove those of files that are gone; return whether any changed."""
    names = set(os.listdir(target))
    missing = sorted(files.keys() - names)
    stale = sorted(n for n in names - files.keys() if _read_link(target, n) == f"{DATA_LINK}/{n}")
    for name in missing:
        os.symlink(f"{DATA_LINK}/{name}", name, dir_fd=target)
    for name in stale:
        os.unlink(name, dir_fd=target)
    return bool(missing or stale)


def _clean(target: int, *, keep: str | None) -> None:
    """Remove all other generations: older ones, and what a killed process left."""
    for name in os.listdir(target):
        if _GENERATION.fullmatch(name) and name != keep:
            shutil.rmtree(name, dir_fd=target)
