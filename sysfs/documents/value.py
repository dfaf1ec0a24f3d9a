"""A value of a document, whatever it was parsed by: typed access, and errors that name its place. Pure.

Mappings are read key by key against a list of known ones: an unknown, doubled or misspelt key is an error.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, Final, Self, TypeVar

from sysfs.known_words import did_you_mean

T = TypeVar("T")
_SHOWN_CHARACTERS: Final = 40


class DocumentValue(ABC):
    """A text, number, list or mapping. ``line`` is that of the document, 0 = unknown."""

    line: int = 0
    expected: ClassVar[tuple[str, str, str]] = ("a text or number", "a list", "a mapping")
    """What a scalar, a list and a mapping are called in errors."""

    @abstractmethod
    def refuse(self, problem: str, line: int = 0) -> Exception:
        """Return an error about this value, or about another line of its document."""

    @abstractmethod
    def plain(self) -> object:
        """Return the value as JSON has it."""

    @abstractmethod
    def _scalar(self) -> str | None:
        """Return the text of a single value; None for others."""

    @abstractmethod
    def _parts(self) -> Iterable[Self] | None:
        """Return the values of a list; None for others."""

    @abstractmethod
    def _pairs(self) -> Iterable[tuple[str, int, Self]] | None:
        """Return each key of a mapping with its line and value; None for others."""

    @property
    @abstractmethod
    def is_null(self) -> bool:
        """Whether nothing stands there."""

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single value."""
        return self._scalar() is not None

    @property
    def is_list(self) -> bool:
        """Whether it is a list."""
        return self._parts() is not None

    @property
    def is_mapping(self) -> bool:
        """Whether it is a mapping."""
        return self._pairs() is not None

    def mapping(self, known: Sequence[str], what: str) -> dict[str, Self]:
        """Return the values by key, in the order written; ``what`` names the thing in errors."""
        entries = self.entries(what)
        for key, value in entries.items():
            if key not in known:
                raise value.refuse(f"{what}: unknown key {key!r}; {did_you_mean(key, known)}")
        return entries

    def entries(self, what: str) -> dict[str, Self]:
        """As ``mapping``, with any keys."""
        found: dict[str, Self] = {}
        for key, line, value in self.rows(what):
            if key in found:
                raise self.refuse(f"{what}: {key!r} stands twice", line)
            found[key] = value
        return found

    def rows(self, what: str) -> Iterable[tuple[str, int, Self]]:
        """Return each key with its line and value, in the order written; a key that stands twice is there twice."""
        pairs = self._pairs()
        if pairs is None:
            raise self.refuse(f"{what}: expected {self.expected[2]}, got {self.shown()}")
        return pairs

    def items(self, what: str) -> list[Self]:
        """Return the values of a list; a missing value is an empty one."""
        if self.is_null:
            return []
        parts = self._parts()
        if parts is None:
            raise self.refuse(f"{what}: expected {self.expected[1]}, got {self.shown()}")
        return list(parts)

    def text(self, what: str) -> str:
        """Return a scalar as it is written: ``750m``, ``2`` and ``true`` are all texts here."""
        text = self._scalar()
        if text is None:
            raise self.refuse(f"{what}: expected {self.expected[0]}, got {self.shown()}")
        return text

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

    def name_in(self, what: str, place: int) -> str:
        """Return the name of this item of a list for errors: its line tells which one it is, if one is known."""
        return what if self.line else f"{what}[{place}]"

    def shown(self) -> str:
        """Return what it is, for an error: short."""
        text = self._scalar()
        if text is None:
            return "a list" if self.is_list else "a mapping"
        return short_repr(text)


class PlainValue(DocumentValue):
    """A value of JSON, or of a document that others have parsed; ``refusal`` makes the error of a problem."""

    def __init__(self, value: object, refusal: Callable[[str], Exception]) -> None:
        """Keep both."""
        self._value = value
        self._refusal = refusal

    def refuse(self, problem: str, line: int = 0) -> Exception:
        """Return the error about a problem; no line is known."""
        return self._refusal(problem)

    def plain(self) -> object:
        """Return the value as it is."""
        return self._value

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return self._value is None

    def _scalar(self) -> str | None:
        if isinstance(self._value, bool):
            return str(self._value).lower()
        return None if isinstance(self._value, Mapping | list | tuple) else str(self._value)

    def _parts(self) -> Iterable[Self] | None:
        value = self._value
        return (type(self)(item, self._refusal) for item in value) if isinstance(value, list | tuple) else None

    def _pairs(self) -> Iterable[tuple[str, int, Self]] | None:
        if not isinstance(self._value, Mapping):
            return None
        return ((str(key), 0, type(self)(value, self._refusal)) for key, value in self._value.items())


def short_repr(text: str) -> str:
    """Return a text in quotes for an error, cut where it is long.

    >>> short_repr("many"), short_repr("9" * 4300)
    ("'many'", "'999999999999999999999999999999999999999…'")
    """
    return repr(text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 1] + "…")
