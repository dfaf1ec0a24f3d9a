"""``Known``: one option in its place; list those of a dataclass, choose parsers by type, read and check values."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import partial
from types import MappingProxyType
from typing import Literal, get_args, get_origin, get_type_hints

from policies.options import Option, option_in
from sysfs.documents.forms import one_of, truth

Raw = str | tuple[str, ...]
"""A scalar's text, or those of a list."""

_NUMBERS: Mapping[type[int | float], re.Pattern[str]] = MappingProxyType(
    {int: re.compile(r"[+-]?[0-9]{1,18}", re.ASCII), float: re.compile(r"[0-9]{1,9}(\.[0-9]{1,9})?", re.ASCII)}
)


@dataclass(frozen=True, slots=True)
class Known:
    """One option in its place: ``path`` are the keys from the top, ``type`` is what it holds.

    ``names`` are the fields that lead to it; a number is a place in a tuple. ``parse`` reads one text, of a list one
    item.
    """

    path: tuple[str, ...]
    names: tuple[str | int, ...]
    type: object
    default: object
    option: Option
    parse: Callable[[str], object]

    @property
    def key(self) -> str:
        """The key as people write it, ``log.level``."""
        return ".".join(self.path)

    @property
    def paths(self) -> tuple[tuple[str, ...], ...]:
        """The path, then those with a former key at the end."""
        return (self.path, *((*self.path[:-1], former) for former in self.option.was))

    @property
    def choices(self) -> tuple[str, ...]:
        """All values it takes, where these are few."""
        return choices_of(self.type, self.option)

    @property
    def is_list(self) -> bool:
        """Whether the option takes a list."""
        return get_origin(self.type) is tuple


def options_of(cls: type, path: tuple[str, ...] = (), names: tuple[str | int, ...] = ()) -> Iterator[Known]:
    """Yield every option of a model, in its order: a dataclass with fields that are ``option(...)``.

    A field whose type is such a dataclass is a group. Raises TypeError for a type that cannot be read.
    """
    hints = get_type_hints(cls)
    for field in fields(cls):
        option = option_in(field.metadata)
        if option is None:
            continue
        kind = hints[field.name]
        here = (*path, option.key), (*names, field.name)
        if isinstance(kind, type) and is_dataclass(kind):
            yield from options_of(kind, *here)
        else:
            yield Known(*here, kind, field.default, option, parser_for(kind, option))


def parser_for(kind: object, option: Option) -> Callable[[str], object]:
    """Return what reads one text of an option: its own ``read``, else what its type selects.

    Raises TypeError for a type that nothing reads, so that a model with one cannot be imported.

    >>> parser_for(int, Option("count", ""))("3")
    3
    """
    if option.read is not None:
        return option.read
    if get_origin(kind) is tuple and get_args(kind)[1:] == (...,):
        return parser_for(get_args(kind)[0], option)
    if choices := choices_of(kind, option):
        read = one_of(choices)
        return lambda text: read(text.strip().lower())
    if kind is int or kind is float:
        return partial(_read_number, kind, option)
    if kind not in _PLAIN:
        known = "bool, int, float, str, a StrEnum, a Literal of strings or read="
        raise TypeError(f"option {option.key}: {kind} cannot be read: use {known}")
    return _PLAIN[kind][0]


def choices_of(kind: object, option: Option) -> tuple[str, ...]:
    """Return all values of an option whose type or row lists them, else ()."""
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return tuple(kind)
    if get_origin(kind) is Literal and all(isinstance(choice, str) for choice in get_args(kind)):
        return get_args(kind)
    return option.choices


def values_text(known: Known) -> str:
    """Return which values the option takes, for people.

    >>> from cri_proxy.config.model import known_options
    >>> values_text(next(o for o in known_options() if o.key == "adopt"))
    '`pin` or `leave`'
    """
    if known.option.values:
        return known.option.values
    if known.choices:
        return " or ".join(f"`{value}`" for value in known.choices)
    if known.is_list:
        return "a list of strings" if known.type == tuple[str, ...] else "a list"
    if known.type is int or known.type is float:
        return numbers_text(known.type, known.option)
    return _PLAIN[known.type][1]


def read_value(known: Known, raw: Raw) -> object:
    """Return the option's value. Raises ValueError with what was expected, what was given and the remedy."""
    try:
        if known.is_list:
            # A single value is a list of one: ``ReservedPoolNamespaces: monitoring``.
            return tuple(map(known.parse, (raw,) if isinstance(raw, str) else raw))
        if not isinstance(raw, str):
            raise ValueError(f"expected {values_text(known).replace('`', '')}, got a list")
        return known.parse(raw)
    except ValueError as error:
        remedy = f"; {known.option.remedy}" if known.option.remedy else ""
        raise ValueError(f"{error}{remedy}") from None


def _read_number(kind: type[int | float], option: Option, text: str) -> int | float:
    if _NUMBERS[kind].fullmatch(text.strip()):
        number = kind(text)
        is_in = option.least <= number and (option.most is None or number <= option.most)
        if is_in or (option.is_zero_off and not number):
            return number
    raise ValueError(f"expected {numbers_text(kind, option)}, got {text!r}")


def numbers_text(kind: type[int | float], option: Option) -> str:
    """Return which numbers an option takes, for people.

    >>> numbers_text(int, Option("nodes", "", least=8, is_zero_off=True)), numbers_text(float, Option("s", "", most=9))
    ('0, or a whole number from 8', 'a number from 0 to 9')
    """
    off = "0, or " if option.is_zero_off else ""
    most = "" if option.most is None else f" to {option.most}"
    return f"{off}a {'whole ' if kind is int else ''}number from {option.least}{most}"


# What reads an option of a plain type, and what the type is called.
_PLAIN: dict[object, tuple[Callable[[str], object], str]] = {bool: (truth, "`true` or `false`"), str: (str, "a string")}
