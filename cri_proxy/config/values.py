"""Get, set, format and compare single options of a ``Config``, named by their ``Known`` option. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from cri_proxy.config.model import Config
from cri_proxy.config.option import Known

D = TypeVar("D")


def with_values(config: Config, values: Iterable[tuple[Known, object]]) -> Config:
    """Return the configuration with these options changed; a later value of the same option wins."""
    for known, value in values:
        config = _changed(config, known.names, value)
    return config


def _changed(owner: D, names: tuple[str | int, ...], value: object) -> D:
    name, *below = names
    inner = _changed(_part(owner, name), tuple(below), value) if below else value
    if isinstance(owner, tuple):
        return type(owner)(inner if i == name else part for i, part in enumerate(owner))
    changed: D = replace(owner, **{str(name): inner})  # type: ignore[type-var]  # D is one of the model's dataclasses
    return changed


def _part(owner: object, name: str | int) -> object:
    return owner[name] if isinstance(owner, tuple) and isinstance(name, int) else getattr(owner, str(name))


def value_of(config: Config, known: Known) -> object:
    """Return the value of an option in this configuration."""
    value: object = config
    for name in known.names:
        value = _part(value, name)
    return value


def show_value(value: object) -> str:
    """Return a value in YAML's flow style; None is ``none``.

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
    """Return (option, old value, new value) of every option that differs, in the order given."""
    pairs = ((known, value_of(old, known), value_of(new, known)) for known in options)
    return tuple((known, before, after) for known, before, after in pairs if before != after)
