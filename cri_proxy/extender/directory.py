"""A directory with a file for each node, named like it: what nodes publish, where the scheduler sends only names."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.foreign_files.beneath import DirectoryBeneath, FileBeneath, FileRefused, open_beneath
from cri_proxy.link_file import read_link_text
from cri_proxy.yaml_fields import DocumentError
from policies.links.annotation import link_annotation
from policies.links.matrix import LinkError

# The name of a node is a DNS subdomain (RFC 1123), so that it is a file name, and none with a dot in front.
_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_DIALECT: Final = Dialect(max_bytes=1 << 20, max_depth=20, max_nodes=100_000)


@dataclass(frozen=True, slots=True)
class FileWord:
    """The word of a file, or why there is none."""

    word: str = ""
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _SeenFile:
    """What a file said, and the stamp by which a change of it is seen."""

    stamp: tuple[int, ...]
    found: FileWord


class LinkDirectory:
    """Reads files of words or of matrices. Kept until a file changes; looked at with each question, so never stale."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._path = path
        self._kept: dict[str, _SeenFile] = {}

    @property
    def path(self) -> Path:
        """The directory."""
        return self._path

    def words(self, names: Iterable[str]) -> Mapping[str, FileWord]:
        """Return what the files of these nodes say; a node without a file is left out. Blocks."""
        names = [name for name in names if _NAME.fullmatch(name)]
        try:
            with open_beneath(self._path) as directory:
                return {name: found for name in names if (found := self._word(directory, name)) is not None}
        except (FileNotFoundError, NotADirectoryError):
            self._kept.clear()
            return {}
        except OSError as error:
            return dict.fromkeys(names, FileWord(problem=f"{self._path}: cannot be read: {error.strerror}"))

    def _word(self, directory: DirectoryBeneath, name: str) -> FileWord | None:
        path = self._path / name
        try:
            with directory.file(name) as file:
                kept = self._kept.get(name)
                if kept is None or kept.stamp != file.stamp:
                    kept = self._kept[name] = _SeenFile(file.stamp, _read(file, path))
                return kept.found
        except FileNotFoundError:
            self._kept.pop(name, None)
            return None
        except OSError as error:
            return FileWord(problem=f"{path}: cannot be read: {error.strerror}")
        except FileRefused as error:
            return FileWord(problem=str(DocumentError(str(path), error.line, error.problem)))


def _read(file: FileBeneath, path: Path) -> FileWord:
    """Return the word of a file with a matrix in a form of ``cri-proxy gpu``, which the word itself is too.

    Raises OSError and FileRefused.
    """
    text = file.text(_DIALECT.max_bytes)
    try:
        return FileWord(link_annotation(read_link_text(text, str(path), _DIALECT)))
    except (DocumentError, LinkError) as error:
        return FileWord(problem=str(error))
