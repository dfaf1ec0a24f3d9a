"""A directory with a file for each node, named like it: what nodes publish, where the scheduler sends only names."""

import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.link_file import as_link_document, read_link_document
from cri_proxy.yaml_fields import DocumentError, YamlField
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
    """What a file said, and the status by which a change of it is seen."""

    status: tuple[int, int, int]
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
        return {name: found for name in names if (found := self._word(name)) is not None}

    def _word(self, name: str) -> FileWord | None:
        if not _NAME.fullmatch(name):
            return None
        path = self._path / name
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            self._kept.pop(name, None)
            return None
        except OSError as error:
            return FileWord(problem=f"{path}: cannot be read: {error.strerror}")
        if not stat.S_ISREG(status.st_mode):
            return FileWord(problem=f"{path}: expected a file")
        seen = (status.st_mtime_ns, status.st_size, status.st_ino)
        kept = self._kept.get(name)
        if kept is None or kept.status != seen:
            kept = self._kept[name] = _SeenFile(seen, _read(path))
        return kept.found


def _read(path: Path) -> FileWord:
    """Return the word of a file with a matrix in a form of ``cri-proxy gpu``, which the word itself is too."""
    try:
        text = YamlField.read_text(str(path), _DIALECT.max_bytes)
        roots = list(YamlField.documents(as_link_document(text), str(path), _DIALECT))
        if len(roots) != 1:
            return FileWord(problem=f"{path}: {len(roots)} documents; expected the one of the node")
        return FileWord(link_annotation(read_link_document(roots[0])))
    except (DocumentError, LinkError) as error:
        return FileWord(problem=str(error))
