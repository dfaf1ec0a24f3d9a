"""The content of a directory's files, each parsed again when it changes. Reads files: not on the loop."""

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
        self.known: dict[Path, tuple[tuple[int, ...], T]] = {}
        """Each file as it was parsed, with its stamp then."""

    def of(self, directory: DirectoryBeneath, path: Path) -> T:
        """Return what the file at this path of the directory says now. Raises OSError and FileRefused."""
        with directory.file(path.name) as file:
            known = self.known.get(path)
            if known is None or known[0] != file.stamp:
                known = self.known[path] = (file.stamp, self._parse(file, path))
            return known[1]

    def keep(self, paths: Collection[Path]) -> None:
        """Forget all files but these."""
        self.known = {path: known for path, known in self.known.items() if path in paths}
