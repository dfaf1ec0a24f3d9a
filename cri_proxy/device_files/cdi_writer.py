"""Write CDI specifications into a directory: each whole or not at all, and none over a file of others.

A file is ours where its content is what ``CdiFile.text`` writes: no byte of a person or another tool is lost. Of two
files of one directory that declare a device neither counts (CDI specification, SPEC.md), so nothing is written beside
such a file.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from io import BytesIO
from pathlib import Path
from typing import Final

from cri_proxy.cri.devices.cdi_files import CdiFile, is_own_text
from cri_proxy.device_files.cdi import MAX_FILE_BYTES, specs_in
from cri_proxy.errors import CriProxyError
from cri_proxy.private_files import open_directory, replace_file

_MODE: Final = 0o644
_DIRECTORY_MODE: Final = 0o755
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class FileChange(StrEnum):
    """The change of a file."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class ChangedFile:
    """A file of the directory, and what became of it."""

    name: str
    change: FileChange


class NotWritten(CriProxyError):
    """Why nothing was written: a sentence that begins with a path, and has the remedy."""


def write_specifications(directory: Path, files: Sequence[CdiFile], names: Iterable[str]) -> tuple[ChangedFile, ...]:
    """Write these files, and remove those of ``names`` that are ours and have no device now. Blocks.

    The directory is made where it is missing. Raises NotWritten before anything is written, and OSError.
    """
    directory.mkdir(_DIRECTORY_MODE, parents=True, exist_ok=True)
    wanted = {file.name: file.text.encode() for file in files}
    with open_directory(directory) as at:
        there = {name: _own_content(directory, at, name) for name in sorted({*names, *wanted})}
        _check_others(directory, files, frozenset(there))
        return tuple(
            _changed(at, name, there[name], wanted.get(name)) for name in there if there[name] or name in wanted
        )


def _changed(at: int, name: str, before: bytes | None, after: bytes | None) -> ChangedFile:
    if after is None:
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=at)
        return ChangedFile(name, FileChange.REMOVED)
    if before == after:
        return ChangedFile(name, FileChange.UNCHANGED)
    replace_file(at, name, after, _MODE, is_synced=True)
    return ChangedFile(name, FileChange.WRITTEN)


def _own_content(directory: Path, at: int, name: str) -> bytes | None:
    """Return the content of a file that is ours, None where there is none. Raises NotWritten for one of others."""
    try:
        descriptor = os.open(name, _READ, dir_fd=at)
    except FileNotFoundError:
        return None
    except OSError:  # a link, above all
        content = b""
    else:
        try:
            is_regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
            with os.fdopen(descriptor, "rb", closefd=False) if is_regular else BytesIO() as file:
                content = file.read(MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    if not is_own_text(content.decode("utf-8", "replace")):
        raise NotWritten(f"{directory / name}: not written by cri-proxy devices cdi, or changed since: move it away")
    return content


def _check_others(directory: Path, files: Iterable[CdiFile], own: frozenset[str]) -> None:
    """Raise NotWritten where another file of the directory declares one of these devices."""
    wanted = [f"{file.kind}={device.name}" for file in files for device in file.devices]
    for name, spec in specs_in(directory).items():
        both = [] if name in own else [device for device in wanted if device in spec.devices]
        if both:
            remedy = "of two files in one directory neither counts: remove it there"
            raise NotWritten(f"{directory / name}: declares {both[0]} too; {remedy}")
