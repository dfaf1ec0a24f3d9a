"""Read the objects of JSON annotations; every error names the field, the value and what is expected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from policies.errors import PolicyBaseError
from sysfs.known_words import did_you_mean, none_of

_SHOWN_CHARACTERS: Final = 60


@dataclass(eq=False)
class AnnotationError(PolicyBaseError):
    """An annotation that cannot be understood; ``problem`` names the field and the remedy."""

    key: str
    problem: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}"


class FieldError(ValueError):
    """A field of an annotation that cannot be used."""


def shown(value: object) -> str:
    """Return a value for a message: short.

    >>> shown("x" * 100)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    """
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def object_of(value: object, what: str, known: Sequence[str]) -> Mapping[str, object]:
    """Return the fields of an object that are not null. Raises FieldError, for an unknown field too.

    >>> object_of({"a": 1, "b": None}, "hint", ("a", "b"))
    {'a': 1}
    """
    fields = mapping_of(value, what)
    for key in fields:
        if key not in known:
            raise FieldError(f"{what}: unknown field {shown(key)}; {did_you_mean(key, known)}")
    return fields


def mapping_of(value: object, what: str) -> Mapping[str, object]:
    """Return an object's fields that are not null, whatever their names. Raises FieldError."""
    if not isinstance(value, Mapping):
        raise FieldError(f"{what}: expected an object in braces, got {shown(value)}")
    return {str(key): item for key, item in value.items() if item is not None}


def list_of(value: object, what: str) -> Sequence[object]:
    """Return a list. Raises FieldError."""
    if not isinstance(value, list | tuple):
        raise FieldError(f"{what}: expected a list in brackets, got {shown(value)}")
    return value


def text_of(value: object, what: str) -> str:
    """Return a text. Raises FieldError."""
    if not isinstance(value, str):
        raise FieldError(f"{what}: expected a text in quotes, got {shown(value)}")
    return value


def word_of(value: object, what: str, known: Sequence[str]) -> str:
    """Return one of these words, or '' for an empty text, which means the default. Raises FieldError.

    >>> word_of("PCIe", "requiredTopologyScope", ("PCIe", "NUMANode"))
    'PCIe'
    """
    text = text_of(value, what)
    if text and text not in known:
        raise FieldError(f"{what}: {none_of(text, known)}")
    return text
