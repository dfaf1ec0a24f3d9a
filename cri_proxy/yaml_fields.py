"""Typed access to YAML values in files of operators; every error names the file and the line.

Mappings are read key by key against a list of known ones: an unknown, doubled or misspelt key is an error.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, ClassVar, Self, TypeVar

from cri_proxy.bounded_yaml import Dialect, Listing, Mapping, Scalar, Tree, YamlError, parse_documents, plain
from cri_proxy.errors import CriProxyError
from sysfs.known_words import did_you_mean

T = TypeVar("T")
_SHOWN_CHARACTERS = 40
_PIECE_BYTES = 1 << 16


@dataclass(eq=False)
class DocumentError(CriProxyError):
    """A file or a document in it that cannot be used. ``line`` counts from 1; 0 = unknown."""

    source: str
    line: int
    problem: str

    def __str__(self) -> str:
        return f"{self.source}:{self.line}: {self.problem}" if self.line else f"{self.source}: {self.problem}"


class YamlField:
    """A value of a YAML file. A subclass may raise an error class of its own."""

    error: ClassVar[type[DocumentError]] = DocumentError

    def __init__(self, source: str, tree: Tree) -> None:
        """``source`` names the file in errors."""
        self._source = source
        self._tree = tree
        self.line = tree.line

    @classmethod
    def documents(cls, text: str, source: str, dialect: Dialect, first_line: int = 1) -> Iterator[Self]:
        """Yield the documents of a text, without empty ones. Raises ``error`` for what is not YAML.

        ``first_line`` is the line of the file on which the text begins.
        """
        try:
            for tree in parse_documents(text, dialect, first_line):
                yield cls(source, tree)
        except YamlError as error:
            key = f"{error.key}: " if error.key else ""
            raise cls.error(source, error.line, f"{key}{error.problem}") from None

    @classmethod
    def read_text(cls, path: str, max_bytes: int) -> str:
        """Return the text of a file; ``-`` is standard input. Raises ``error``."""
        try:
            if path == "-":
                if sys.stdin is None:  # the caller has closed it
                    raise cls.error(path, 0, "standard input is closed: redirect a file to it, or name the file")
                data = read_bounded(sys.stdin.buffer, max_bytes + 1)
            else:
                with Path(path).open("rb") as file:
                    data = read_bounded(file, max_bytes + 1)
            if len(data) > max_bytes:
                raise cls.error(path, 0, f"larger than {max_bytes} bytes; cut it into several files")
            return data.decode("utf-8-sig")
        except OSError as error:
            raise cls.error(path, 0, f"cannot be read: {error.strerror}") from None
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise cls.error(path, line, f"not UTF-8: byte {data[error.start]:#04x}; save it as UTF-8 text") from None

    @property
    def source(self) -> str:
        """The name of the file in errors."""
        return self._source

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single value."""
        return isinstance(self._tree, Scalar)

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return isinstance(self._tree, Listing)

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping."""
        return isinstance(self._tree, Mapping)

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return isinstance(self._tree, Scalar) and self._tree.is_null

    def refuse(self, problem: str, line: int = 0) -> DocumentError:
        """Return an error about this value, or about another line of its file."""
        return self.error(self._source, line or self.line, problem)

    def mapping(self, known: Sequence[str], what: str) -> dict[str, Self]:
        """Return the values by key, in the order written; ``what`` names the thing in errors."""
        entries = self.entries(what)
        for key, value in entries.items():
            if key not in known:
                raise value.refuse(f"{what}: unknown key {key!r}; {did_you_mean(key, known)}")
        return entries

    def entries(self, what: str) -> dict[str, Self]:
        """As ``mapping``, with any keys."""
        if not isinstance(self._tree, Mapping):
            raise self.refuse(f"{what}: expected a mapping, got {self.shown()}")
        found: dict[str, Self] = {}
        for item in self._tree.items:
            if item.key in found:
                raise self.error(self._source, item.line, f"{what}: {item.key!r} stands twice")
            found[item.key] = type(self)(self._source, item.value)
        return found

    def rows(self, what: str) -> list[tuple[str, int, Self]]:
        """Return each key with its line and value, in the order written; a key that stands twice is there twice."""
        if not isinstance(self._tree, Mapping):
            raise self.refuse(f"{what}: expected a mapping, got {self.shown()}")
        return [(item.key, item.line, type(self)(self._source, item.value)) for item in self._tree.items]

    def items(self, what: str) -> list[Self]:
        """Return the values of a list; a missing value is an empty one."""
        if self.is_null:
            return []
        if not isinstance(self._tree, Listing):
            raise self.refuse(f"{what}: expected a list, got {self.shown()}")
        return [type(self)(self._source, tree) for tree in self._tree.items]

    def text(self, what: str) -> str:
        """Return a scalar as it is written: ``750m``, ``2`` and ``true`` are all texts here."""
        if not isinstance(self._tree, Scalar):
            raise self.refuse(f"{what}: expected a text or number, got {self.shown()}")
        return self._tree.text

    def parsed(self, what: str, parse: Callable[[str], T]) -> T:
        """Return what ``parse`` makes of the text; it raises ValueError."""
        text = self.text(what)
        try:
            return parse(text)
        except ValueError as error:
            raise self.refuse(f"{what}: {error}") from None

    def truth(self, what: str) -> bool:
        """Return true or false."""
        text = self.text(what).lower()
        if text not in {"true", "false"}:
            raise self.refuse(f"{what}: expected true or false, got {self.shown()}")
        return text == "true"

    def plain(self) -> object:
        """Return the value as JSON has it; what JSON has no form for (dates) is its text."""
        try:
            return plain(self._tree)
        except YamlError as error:
            raise self.error(self._source, error.line, error.problem) from None

    def shown(self) -> str:
        """Return what it is, for an error: short."""
        match self._tree:
            case Mapping():
                return "a mapping"
            case Listing():
                return "a list"
        return short_repr(self._tree.text)


def read_bounded(file: BinaryIO, most_bytes: int) -> bytes:
    """Return the content of a file, cut after so many bytes."""
    data = bytearray()
    wanted = _PIECE_BYTES  # Python takes memory for all that a single call may read
    while len(piece := file.read(min(wanted, most_bytes - len(data)))) == wanted:
        data += piece
    return bytes(data + piece)


def short_repr(text: str) -> str:
    """Return a text in quotes for an error, cut where it is long.

    >>> short_repr("many"), short_repr("9" * 4300)
    ("'many'", "'999999999999999999999999999999999999999…'")
    """
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")


def without_leading_zeros(number: str) -> str:
    """Return the text of a number; raise ValueError where it begins with zeros: YAML 1.1 reads ``010`` as 8, 1.2 as 10.

    >>> without_leading_zeros("0"), without_leading_zeros("10"), without_leading_zeros("0.5")
    ('0', '10', '0.5')
    """
    if len(number) > 1 and number[0] == "0" and number[1].isdigit():
        raise ValueError(f"{short_repr(number)} may be meant as an octal number: write it without leading zeros")
    return number
