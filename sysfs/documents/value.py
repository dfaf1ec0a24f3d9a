"""A value of a document, whatever it was parsed by: typed access, and errors that name its place. Pure.

Mappings are read key by key against a list of known ones: an unknown, doubled or misspelt key is an error.
"""

from collections.abc import Callable, Collection, Mapping
from typing import ClassVar, Self, TypeVar

from sysfs.known_words import did_you_mean, short_repr

T = TypeVar("T")


class DocumentValue:
    """A text, number, list or mapping, as JSON has it. A subclass may keep it in another form."""

    __slots__ = ("_refusal", "_value")
    expected: ClassVar[tuple[str, str, str]] = ("a text or number", "a list", "a mapping")
    """The names of a scalar, a list and a mapping in errors."""

    def __init__(self, value: object, refusal: Callable[[str], Exception] = ValueError) -> None:
        """``refusal`` makes the error of a problem."""
        self._value = value
        self._refusal = refusal

    @property
    def line(self) -> int:
        """The line of the document on which it begins; 0 = unknown."""
        return 0

    def refuse(self, problem: str, line: int = 0) -> Exception:
        """Return an error about this value, or about another line of its document."""
        return self._refusal(problem)

    def plain(self) -> object:
        """Return the value as JSON has it."""
        return self._value

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return self._value is None

    def _scalar(self) -> str | None:
        """Return the text of a single value; None for others."""
        if isinstance(self._value, bool):
            # As the document writes it, and not as Python does.
            return str(self._value).lower()
        return None if isinstance(self._value, Mapping | list | tuple) else str(self._value)

    def _parts(self) -> list[Self] | None:
        """Return the values of a list; None for others."""
        value = self._value
        return [type(self)(item, self._refusal) for item in value] if isinstance(value, list | tuple) else None

    def _pairs(self) -> list[tuple[str, int, Self]] | None:
        """Return each key of a mapping with its line and value; None for others."""
        if not isinstance(self._value, Mapping):
            return None
        return [(str(key), 0, type(self)(value, self._refusal)) for key, value in self._value.items()]

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

    def mapping(self, known: Collection[str], what: str) -> dict[str, Self]:
        """Return the values by key, in the order written; ``what`` names the thing in errors."""
        entries = self.entries(what)
        for key in entries:
            if key not in known:
                raise entries[key].refuse(f"{what}: unknown key {key!r}; {did_you_mean(key, known)}")
        return entries

    def entries(self, what: str) -> dict[str, Self]:
        """As ``mapping``, with any keys."""
        found: dict[str, Self] = {}
        for key, line, value in self.rows(what):
            # YAML's own loader would let the last of the two win.
            if key in found:
                raise self.refuse(f"{what}: {key!r} stands twice", line)
            found[key] = value
        return found

    def rows(self, what: str) -> list[tuple[str, int, Self]]:
        """Return each key with its line and value, in the order written; a key that stands twice is there twice."""
        pairs = self._pairs()
        if pairs is None:
            raise self._unexpected(what, 2)
        return pairs

    def items(self, what: str) -> list[Self]:
        """Return the values of a list; a missing value is an empty one."""
        parts = self._parts()
        if parts is None and not self.is_null:
            raise self._unexpected(what, 1)
        return parts or []

    def listed(self, what: str) -> list[Self]:
        """Return the values of a list, or a single value alone; a missing value is an empty list."""
        return [self] if self._parts() is None and not self.is_null else self.items(what)

    def text(self, what: str) -> str:
        """Return a scalar as it is written: ``750m``, ``2`` and ``true`` are all texts here."""
        text = self._scalar()
        if text is None:
            raise self._unexpected(what, 0)
        return text

    def parsed(self, what: str, parse: Callable[[str], T]) -> T:
        """Return what ``parse`` makes of the text; it raises ValueError."""
        text = self.text(what)
        try:
            return parse(text)
        except ValueError as error:
            raise self.refuse(f"{what}: {error}") from None

    def shown(self) -> str:
        """Return what it is, for an error: short."""
        text = self._scalar()
        if text is None:
            return "a list" if self.is_list else "a mapping"
        return short_repr(text)

    def _unexpected(self, what: str, place: int) -> Exception:
        return self.refuse(f"{what}: expected {self.expected[place]}, got {self.shown()}")
