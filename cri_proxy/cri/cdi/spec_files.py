"""Read CDI specification files: of /var/run/cdi before those of /etc/cdi, each again when it changes.

A device plugin or DRA driver writes them; the runtime adds the devices in them to containers. Source: the CDI
specification (cncf-tags/container-device-interface, SPEC.md), which names both directories and the two formats.
"""

import json
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from cri_proxy.bounded_yaml import Dialect, YamlError, parse_tree, plain

DIRECTORIES = ("var/run/cdi", "etc/cdi")
# Some drivers write a file for each ResourceClaim. Only root may write there: this bounds accidents.
MAX_FILES = 2048
MAX_FILE_BYTES = 4 << 20

T = TypeVar("T")
_Stamp = tuple[int, ...]  # of a file as stat(2) tells it, another one where it was replaced or written
_YAML = Dialect(MAX_FILE_BYTES, max_depth=32, max_nodes=500_000, has_aliases=True)


class SpecFiles(Generic[T]):
    """The specification files below a root. Reads files: not on the loop."""

    def __init__(self, root: Path, read: Callable[[object], T]) -> None:
        """``root`` holds ``etc/`` and ``var/``. ``read`` turns a file's parsed content, None for garbage, into T."""
        self._root = root
        self._read = read
        self._known: dict[Path, tuple[_Stamp, T]] = {}

    def __iter__(self) -> Iterator[tuple[Path, T]]:
        """Return what each file says, the stronger directory first; a file that cannot be opened is left out."""
        known: dict[Path, tuple[_Stamp, T]] = {}
        for directory in DIRECTORIES:
            try:
                files = sorted(p for p in (self._root / directory).iterdir() if p.suffix in (".json", ".yaml"))
            except OSError:
                continue
            for path in files[:MAX_FILES]:
                with suppress(OSError):
                    known[path] = self._of(path)
        self._known = known  # without files that are gone: those of claims come and go with their pods
        return ((path, value) for path, (_, value) in known.items())

    def _of(self, path: Path) -> tuple[_Stamp, T]:
        """Return what one file says. Raises OSError."""
        found = path.stat()
        # Not its time alone: files that a package manager or a copy puts there may all have the same.
        stamp = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known
        return stamp, self._read(_parsed(_content(path)) if stat.S_ISREG(found.st_mode) else None)


def _content(path: Path) -> bytes:
    """Return the content of a regular file, empty for one that is too long. Raises OSError."""
    # The file may have been replaced meanwhile: without O_NONBLOCK a FIFO would wait for its writer (fifo(7)).
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        found = os.fstat(file.fileno())
        # No more than it has: Python allocates at once what it is asked to read.
        fits = stat.S_ISREG(found.st_mode) and found.st_size <= MAX_FILE_BYTES
        return file.read(found.st_size) if fits else b""


def _parsed(content: bytes) -> object:
    """Parse JSON, else YAML; None when it is neither."""
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        try:
            value = plain(parse_tree(content.decode(), _YAML))
        except (YamlError, ValueError):
            return None
    return value
