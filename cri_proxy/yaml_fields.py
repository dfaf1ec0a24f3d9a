"""The YAML values in files of operators; every error names the file and the line."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Self

from cri_proxy.bounded_yaml import Dialect, Listing, Mapping, Scalar, Tree, YamlError, parse_documents, plain
from cri_proxy.errors import CriProxyError
from sysfs.documents.value import DocumentValue

_PIECE_BYTES = 1 << 16


@dataclass(eq=False)
class DocumentError(CriProxyError):
    """A file or a document in it that cannot be used. ``line`` counts from 1; 0 = unknown."""

    source: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.problem}" if self.line else f"{self.source}: {self.problem}"


class YamlField(DocumentValue):
    """A value of a YAML file."""

    __slots__ = ("_tree", "source")

    def __init__(self, source: str, tree: Tree) -> None:
        """``source`` names the file in errors."""
        self.source = source
        self._tree = tree

    @classmethod
    def documents(cls, text: str, source: str, dialect: Dialect, first_line: int = 1) -> Iterator[Self]:
        """Yield the documents of a text, without empty ones. Raises DocumentError for what is not YAML.

        ``first_line`` is the line of the file on which the text begins.
        """
        try:
            for tree in parse_documents(text, dialect, first_line):
                yield cls(source, tree)
        except YamlError as error:
            key = f"{error.key}: " if error.key else ""
            raise DocumentError(source, error.line, f"{key}{error.problem}") from None

    @classmethod
    def only(cls, text: str, source: str, dialect: Dialect, what: str) -> Self | None:
        """Return the document of a text that holds one, None where it is empty; ``what`` names the file in errors.

        Raises DocumentError, for a second document too.
        """
        found = list(islice(cls.documents(text, source, dialect), 2))
        if len(found) > 1:
            raise found[1].refuse(f"another document begins here: {what} holds one")
        return found[0] if found else None

    @staticmethod
    def read_text(path: str, max_bytes: int) -> str:
        """Return the text of a file; ``-`` is standard input. Raises DocumentError."""
        try:
            if path == "-":
                if sys.stdin is None:  # the caller has closed it
                    raise DocumentError(path, 0, "standard input is closed: redirect a file to it, or name the file")
                data = read_bounded(sys.stdin.buffer, max_bytes + 1)
            else:
                with Path(path).open("rb") as file:
                    data = read_bounded(file, max_bytes + 1)
            if len(data) > max_bytes:
                raise DocumentError(path, 0, f"larger than {max_bytes} bytes; cut it into several files")
            return data.decode("utf-8-sig")
        except OSError as error:
            raise DocumentError(path, 0, f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise DocumentError(
                path, line, f"not UTF-8: byte {data[error.start]:#04x}; save it as UTF-8 text"
            ) from None

    @property
    def line(self) -> int:
        """The line of the file on which it begins."""
        return self._tree.line

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return isinstance(self._tree, Scalar) and self._tree.kind == "null"

    def refuse(self, problem: str, line: int = 0) -> DocumentError:
        """Return an error about this value, or about another line of its file."""
        return DocumentError(self.source, line or self.line, problem)

    def plain(self) -> object:
        """Return the value as JSON has it; what JSON has no form for (dates) is its text."""
        try:
            return plain(self._tree)
        except YamlError as error:
            raise DocumentError(self.source, error.line, error.problem) from None

    def _scalar(self) -> str | None:
        return self._tree.text if isinstance(self._tree, Scalar) else None

    def _parts(self) -> list[Self] | None:
        make, source = type(self), self.source
        return [make(source, tree) for tree in self._tree.items] if isinstance(self._tree, Listing) else None

    def _pairs(self) -> list[tuple[str, int, Self]] | None:
        make, source, tree = type(self), self.source, self._tree
        if not isinstance(tree, Mapping):
            return None
        return [(item.key, item.line, make(source, item.value)) for item in tree.items]


def read_bounded(file: BinaryIO, most_bytes: int) -> bytes:
    """Return the content of a file, cut after so many bytes."""
    data = bytearray()
    wanted = _PIECE_BYTES  # Python takes memory for all that a single call may read
    while len(piece := file.read(min(wanted, most_bytes - len(data)))) == wanted:
        data += piece
    return bytes(data + piece)
