"""Values with hostile text in every string: what a pod, a process or a runtime may write where a name is expected."""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import TypeVar, cast

from hypothesis import strategies as st

V = TypeVar("V")

# Clear the screen, colours, a title, backspaces, C1's CSI, marks of direction, separators, joiners, half a character.
EVIL = (
    "\x1b[2J\x1b[31m\x1b]0;owned\x07\b\b\r\n\t\x00\x7f\x9b1m"
    "\u202e\u2066\u200f\u061c\u2028\u2029\ufeff\u200d\ud800\U000e0041"
)
EVIL_TEXTS = st.just(EVIL) | st.text(st.characters(categories=("Cc", "Cf", "Cs", "Zl", "Zp")), min_size=1, max_size=8)


def poisoned(value: V, evil: str) -> V:
    """Return the value with ``evil`` in every string, as deep as it is; what belongs together still does."""
    return cast("V", _poisoned(value, evil))


def _poisoned(value: object, evil: str) -> object:
    match value:
        case str() if not isinstance(value, Enum):
            return f"{value}{evil}x"
        case tuple() | list():
            return type(value)(_poisoned(item, evil) for item in value)
        case dict():
            return {_poisoned(key, evil): _poisoned(item, evil) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        texts = {name: new for name, part in parts.items() if (new := _poisoned(part, evil)) != part}
        return replace(value, **texts)
    return value


def strings(value: object) -> Iterator[str]:
    """Yield every string of a value."""
    match value:
        case str():
            yield value
        case tuple() | list():
            for item in value:
                yield from strings(item)
        case dict():
            yield from strings(tuple(value.items()))
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from strings(getattr(value, field.name))
