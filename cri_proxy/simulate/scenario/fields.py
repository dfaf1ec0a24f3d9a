"""Typed access to a scenario's YAML values; every error names the file and the line.

Mappings are read key by key against a list of known ones: an unknown, doubled or misspelt key is an error.
"""

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import TypeVar

from cri_proxy.bounded_yaml import Dialect, Listing, Mapping, Scalar, Tree, YamlError, parse_documents, plain
from cri_proxy.simulate.errors import ScenarioError

T = TypeVar("T")

MAX_BYTES = 4 << 20
_DIALECT = Dialect(MAX_BYTES, max_depth=40, max_nodes=200_000, has_aliases=True)


class Field:
    """A value of a scenario file."""

    def __init__(self, source: str, tree: Tree) -> None:
        """``source`` names the file in errors."""
        self._source = source
        self._tree = tree
        self.line = tree.line

    @property
    def is_scalar(self) -> bool:
        """Whether it is a single value."""
        return isinstance(self._tree, Scalar)

    @property
    def is_null(self) -> bool:
        """Whether nothing stands there."""
        return isinstance(self._tree, Scalar) and self._tree.is_null

    def refuse(self, problem: str) -> ScenarioError:
        """Return an error about this value."""
        return ScenarioError(self._source, self.line, problem)

    def mapping(self, known: Sequence[str], what: str) -> dict[str, "Field"]:
        """Return the values by key, in the order written; ``what`` names the thing in errors."""
        entries = self.entries(what)
        for key, value in entries.items():
            if key not in known:
                near = get_close_matches(key, known, 1)
                remedy = f"did you mean {near[0]!r}?" if near else f"known keys are {', '.join(known)}"
                raise value.refuse(f"{what}: unknown key {key!r}; {remedy}")
        return entries

    def entries(self, what: str) -> dict[str, "Field"]:
        """As ``mapping``, with any keys."""
        if not isinstance(self._tree, Mapping):
            raise self.refuse(f"{what}: expected a mapping, got {self.shown()}")
        found: dict[str, Field] = {}
        for item in self._tree.items:
            if item.key in found:
                raise ScenarioError(self._source, item.line, f"{what}: {item.key!r} stands twice")
            found[item.key] = Field(self._source, item.value)
        return found

    def items(self, what: str) -> list["Field"]:
        """Return the values of a list; a missing value is an empty one."""
        if self.is_null:
            return []
        if not isinstance(self._tree, Listing):
            raise self.refuse(f"{what}: expected a list, got {self.shown()}")
        return [Field(self._source, tree) for tree in self._tree.items]

    def text(self, what: str) -> str:
        """Return a scalar as it is written: ``750m``, ``2`` and ``true`` are all texts here."""
        if not isinstance(self._tree, Scalar):
            raise self.refuse(f"{what}: expected a text or number, got {self.shown()}")
        return self._tree.text

    def parsed(self, what: str, parse: Callable[[str], T]) -> T:
        """Return what ``parse`` makes of the text; it raises ValueError."""
        text = self.text(what)
        try:
            return parse(text)
        except ValueError as error:
            raise self.refuse(f"{what}: {error}") from None

    def truth(self, what: str) -> bool:
        """Return true or false."""
        text = self.text(what).lower()
        if text not in {"true", "false"}:
            raise self.refuse(f"{what}: expected true or false, got {self.shown()}")
        return text == "true"

    def plain(self) -> object:
        """Return the value as JSON has it; what JSON has no form for (dates) is its text."""
        try:
            return plain(self._tree)
        except YamlError as error:
            raise ScenarioError(self._source, error.line, error.problem) from None

    def shown(self) -> str:
        """Return what it is, for an error: short."""
        match self._tree:
            case Mapping():
                return "a mapping"
            case Listing():
                return "a list"
        text = self._tree.text
        return repr(text if len(text) <= 40 else text[:39] + "…")


def documents(text: str, source: str) -> Iterator[Field]:
    """Yield the documents of a file, without empty ones. Raises ScenarioError for what is not YAML."""
    try:
        for tree in parse_documents(text, _DIALECT):
            yield Field(source, tree)
    except YamlError as error:
        key = f"{error.key}: " if error.key else ""
        raise ScenarioError(source, error.line, f"{key}{error.problem}") from None
