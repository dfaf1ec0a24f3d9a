"""YAML whose parts know their line, so that every complaint about a scenario names one.

Mappings are read key by key against a list of known ones: an unknown, doubled or misspelt key is an error.
"""

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from math import isfinite

import yaml

from cri_proxy.simulate.errors import ScenarioError

# Aliases can stand for more than they are long: what a file spells out is bounded, and no part may hold itself.
MAX_PARTS = 200_000
MAX_DEPTH = 40
_Pair = tuple[yaml.Node, yaml.Node]
_PLAIN_TAGS = frozenset({"null", "bool", "int", "float"})


class Located:
    """A part of a YAML file."""

    def __init__(self, source: str, node: yaml.Node) -> None:
        """``source`` names the file in errors."""
        self._source = source
        self._node = node

    @property
    def line(self) -> int:
        """Where it begins, from 1."""
        return int(self._node.start_mark.line) + 1

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single value."""
        return isinstance(self._node, yaml.ScalarNode)

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return bool(self._node.tag == "tag:yaml.org,2002:null")

    def refuse(self, problem: str) -> ScenarioError:
        """An error about this part."""
        return ScenarioError(self._source, self.line, problem)

    def mapping(self, known: Sequence[str], what: str) -> dict[str, "Located"]:
        """The values by key, in the order written; ``what`` names the thing in errors."""
        entries = self.entries(what)
        for key, value in entries.items():
            if key not in known:
                near = get_close_matches(key, known, 1)
                remedy = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(known)}"
                raise ScenarioError(self._source, value.line, f"{what}: unknown key {key!r}; {remedy}")
        return entries

    def entries(self, what: str) -> dict[str, "Located"]:
        """As ``mapping``, with any keys."""
        if not isinstance(self._node, yaml.MappingNode):
            raise self.refuse(f"{what}: expected a mapping, got {self.shown()}")
        merged, own = _merged_and_own(self._node)
        found: dict[str, Located] = {}
        for key_node, value_node in own:
            key = Located(self._source, key_node).text(f"a key of {what}")
            if key in found:
                raise ScenarioError(self._source, int(key_node.start_mark.line) + 1, f"{what}: {key!r} stands twice")
            found[key] = Located(self._source, value_node)
        inherited = ((Located(self._source, key).text("a key"), value) for key, value in merged)
        return {key: Located(self._source, value) for key, value in inherited if key not in found} | found

    def items(self, what: str) -> list["Located"]:
        """The parts of a list; a missing value is an empty one."""
        if self.is_null:
            return []
        if not isinstance(self._node, yaml.SequenceNode):
            raise self.refuse(f"{what}: expected a list, got {self.shown()}")
        return [Located(self._source, node) for node in self._node.value]

    def text(self, what: str) -> str:
        """A scalar as it is written: ``750m``, ``2`` and ``true`` are all texts here."""
        if not isinstance(self._node, yaml.ScalarNode):
            raise self.refuse(f"{what}: expected a text or number, got {self.shown()}")
        return str(self._node.value)

    def truth(self, what: str) -> bool:
        """True or false."""
        text = self.text(what).lower()
        if text not in {"true", "false"}:
            raise self.refuse(f"{what}: expected true or false, got {self.shown()}")
        return text == "true"

    def plain(self) -> object:
        """The value as JSON has it; what JSON has no form for (dates) is its text."""
        node = self._node
        if isinstance(node, yaml.MappingNode):
            return {key: value.plain() for key, value in self.entries("a mapping").items()}
        if isinstance(node, yaml.SequenceNode):
            return [Located(self._source, item).plain() for item in node.value]
        if node.tag.rpartition(":")[2] in _PLAIN_TAGS:
            try:
                value: object = yaml.constructor.SafeConstructor().construct_object(node)
            except (ValueError, yaml.YAMLError):
                return str(node.value)
            if not isinstance(value, float) or isfinite(value):
                return value
        return str(node.value)

    def shown(self) -> str:
        """What it is, for an error: short."""
        match self._node:
            case yaml.MappingNode():
                return "a mapping"
            case yaml.SequenceNode():
                return "a list"
        value = str(self._node.value)
        return repr(value if len(value) <= 40 else value[:39] + "…")


def _merged_and_own(node: yaml.MappingNode) -> tuple[list[_Pair], list[_Pair]]:
    """The pairs that ``<<`` brings in, and those that stand here. The node is left as it was."""
    written: list[_Pair] = list(node.value)
    own = [pair for pair in written if pair[0].tag != "tag:yaml.org,2002:merge"]
    if len(own) == len(written):
        return [], own
    yaml.constructor.SafeConstructor().flatten_mapping(node)
    flat: list[_Pair] = list(node.value)
    node.value = written
    return flat[: len(flat) - len(own)], own


def documents(text: str, source: str) -> Iterator[Located]:
    """The documents of a file, empty ones left out. Raises ScenarioError for what is not YAML."""
    try:
        for node in yaml.compose_all(text, Loader=yaml.SafeLoader):
            if node is not None and node.tag != "tag:yaml.org,2002:null":
                _check_extent(node, source)
                yield Located(source, node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = int(mark.line) + 1 if mark is not None else 0
        raise ScenarioError(source, line, f"not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ScenarioError(source, 0, f"not YAML: {' '.join(str(error).split())}") from None


def _check_extent(top: yaml.Node, source: str) -> None:
    """Refuse what would be endless, or far larger than written, with its aliases spelt out."""
    budget = MAX_PARTS
    stack = [(top, 0)]
    while stack:
        node, depth = stack.pop()
        budget -= 1
        if budget < 0 or depth > MAX_DEPTH:
            raise ScenarioError(source, int(node.start_mark.line) + 1, "too large or too deep, with its aliases")
        if isinstance(node, yaml.MappingNode):
            stack.extend((part, depth + 1) for pair in node.value for part in pair)
        elif isinstance(node, yaml.SequenceNode):
            stack.extend((part, depth + 1) for part in node.value)
