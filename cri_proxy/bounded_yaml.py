"""YAML text as a small frozen tree in which every node knows its line. Bounded in every direction."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import yaml

from cri_proxy.errors import ConfigError

# A ConfigMap cannot hold more than 1 MiB (Kubernetes documentation, ConfigMap).
MAX_BYTES = 1 << 20
MAX_DEPTH = 16
_NULL = "tag:yaml.org,2002:null"
_LOADER: type[yaml.CSafeLoader] | type[yaml.SafeLoader] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True, slots=True)
class Scalar:
    """A scalar's text as written, without quotes.

    ``text_line`` is the line on which the text begins: for a block scalar it is the one after its ``|``.
    """

    text: str
    line: int
    text_line: int
    is_null: bool = False


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


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping, in the order written; no key occurs twice, whatever its case."""

    items: tuple[Item, ...]
    line: int

    def get(self, key: str) -> "Tree | None":
        """The value of this key, whatever its case; None when absent."""
        return next((item.value for item in self.items if item.key.casefold() == key.casefold()), None)


Tree = Scalar | Listing | Mapping


@contextmanager
def _named(text: str, path: str, first_line: int) -> Iterator[None]:
    """YAML's errors become ours, with the line in the whole file."""
    try:
        yield
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + first_line if error.problem_mark else 0
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise ConfigError(path, line, "", f"not YAML: {said}") from error
    except yaml.reader.ReaderError as error:
        # Its position counts characters or bytes, as the library was built; no other such character comes before.
        line = text.count("\n", 0, text.find(chr(error.character))) + first_line
        problem = f"not YAML: U+{error.character:04X} is no character that may stand here: remove it"
        raise ConfigError(path, line, "", problem) from error
    except yaml.YAMLError as error:
        raise ConfigError(path, 0, "", f"not YAML: {str(error).splitlines()[0]}") from error


def _refuse_bombs(text: str, path: str, first_line: int) -> None:
    """Raise for deep nesting and for aliases, before anything recursive looks at the text.

    Aliases are refused as a whole: a few lines of them stand for gigabytes, and no configuration needs one.
    """
    depth = 0
    for event in yaml.parse(text, Loader=_LOADER):
        line = event.start_mark.line + first_line if event.start_mark else 0
        if isinstance(event, yaml.AliasEvent):
            raise ConfigError(path, line, "", f"aliases (*{event.anchor}) are not supported: write the value out")
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MAX_DEPTH:
            raise ConfigError(path, line, "", f"nested deeper than {MAX_DEPTH} levels")


def parse_tree(text: str, path: str, first_line: int = 1) -> Tree | None:
    """The tree of one YAML document, None for an empty one. ``first_line`` is the text's line in the file.

    Raises ConfigError with path and line.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise ConfigError(path, 0, "", f"larger than {MAX_BYTES} bytes, the most that a ConfigMap holds")
    with _named(text, path, first_line):
        _refuse_bombs(text, path, first_line)
        node = yaml.compose(text, Loader=_LOADER)
    if node is None:
        return None
    tree = _convert(node, path, first_line)
    return None if isinstance(tree, Scalar) and tree.is_null else tree


def _convert(node: yaml.Node, path: str, first_line: int) -> Tree:
    line = node.start_mark.line + first_line
    if isinstance(node, yaml.MappingNode):
        return Mapping(tuple(_items(node, path, first_line)), line)
    if isinstance(node, yaml.SequenceNode):
        return Listing(tuple(_convert(item, path, first_line) for item in node.value), line)
    is_block = getattr(node, "style", None) in ("|", ">")
    return Scalar(node.value, line, line + is_block, node.tag == _NULL)


def _items(node: yaml.MappingNode, path: str, first_line: int) -> Iterator[Item]:
    seen: dict[str, int] = {}
    for key, value in node.value:
        line = key.start_mark.line + first_line
        if not isinstance(key, yaml.ScalarNode):
            raise ConfigError(path, line, "", "expected a key, got a list or mapping")
        folded = key.value.casefold()
        if folded in seen:
            raise ConfigError(path, line, key.value, f"is there already, on line {seen[folded]}: keep one")
        seen[folded] = line
        yield Item(key.value, line, _convert(value, path, first_line))
