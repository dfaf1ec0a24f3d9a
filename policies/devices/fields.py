"""The values of JSON annotations; every error names the field, the value and what is expected."""

from dataclasses import dataclass
from typing import Final

from policies.errors import PolicyBaseError
from sysfs.documents.value import DocumentValue

_SHOWN_CHARACTERS: Final = 60


@dataclass(eq=False)
class AnnotationError(PolicyBaseError):
    """An annotation that cannot be understood; ``problem`` names the field and the remedy."""

    key: str
    problem: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}"


class JsonValue(DocumentValue):
    """A value of an annotation: as for the API server, a number is no text."""

    expected = ("a text in quotes", "a list in brackets", "an object in braces")

    def _scalar(self) -> str | None:
        return self._value if isinstance(self._value, str) else None

    def shown(self) -> str:
        """Return the value as Python has it, cut where it is long."""
        text = repr(self._value)
        return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"
