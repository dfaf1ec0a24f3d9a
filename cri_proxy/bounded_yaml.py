"""Parse untrusted YAML into frozen trees with line numbers, within limits on bytes, depth, nodes and aliases."""

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from math import isfinite
from typing import Final

import yaml

from cri_proxy.errors import CriProxyError

# PyYAML may have been built without libyaml, whose parser is the fast one.
_LOADER: "type[yaml.CSafeLoader] | type[yaml.SafeLoader]" = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Final = yaml.resolver.Resolver()
_CONSTRUCTOR: Final = yaml.constructor.SafeConstructor()
# Scalars that JSON has a form for, by the last part of their tag.
_PLAIN: Final[dict[str, Callable[[yaml.ScalarNode], object]]] = {
    "null": _CONSTRUCTOR.construct_yaml_null,
    "bool": _CONSTRUCTOR.construct_yaml_bool,
    "int": _CONSTRUCTOR.construct_yaml_int,
    "float": _CONSTRUCTOR.construct_yaml_float,
}
_LONG_NUMBER: Final = re.compile(r"[-+]?[0-9][0-9a-fA-FoxOX_:.]{64,}\Z")


@dataclass(eq=False)
class YamlError(CriProxyError):
    """A rejected text. ``line`` 0 = unknown; ``key`` is the key with the problem ('' = none)."""

    line: int
    problem: str
    key: str = ""

    def __str__(self) -> str:
        return f"line {self.line}: {self.problem}" if self.line else self.problem


@dataclass(frozen=True, slots=True)
class Dialect:
    """The limits on a text. An alias counts as many nodes as it stands for.

    ``has_aliases``: aliases and merge keys (``<<``) are accepted. ``has_tags``: tags (``!name``) are accepted and
    choose no constructor. ``has_unique_keys``: a repeated key in a mapping, whatever its case, is refused.
    """

    max_bytes: int
    max_depth: int
    max_nodes: int
    has_aliases: bool = False
    has_tags: bool = True
    has_unique_keys: bool = False


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar's text as written, without quotes.

    ``text_line`` is the line on which the text begins: for a block scalar it is the one after its ``|``. ``kind`` is
    YAML 1.1's type, the last part of the tag: ``str``, ``int``, ``null``, ... ``column`` counts from 1; 0 = unknown.
    """

    text: str
    line: int
    text_line: int
    kind: str = field(default="str", compare=False)
    column: int = field(default=0, compare=False)

    @property
    def is_null(self) -> bool:
        """Whether the value is null or absent."""
        return self.kind == "null"


@dataclass(frozen=True, slots=True)
class Listing:
    """A sequence."""

    items: tuple["Tree", ...]
    line: int


@dataclass(frozen=True, slots=True)
class Item:
    """A key of a mapping with its value."""

    key: str
    line: int
    value: "Tree"
    column: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping, in the order written; keys that ``<<`` merges and the mapping does not set come first."""

    items: tuple[Item, ...]
    line: int

    def get(self, key: str) -> "Tree | None":
        """Return the value of this key, whatever its case; None when absent."""
        return next((item.value for item in self.items if item.key.casefold() == key.casefold()), None)


Tree = Scalar | Listing | Mapping


@dataclass(slots=True)
class NodeCount:
    """How many nodes were read, also of texts that were rejected; one count may bound several texts together."""

    nodes: int = 0


def parse_documents(text: str, dialect: Dialect, first_line: int = 1, count: NodeCount | None = None) -> Iterator[Tree]:
    """Yield the documents of a text as they are read, without empty ones.

    ``first_line`` is the line on which the text begins in its file; ``count`` holds the nodes of earlier texts, which
    share the bound. Raises YamlError.
    """
    if len(text.encode("utf-8", "surrogatepass")) > dialect.max_bytes:
        raise YamlError(0, f"larger than {dialect.max_bytes} bytes")
    count = count or NodeCount()
    builder = _Builder(dialect, first_line, count)
    with _as_yaml_error(text, first_line):
        for event in yaml.parse(text, Loader=_LOADER):
            if isinstance(event, yaml.DocumentStartEvent):
                builder = _Builder(dialect, first_line, count)
            elif not isinstance(event, yaml.DocumentEndEvent):
                builder.add(event)
            elif not (isinstance(builder.root, Scalar) and builder.root.is_null):
                yield builder.root


def parse_tree(text: str, dialect: Dialect, first_line: int = 1, count: NodeCount | None = None) -> Tree | None:
    """Return the only document of a text, None for an empty one. Raises YamlError, for a second document too."""
    found = list(islice(parse_documents(text, dialect, first_line, count), 2))
    if len(found) > 1:
        raise YamlError(found[1].line, "not YAML: expected a single document, got another one")
    return found[0] if found else None


def tree_at(tree: Tree | None, *keys: str) -> Tree | None:
    """Return what lies under these keys, each in the mapping of the one before; None where nothing does."""
    for key in keys:
        tree = tree.get(key) if isinstance(tree, Mapping) else None
    return tree


def word_at(tree: Tree | None, *keys: str) -> str:
    """Return the text of the single value under these keys; '' for null, for others, and where nothing lies there."""
    found = tree_at(tree, *keys)
    return found.text if isinstance(found, Scalar) and not found.is_null else ""


def plain(tree: Tree | None) -> object:
    """Return the value as JSON has it. Keys are strings; so are values without a JSON form, as dates and infinity.

    Raises YamlError for numbers that take long to read.

    >>> plain(parse_tree("a: [1, yes, 2024-01-01]", Dialect(100, 3, 10)))
    {'a': [1, True, '2024-01-01']}
    """
    match tree:
        case Mapping():
            return {item.key: plain(item.value) for item in tree.items}
        case Listing():
            return [plain(item) for item in tree.items]
        case Scalar() if tree.kind in _PLAIN:
            return _plain_scalar(tree)
    return None if tree is None else tree.text


def _plain_scalar(scalar: Scalar) -> object:
    if _LONG_NUMBER.match(scalar.text):  # YAML counts in base 60 as well, which takes the square of the length
        raise YamlError(scalar.line, "a number of more than 64 digits")
    try:
        value = _PLAIN[scalar.kind](yaml.ScalarNode("", scalar.text))
    except (ValueError, KeyError, OverflowError):  # a tag that promises what the text is not: !!bool maybe
        return scalar.text
    return scalar.text if isinstance(value, float) and not isfinite(value) else value


@contextmanager
def _as_yaml_error(text: str, first_line: int) -> Iterator[None]:
    """Raise the library's errors as ours, with the line in the whole file."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        # What is missing at the end of a text is found on the line after its last one.
        line = min(mark.line, max(text.count("\n", 0, -1), 0)) + first_line if mark else 0
        if "cannot start any token" in said and _is_tab(text, mark):
            said = "a tab where a value begins: YAML indents with spaces"
        raise YamlError(line, f"not YAML: {said}") from error
    except yaml.reader.ReaderError as error:
        # Its position counts characters or bytes, as the library was built; no other such character comes before.
        line = text.count("\n", 0, text.find(chr(error.character))) + first_line
        raise YamlError(line, f"not YAML: U+{error.character:04X} is not allowed here: remove it") from error
    except (yaml.YAMLError, UnicodeError, OverflowError) as error:
        raise YamlError(0, f"not YAML: {str(error).splitlines()[0]}") from error


def _is_tab(text: str, mark: yaml.Mark | None) -> bool:
    """Return whether a tab stands there: the library shows the character in one of its builds only."""
    if mark is None:
        return False
    line = text.split("\n", mark.line + 1)[mark.line : mark.line + 1]
    return bool(line) and line[0][mark.column : mark.column + 1] == "\t"


@dataclass(slots=True)
class _Open:
    """A collection that has not ended. ``parts`` of a mapping alternate between keys and values."""

    start: yaml.CollectionStartEvent
    line: int
    nodes_before: int
    parts: list[Tree] = field(default_factory=list)
    height: int = 1


class _Builder:
    """Builds the tree of one document from the parser's events; checks every bound before it is passed."""

    def __init__(self, dialect: Dialect, first_line: int, count: NodeCount) -> None:
        self._dialect = dialect
        self._read = count
        self._first_line = first_line
        self._open: list[_Open] = []
        # The tree that an alias stands for, its number of nodes and its depth; None until it has ended.
        self._anchors: dict[str, tuple[Tree, int, int] | None] = {}
        self._nodes = 0
        self.root: Tree = Scalar("", first_line, first_line, "null")

    def add(self, event: yaml.Event) -> None:
        """Take the next event of the document. Raises YamlError."""
        line = self._first_line + (event.start_mark.line if event.start_mark else 0)
        match event:
            case yaml.AliasEvent():
                self._alias(event.anchor or "", line)
            case yaml.CollectionStartEvent():
                self._check_node(event.tag, line)
                self._check_depth(1, line)
                self._open.append(_Open(event, line, self._nodes - 1))
                if event.anchor is not None:
                    self._anchors[event.anchor] = None
            case yaml.CollectionEndEvent():
                closed = self._open.pop()
                is_mapping = isinstance(closed.start, yaml.MappingStartEvent)
                tree = self._mapping(closed) if is_mapping else Listing(tuple(closed.parts), closed.line)
                self._put(tree, closed.start.anchor, self._nodes - closed.nodes_before, closed.height)
            case yaml.ScalarEvent():
                self._check_node(event.tag, line)
                text_line = line + (event.style in ("|", ">"))
                column = event.start_mark.column + 1 if event.start_mark else 0
                scalar = Scalar(event.value, line, text_line, _kind(event), column)
                self._put(scalar, event.anchor, nodes=1, height=0)

    def _check_node(self, tag: str | None, line: int) -> None:
        if tag is not None and not self._dialect.has_tags:
            raise YamlError(line, "tags (!name) are not supported; write the plain value")
        self._count(1, line)

    def _count(self, nodes: int, line: int) -> None:
        self._nodes += nodes
        self._read.nodes += nodes
        if self._read.nodes > self._dialect.max_nodes:
            raise YamlError(line, f"more than {self._dialect.max_nodes} keys and values")

    def _check_depth(self, height: int, line: int) -> None:
        if len(self._open) + height > self._dialect.max_depth:
            raise YamlError(line, f"nested deeper than {self._dialect.max_depth} levels")

    def _alias(self, anchor: str, line: int) -> None:
        """Add the tree that an alias stands for, not a copy: a bomb costs no memory before it is refused."""
        if not self._dialect.has_aliases:
            raise YamlError(line, f"aliases (*{anchor}) are not supported: write the value out")
        meant = self._anchors.get(anchor)
        if meant is None:
            problem = "stands inside what it names" if anchor in self._anchors else "names nothing before it"
            raise YamlError(line, f"alias *{anchor} {problem}")
        tree, nodes, height = meant
        self._count(nodes, line)
        self._check_depth(height, line)
        self._put(tree, None, nodes, height)

    def _put(self, tree: Tree, anchor: str | None, nodes: int, height: int) -> None:
        if anchor is not None:
            self._anchors[anchor] = (tree, nodes, height)
        if self._open:
            self._open[-1].parts.append(tree)
            self._open[-1].height = max(self._open[-1].height, height + 1)
        else:
            self.root = tree

    def _mapping(self, closed: _Open) -> Mapping:
        own: list[Item] = []
        merged: dict[str, Item] = {}
        for key, value in zip(closed.parts[::2], closed.parts[1::2], strict=True):
            if not isinstance(key, Scalar):
                raise YamlError(key.line, "expected a key, got a list or mapping")
            if key.kind == "merge" and self._dialect.has_aliases:
                merged |= {item.key: item for item in _merged(key, value)}
            else:
                own.append(Item(key.text, key.line, value, key.column))
        if self._dialect.has_unique_keys:
            _refuse_doubled(own)
        own_keys = {item.key for item in own}
        return Mapping((*(item for key, item in merged.items() if key not in own_keys), *own), closed.line)


def _kind(event: yaml.ScalarEvent) -> str:
    tag = event.tag
    if tag is None or tag == "!":
        tag = str(_RESOLVER.resolve(yaml.ScalarNode, event.value, event.implicit))  # type: ignore[no-untyped-call]
    return tag.rpartition(":")[2]


def _merged(key: Scalar, value: Tree) -> Iterator[Item]:
    """Yield the items of a merge key; in a list of mappings the first one wins, so it comes last."""
    for source in reversed(value.items if isinstance(value, Listing) else (value,)):
        if not isinstance(source, Mapping):
            raise YamlError(key.line, "expected a mapping, or a list of mappings, to merge", key.text)
        yield from source.items


def _refuse_doubled(items: Iterable[Item]) -> None:
    seen: dict[str, int] = {}
    for item in items:
        folded = item.key.casefold()
        if folded in seen:
            raise YamlError(item.line, f"is already set on line {seen[folded]}: keep one", item.key)
        seen[folded] = item.line
