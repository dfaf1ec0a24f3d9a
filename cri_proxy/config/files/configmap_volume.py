"""A directory of files that changes as a whole, as the kubelet writes a ConfigMap volume.

The files of one generation lie in a directory of their own; ``..data`` leads to it, and what readers open are links
through ``..data``: renaming one link over another changes all of them at once (rename(2)). Every step is on disk
before the next, so a power failure leaves the old generation or the new one. All names are looked up below one open
directory: nobody who swaps a part of the path meanwhile leads us elsewhere.
"""

import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.config.files.symlinks import DATA_LINK
from cri_proxy.errors import CriProxyError

_NEW_LINK = "..data_tmp"
_GENERATION = re.compile(r"\.\.\d{4}(_\d\d){5}\.\d{9}")
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(eq=False)
class VolumeError(CriProxyError):
    """The directory cannot be written: what, and the problem with its remedy."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def publish(directory: Path, files: Mapping[str, bytes]) -> bool:
    """Make the directory hold exactly these files, readable by everybody; False when it did already. Blocks.

    The directory is made where it is missing. Raises VolumeError, and has then changed nothing that readers see: for
    a target that is a link, or that others could write to, and for a name that stands there and is none of ours.
    """
    try:
        with _opened(directory) as target:
            current = _current(directory, target)
            _refuse_foreign(directory, target, files)
            is_new = current is None or _content(target, current) != dict(files)
            if is_new:
                current = _write(target, files)
            is_new |= _link(target, files)
            _clean(target, keep=current)
            os.fsync(target)
            return is_new
    except OSError as error:
        name = f" ({error.filename})" if isinstance(error.filename, str) else ""
        raise VolumeError(str(directory), f"cannot write: {error.strerror}{name}") from error


@contextmanager
def _opened(directory: Path) -> Iterator[int]:
    """A descriptor of the target, if nobody but root and us can change it."""
    directory.mkdir(mode=0o755, parents=True, exist_ok=True)
    if directory.is_symlink():
        raise VolumeError(str(directory), "is a symbolic link: name the directory it leads to")
    target = os.open(directory, _DIRECTORY)
    try:
        status = os.fstat(target)
        if status.st_uid not in (0, os.geteuid()):
            raise VolumeError(str(directory), f"belongs to user {status.st_uid}: chown it to root")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            mode = stat.S_IMODE(status.st_mode)
            raise VolumeError(str(directory), f"has mode {mode:04o}, others may write to it: chmod go-w {directory}")
        yield target
    finally:
        os.close(target)


def _read_link(target: int, name: str) -> str | None:
    """Where this link leads; None when there is nothing, '' for what is no link."""
    try:
        return os.readlink(name, dir_fd=target)
    except FileNotFoundError:
        return None
    except OSError:
        return ""


def _current(directory: Path, target: int) -> str | None:
    """The generation that is in force; None when there is none."""
    name = _read_link(target, DATA_LINK)
    if name is not None and not _GENERATION.fullmatch(name):
        raise VolumeError(str(directory / DATA_LINK), "was not written by cri-proxy config-agent: remove it")
    return name


def _refuse_foreign(directory: Path, target: int, files: Mapping[str, bytes]) -> None:
    """Raise where a file of one of these names stands that is none of our links."""
    for name in files:
        if _read_link(target, name) not in (None, f"{DATA_LINK}/{name}"):
            raise VolumeError(str(directory / name), "was not written by cri-proxy config-agent: remove it")


def _content(target: int, generation: str) -> dict[str, bytes] | None:
    """The files of a generation; None when it cannot be read, or holds more than files."""
    try:
        inside = os.open(generation, _DIRECTORY, dir_fd=target)
    except OSError:
        return None
    try:
        return {name: _bytes(inside, name) for name in os.listdir(inside)}  # noqa: PTH208 - a descriptor
    except OSError:
        return None
    finally:
        os.close(inside)


def _bytes(inside: int, name: str) -> bytes:
    with os.fdopen(os.open(name, _READ, dir_fd=inside), "rb") as file:
        return file.read()


def _write(target: int, files: Mapping[str, bytes]) -> str:
    """A new generation, with ``..data`` leading to it; its name."""
    now = time.time_ns()
    name = time.strftime("..%Y_%m_%d_%H_%M_%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}"
    os.mkdir(name, dir_fd=target)
    inside = os.open(name, _DIRECTORY, dir_fd=target)
    try:
        os.fchmod(inside, 0o755)
        for file_name, content in files.items():
            with os.fdopen(os.open(file_name, _NEW_FILE, 0o644, dir_fd=inside), "wb") as file:
                os.fchmod(file.fileno(), 0o644)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        os.fsync(inside)
    finally:
        os.close(inside)
    with suppress(FileNotFoundError):  # of a process that ended between the next two lines
        os.unlink(_NEW_LINK, dir_fd=target)
    os.symlink(name, _NEW_LINK, dir_fd=target)
    os.rename(_NEW_LINK, DATA_LINK, src_dir_fd=target, dst_dir_fd=target)
    os.fsync(target)
    return name


def _link(target: int, files: Mapping[str, bytes]) -> bool:
    """Make the links that readers open, remove those that lead nowhere any more; whether there was anything to do."""
    names = set(os.listdir(target))
    missing = sorted(files.keys() - names)
    stale = sorted(n for n in names - files.keys() if _read_link(target, n) == f"{DATA_LINK}/{n}")
    for name in missing:
        os.symlink(f"{DATA_LINK}/{name}", name, dir_fd=target)
    for name in stale:
        os.unlink(name, dir_fd=target)
    return bool(missing or stale)


def _clean(target: int, *, keep: str | None) -> None:
    """Remove the generations before this one, and what a process that was killed has left."""
    for name in os.listdir(target):
        if _GENERATION.fullmatch(name) and name != keep:
            shutil.rmtree(name, dir_fd=target)
