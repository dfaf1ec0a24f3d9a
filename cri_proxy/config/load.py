"""YAML into a Config; every error names the file, the line, the key and what was expected."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.config.layouts import file_names, to_plain
from cri_proxy.config.model import Config, Known, known_options
from cri_proxy.config.tree import MAX_BYTES, Item, Listing, Mapping, Scalar, Tree, parse_tree
from cri_proxy.config.values import Raw, read_value, with_values
from cri_proxy.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Loaded:
    """A configuration and the file it came from.

    ``given`` are the keys that the file sets, ``warnings`` sentences for the operator.
    """

    config: Config
    path: Path
    given: frozenset[str] = frozenset()
    warnings: tuple[str, ...] = ()


def load_config(path: Path, *, node_name: str = "", node_group: str = "") -> Loaded:
    """The configuration of this file, or of the file that applies in this directory. Raises ConfigError.

    A directory is a mounted ConfigMap: see ``layouts.file_names``. The names choose there, and in a ConfigMap
    object that holds several files.
    """
    names = file_names(node_name, node_group)
    file = _file_in(path, names) if path.is_dir() else path
    text = _read_text(file)
    plain = to_plain(parse_tree(text, str(file)), str(file), names)
    values = tuple(_values(plain.items, (), str(file)))
    given = frozenset(known.key for known, _ in values)
    return Loaded(with_values(Config(), values), file, given, plain.warnings)


def parse_config(text: str, path: str = "configuration") -> Config:
    """The configuration of this text; ``path`` names it in errors. Raises ConfigError.

    >>> parse_config("reservedResources: {cpu: 750m}").reserved.cpu
    CpuQuantity(mcpu=750)
    """
    plain = to_plain(parse_tree(text, path), path, file_names("", ""))
    return with_values(Config(), _values(plain.items, (), path))


def _file_in(directory: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        if (directory / name).exists():
            return directory / name
    raise ConfigError(str(directory), 0, "", f"holds none of {', '.join(names)}: put one of them there")


def _read_text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(str(path), 0, "", f"cannot read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise ConfigError(str(path), 0, "", f"larger than {MAX_BYTES} bytes, the most that a ConfigMap holds")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ConfigError(str(path), line, "", f"not UTF-8: byte {raw[error.start]:#04x}") from error


def _values(items: tuple[Item, ...], above: tuple[str, ...], path: str) -> Iterator[tuple[Known, object]]:
    """The options that these items set; ``above`` are the keys they stand under, as the model spells them."""
    for item in items:
        here = (*above, item.key)
        known = _known_at(here)
        group = _group_at(here)
        if known is not None:
            yield from _value(known, item, path)
        elif group:
            if isinstance(item.value, Mapping):
                yield from _values(item.value.items, group, path)
            elif not (isinstance(item.value, Scalar) and item.value.is_null):
                raise ConfigError(path, item.line, ".".join(group), "expected a mapping")
        else:
            raise ConfigError(path, item.line, ".".join(here), _unknown(here))


def _folded(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key.casefold() for key in path)


def _known_at(path: tuple[str, ...]) -> Known | None:
    return next((known for known in known_options() if _folded(known.path) == _folded(path)), None)


def _group_at(path: tuple[str, ...]) -> tuple[str, ...]:
    """The path as the model spells it if options lie below it, else ()."""
    size = len(path)
    found = (k.path[:size] for k in known_options() if len(k.path) > size and _folded(k.path[:size]) == _folded(path))
    return next(found, ())


def _unknown(path: tuple[str, ...]) -> str:
    """Why, with the nearest known key: first among those of the same group, then anywhere by its last part."""
    size = len(path)
    near = {k.path[size - 1].casefold(): k.path[:size] for k in known_options() if _is_beside(k.path, path)}
    far = {k.path[-1].casefold(): k.path for k in known_options()}
    for names in (near, far):
        close = difflib.get_close_matches(path[-1].casefold(), names, n=1, cutoff=0.6)
        if close:
            return f"unknown option; did you mean {'.'.join(names[close[0]])}?"
    return f"unknown option; known here: {', '.join(sorted({p[-1] for p in near.values()}))}"


def _is_beside(known: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(known) >= len(path) and _folded(known[: len(path) - 1]) == _folded(path[:-1])


def _value(known: Known, item: Item, path: str) -> Iterator[tuple[Known, object]]:
    """The option with its value; null says nothing, as in Kubernetes' own objects."""
    if known.option.takes_mapping and isinstance(item.value, Mapping):
        yield known, tuple(entry for inner in item.value.items for entry in _entry(known, inner, path))
        return
    raw = _raw(known, item.value, path)
    if raw is None:
        return
    try:
        yield known, read_value(known, raw)
    except ValueError as error:
        raise ConfigError(path, item.line, known.key, str(error)) from None


def _entry(known: Known, item: Item, path: str) -> tuple[object, ...]:
    """One entry of an option that takes a mapping, as the option reads it."""
    raw = f"{item.key}={_text(known, item.value, path)}"
    try:
        value = read_value(known, (raw,))
    except ValueError as error:
        raise ConfigError(path, item.line, f"{known.key}.{item.key}", str(error)) from None
    return value if isinstance(value, tuple) else (value,)


def _raw(known: Known, tree: Tree, path: str) -> Raw | None:
    match tree:
        case Scalar():
            return None if tree.is_null else tree.text
        case Listing():
            return tuple(_text(known, item, path) for item in tree.items)
    raise ConfigError(path, tree.line, known.key, "expected a value, got a mapping")


def _text(known: Known, tree: Tree, path: str) -> str:
    if isinstance(tree, Scalar) and not tree.is_null:
        return tree.text
    what = "a mapping of strings" if known.option.takes_mapping else "a list of strings"
    raise ConfigError(path, tree.line, known.key, f"expected {what}")
