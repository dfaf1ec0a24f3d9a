"""Text into the value that an option holds, and options into a configuration."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal, TypeVar, get_args, get_origin

from cri_proxy.config.model import Config, Known

Raw = str | tuple[str, ...]
"""A scalar's text, or those of a list."""

_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")

D = TypeVar("D")


def is_list(known: Known) -> bool:
    """Whether the option takes a list."""
    return get_origin(known.type) is tuple


def values_text(known: Known) -> str:
    """Which values the option takes, for people.

    >>> from cri_proxy.config.model import known_options
    >>> values_text(next(o for o in known_options() if o.key == "adopt"))
    '`pin` or `leave`'
    """
    if known.option.values:
        return known.option.values
    if known.type is bool:
        return "`true` or `false`"
    if get_origin(known.type) is Literal:
        return " or ".join(f"`{value}`" for value in get_args(known.type))
    return "a list of strings" if is_list(known) else "a string"


def read_value(known: Known, raw: Raw) -> object:
    """The option's value. Raises ValueError with what was expected, what was given and the remedy."""
    try:
        return _read(known, raw)
    except ValueError as error:
        remedy = f"; {known.option.remedy}" if known.option.remedy else ""
        raise ValueError(f"{error}{remedy}") from None


def _read(known: Known, raw: Raw) -> object:
    if is_list(known):
        # One value where a list is wanted is a list of one: ``ReservedPoolNamespaces: monitoring``.
        items = (raw,) if isinstance(raw, str) else raw
        return tuple(known.option.read(item) if known.option.read else item for item in items)
    if not isinstance(raw, str):
        raise ValueError(f"expected {values_text(known).replace('`', '')}, got a list")
    if known.option.read is not None:
        return known.option.read(raw)
    if known.type is bool:
        return _read_bool(raw)
    return _read_choice(known, raw) if get_origin(known.type) is Literal else raw


def _read_bool(text: str) -> bool:
    lower = text.strip().lower()
    if lower not in _TRUE + _FALSE:
        raise ValueError(f"expected true or false, got {text!r}")
    return lower in _TRUE


def _read_choice(known: Known, text: str) -> str:
    choices: tuple[str, ...] = get_args(known.type)
    lower = text.strip().lower()
    if lower not in choices:
        raise ValueError(f"expected {' or '.join(choices)}, got {text!r}")
    return lower


def with_values(config: Config, values: Iterable[tuple[Known, object]]) -> Config:
    """The configuration with these options changed; a later value of the same option wins."""
    for known, value in values:
        config = _changed(config, known.names, value)
    return config


def _changed(owner: D, names: tuple[str, ...], value: object) -> D:
    inner = value if len(names) == 1 else _changed(getattr(owner, names[0]), names[1:], value)
    changed: D = replace(owner, **{names[0]: inner})  # type: ignore[type-var]  # D is one of the model's dataclasses
    return changed


def value_of(config: Config, known: Known) -> object:
    """What this configuration says about an option."""
    value: object = config
    for name in known.names:
        value = getattr(value, name)
    return value


def show_value(value: object) -> str:
    """A value as it is written in YAML's flow style; None is ``none``.

    >>> show_value(True), show_value(("a", "b"))
    ('true', '[a, b]')
    """
    match value:
        case None | "":
            return "none"
        case bool():
            return "true" if value else "false"
        case float():
            return str(value).removesuffix(".0")
        case tuple():
            return f"[{', '.join(map(str, value))}]"
    return str(value)


def differences(old: Config, new: Config, options: Iterable[Known]) -> tuple[tuple[Known, object, object], ...]:
    """(option, old value, new value) of every option that differs, in the order given."""
    pairs = ((known, value_of(old, known), value_of(new, known)) for known in options)
    return tuple((known, before, after) for known, before, after in pairs if before != after)
