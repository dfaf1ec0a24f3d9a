"""What files of a directory say, each parsed again when it changes. Reads files: not on the loop."""

from collections.abc import Callable, Collection
from pathlib import Path
from typing import Generic, TypeVar

from cri_proxy.foreign_files.beneath import DirectoryBeneath, FileBeneath

T = TypeVar("T")


class ParsedFiles(Generic[T]):
    """Files that are looked at with each question, so that none is stale; ``parse`` may raise OSError, FileRefused."""

    def __init__(self, parse: Callable[[FileBeneath, Path], T]) -> None:
        """Read nothing yet."""
        self._parse = parse
        self._known: dict[Path, tuple[tuple[int, ...], T]] = {}

    def of(self, directory: DirectoryBeneath, path: Path) -> T:
        """Return what the file at this path of the directory says now. Raises OSError and FileRefused."""
        with directory.file(path.name) as file:
            known = self._known.get(path)
            if known is None or known[0] != file.stamp:
                known = self._known[path] = (file.stamp, self._parse(file, path))
            return known[1]

    def keep(self, paths: Collection[Path]) -> None:
        """Forget all files but these."""
        self._known = {path: known for path, known in self._known.items() if path in paths}
