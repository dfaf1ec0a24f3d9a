"""Load a file or text into a ``Config``: match keys to options, read values; errors with file, line and suggestion."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cri_proxy.bounded_yaml import Item, Listing, Mapping, Scalar, Tree
from cri_proxy.config.files.location import ConfigLocation, Source
from cri_proxy.config.files.section_files import trace_error
from cri_proxy.config.layouts import Normalized, config_trees, names_for, normalize
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Known, Raw, read_value
from cri_proxy.config.values import with_values
from cri_proxy.errors import ConfigError
from sysfs.known_words import question, similar

_SEPARATORS: Final = frozenset("=,")  # of a mapping that is read as one text


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
    """Return the configuration of this file, or of the file that applies in this directory. Raises ConfigError.

    A directory is a mounted ConfigMap: see ``layouts.file_names``. The names choose a file there, and in a ConfigMap
    object that holds several; without ``node_group`` a file ``node-group`` beside it names the group.
    """
    location = ConfigLocation(path, node_name, node_group)
    return load_source(location, location.read(may_wait=True))


def load_source(location: ConfigLocation, source: Source) -> Loaded:
    """Return the configuration of what was found at this location. Raises ConfigError."""
    plain, settings = _read(location, source)
    given = frozenset(setting.known.key for setting in settings)
    return Loaded(_config(settings), source.file, given, (*plain.warnings, *_former_keys(settings), *source.warnings))


def load_trees(trees: Sequence[Tree], file: str, node_name: str, node_group: str) -> Loaded:
    """Return the configuration of parsed documents for this node and group. Raises ConfigError."""
    plain = normalize(trees, file, names_for(trees, node_name, node_group))
    settings = tuple(_settings(plain.items, (), file))
    given = frozenset(setting.known.key for setting in settings)
    return Loaded(_config(settings), Path(file), given, (*plain.warnings, *_former_keys(settings)))


def options_of(location: ConfigLocation, source: Source) -> dict[str, object]:
    """Return the options of what was found at this location, in our layout. Raises ConfigError.

    They are nested as they are written, each value a text, a list, a mapping, or None for null.
    """
    plain, _ = _read(location, source)
    return {item.key: _as_written(item.value) for item in plain.items}


def _as_written(tree: Tree) -> object:
    match tree:
        case Scalar():
            return None if tree.is_null else tree.text
        case Listing():
            return [_as_written(item) for item in tree.items]
    return {item.key: _as_written(item.value) for item in tree.items}


def _read(location: ConfigLocation, source: Source) -> tuple[Normalized, tuple["_Setting", ...]]:
    file = str(source.file)
    if source.problem:
        raise ConfigError(file, source.line, "", source.problem)
    try:
        # A byte order mark, as editors on Windows write it, is no part of the first key.
        trees = config_trees(source.text.removeprefix("\ufeff"), file)
        plain = normalize(trees, file, names_for(trees, location.node_name, location.node_group or source.group))
        return plain, tuple(_settings(plain.items, (), file))
    except ConfigError as error:
        raise trace_error(error, source.parts) from error


def parse_config(text: str, path: str = "configuration", *, node_name: str = "", node_group: str = "") -> Config:
    """Return the configuration of this text; ``path`` names it in errors. Raises ConfigError.

    The names choose in a text for several nodes.

    >>> parse_config("reservedResources: {cpu: 750m}").reserved.cpu
    CpuQuantity(mcpu=750)
    """
    return load_trees(config_trees(text.removeprefix("\ufeff"), path), path, node_name, node_group).config


@dataclass(frozen=True, slots=True)
class _Setting:
    """An option that a file sets, with the key as written."""

    known: Known
    value: object
    key: str


def _config(settings: Iterable[_Setting]) -> Config:
    return with_values(Config(), ((setting.known, setting.value) for setting in settings))


def _former_keys(settings: Iterable[_Setting]) -> tuple[str, ...]:
    """Return a note for each option that is set by a former key."""
    return tuple(
        f"{setting.key}: this option is called {setting.known.key} now; the former key is still read"
        for setting in settings
        if setting.key.casefold() in map(str.casefold, setting.known.option.was)
    )


def _settings(items: tuple[Item, ...], above: tuple[str, ...], path: str) -> Iterator[_Setting]:
    """Yield the options that these items set; ``above`` are the keys of their groups, as the model spells them."""
    written: dict[str, Item] = {}
    for item in items:
        here = (*above, item.key)
        known, group = known_at(here), group_at(here)
        if known is not None:
            # The YAML parser refuses equal keys; a former key and its new one are equal here alone.
            earlier = written.setdefault(known.key, item)
            if earlier.key.casefold() != item.key.casefold():
                both = f"{earlier.key} (line {earlier.line}) and {item.key} are the same option: keep {known.key}"
                raise ConfigError(path, item.line, known.key, both)
            yield from _setting(known, item, path)
        elif group is not None:
            if isinstance(item.value, Mapping):
                yield from _settings(item.value.items, group, path)
            elif not (isinstance(item.value, Scalar) and item.value.is_null):
                raise ConfigError(path, item.line, ".".join(group), "expected a mapping")
        else:
            raise ConfigError(path, item.line, ".".join(here), _unknown(here))


def _folded(path: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(key.casefold() for key in path)


_BY_PATH: Final = {_folded(path): known for known in known_options() for path in known.paths}
# The groups of options by their paths, as the model spells them.
_GROUPS: Final = {_folded(k.path[:end]): k.path[:end] for k in known_options() for end in range(1, len(k.path))}


def known_at(path: tuple[str, ...]) -> Known | None:
    """Return the option with these keys from the top, in any spelling; None where there is none."""
    return _BY_PATH.get(_folded(path))


def group_at(path: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the path as the model spells it if options lie below it; None else."""
    return _GROUPS.get(_folded(path))


def _unknown(path: tuple[str, ...]) -> str:
    """Return the problem with the nearest known key: of the same group first, then of any by its last part."""
    size = len(path)
    near = {k.path[size - 1].casefold(): k.path[:size] for k in known_options() if _is_beside(k.path, path)}
    far = {k.path[-1].casefold(): k.path for k in known_options()}
    for names in (near, far):
        close = similar(path[-1].casefold(), names)
        if close:
            return f"unknown option; {question('.'.join(names[close]))}"
    return f"unknown option; known here: {', '.join(sorted({p[-1] for p in near.values()}))}"


def _is_beside(known: tuple[str, ...], path: tuple[str, ...]) -> bool:
    return len(known) >= len(path) and _folded(known[: len(path) - 1]) == _folded(path[:-1])


def _setting(known: Known, item: Item, path: str) -> Iterator[_Setting]:
    """Yield the option with its value; null sets nothing, as in objects of Kubernetes."""
    if known.option.takes_mapping and known.is_list and isinstance(item.value, Mapping):
        entries = tuple(entry for inner in item.value.items for entry in _entry(known, inner, path))
        yield _Setting(known, entries, item.key)
        return
    raw = _raw(known, item.value, path)
    if raw is None:
        return
    try:
        yield _Setting(known, read_value(known, raw), item.key)
    except ValueError as error:
        raise ConfigError(path, item.line, known.key, str(error)) from None


def _entry(known: Known, item: Item, path: str) -> tuple[object, ...]:
    """Return the values of one entry of an option that takes a mapping."""
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
            return tuple(_item_text(known, item, path) for item in tree.items)
        case Mapping() if known.option.item_fields:
            return (_item_text(known, tree, path),)
        case Mapping(items=(entry,)) if known.option.takes_mapping:
            return f"{entry.key}={_text(known, entry.value, path)}"
    raise ConfigError(path, tree.line, known.key, "expected a value, got a mapping")


def _item_text(known: Known, tree: Tree, path: str) -> str:
    """Return an item of a list as its option reads it: a mapping as ``KEY=A,B KEY=C``."""
    expected = known.option.item_fields
    if not expected:
        return _text(known, tree, path)
    if not isinstance(tree, Mapping):
        raise ConfigError(path, tree.line, known.key, f"expected a list of mappings of {' and '.join(expected)}")
    given = {field.key.casefold(): field for field in tree.items}
    for name, field in given.items():
        if name not in expected:
            problem = f"is no key of an entry of {known.key}: use {' and '.join(expected)}"
            raise ConfigError(path, field.line, field.key, problem)
    return " ".join(f"{name}={','.join(_words(known, given.get(name), path))}" for name in expected)


def _words(known: Known, field: Item | None, path: str) -> Iterator[str]:
    """Yield the words under a key of an item, none where it is absent or null."""
    if field is None or (isinstance(field.value, Scalar) and field.value.is_null):
        return
    for tree in field.value.items if isinstance(field.value, Listing) else (field.value,):
        word = tree.text if isinstance(tree, Scalar) and not tree.is_null else ""
        if not word or set(word) & _SEPARATORS or word.split() != [word]:
            raise ConfigError(path, tree.line, f"{known.key}.{field.key}", "expected a list of words")
        yield word


def _text(known: Known, tree: Tree, path: str) -> str:
    if isinstance(tree, Scalar) and not tree.is_null:
        return tree.text
    what = "a mapping of strings" if known.option.takes_mapping else "a list of strings"
    raise ConfigError(path, tree.line, known.key, f"expected {what}")
