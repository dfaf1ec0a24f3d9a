"""Read CDI specification files: of /var/run/cdi before those of /etc/cdi, each again when it changes.

A device plugin or DRA driver writes them; the runtime adds the devices in them to containers. Source: the CDI
specification (cncf-tags/container-device-interface, SPEC.md), which names both directories and the two formats.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from cri_proxy.bounded_yaml import Dialect, YamlError, parse_tree, plain
from cri_proxy.foreign_files.beneath import DirectoryBeneath, FileBeneath, FileRefused, open_beneath

DIRECTORIES = ("var/run/cdi", "etc/cdi")
# Some drivers write a file for each ResourceClaim. Only root may write there: this bounds accidents.
MAX_FILES = 2048
MAX_FILE_BYTES = 4 << 20

T = TypeVar("T")
_Stamp = tuple[int, ...]
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
        for place in DIRECTORIES:
            with suppress(OSError), open_beneath(self._root / place) as directory:
                names = sorted(name for name in directory.names() if Path(name).suffix in (".json", ".yaml"))
                for path in (self._root / place / name for name in names[:MAX_FILES]):
                    with suppress(OSError):
                        known[path] = self._of(directory, path)
        self._known = known  # without files that are gone: those of claims come and go with their pods
        return ((path, value) for path, (_, value) in known.items())

    def _of(self, directory: DirectoryBeneath, path: Path) -> tuple[_Stamp, T]:
        """Return what one file says; a refused one is garbage. Raises OSError."""
        try:
            with directory.file(path.name) as file:
                known = self._known.get(path)
                if known is not None and known[0] == file.stamp:
                    return known
                return file.stamp, self._read(_parsed(file))
        except FileRefused:
            return (), self._read(None)


def _parsed(file: FileBeneath) -> object:
    """Parse JSON, else YAML; None when it is neither, or too long. Raises OSError."""
    content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        return None
    try:
        value: object = json.loads(content)
    except (ValueError, RecursionError):
        try:
            value = plain(parse_tree(content.decode(), _YAML))
        except (YamlError, ValueError):
            return None
    return value
