"""Parse annotation text as bounded JSON or YAML; read booleans, shared-CPU preferences, word lists, container maps.

Every parser takes a parsed JSON or YAML value and raises ``ValueError`` with a phrase: what was expected. No
text makes one raise anything else, recurse deeply or expand aliases.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

from cri_proxy.bounded_yaml import Dialect, NodeCount, YamlError, parse_tree, plain

# Of all annotations of a pod together, keys included. Ten containers with resources, affinities and device paths of
# their own take 6 KiB; Kubernetes allows 256 KiB, and the event loop would read them before each of its containers.
MAX_BYTES: Final = 16 * 1024
MAX_DEPTH = 16
# Of all annotations of a pod together: each takes 3 µs to parse. A pod's forty affinities with key, operator and value.
# JSON does not count: it is parsed a hundred times faster.
MAX_NODES: Final = 512
TEXT_NODES: Final = 6  # what each text in YAML counts beside its own nodes: to start the parser takes as long
_DIALECT = Dialect(MAX_BYTES, MAX_DEPTH, MAX_NODES, has_tags=False)
MAX_LEVELS_UP = 1000  # far above any tree; a clamp for numbers that only mean "the root"

_INTEGER = re.compile(r"[+-]?\d{1,9}\Z")
_WORD = re.compile(r"[a-z][a-z0-9-]{0,63}\Z")  # most values; YAML takes them as they are, but for these
_NO_WORDS = frozenset({"yes", "no", "on", "off", "null"})
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NOT_STORABLE = "an escape may stand neither for NUL nor for half a surrogate pair"


@dataclass(frozen=True, slots=True)
class ReadText:
    """An annotation's text with its parsed value (not to be changed); ``problem`` if it does not parse."""

    text: str
    value: object = None
    problem: str = ""

    @classmethod
    def of(cls, text: str, count: NodeCount | None = None) -> Self:
        """Parse a text. Never raises."""
        try:
            return cls(text, parse_text(text, count))
        except ValueError as error:
            return cls(text, problem=str(error))


def parse_text(text: str, count: NodeCount | None = None) -> object:
    """Parse an annotation's text: a boolean, a number, a string, a list or a map, as JSON or YAML.

    ``count`` holds the YAML nodes of the pod's other texts, which share the bound. Raises ValueError for a text that is
    too long, too deep, holds aliases or is no YAML.

    >>> parse_text('{"c0": -1, "c1": true}')
    {'c0': -1, 'c1': True}
    """
    if len(text.encode(errors="surrogatepass")) > MAX_BYTES:
        raise ValueError(f"longer than {MAX_BYTES} bytes")
    lower = text.strip().lower()
    if lower in {"true", "false"}:
        return lower == "true"
    if _INTEGER.match(lower):
        return int(lower)
    if _WORD.match(text) and text not in _NO_WORDS:
        return text
    if lower[:1] in ("{", "["):
        try:
            return _checked_json(text)
        except (json.JSONDecodeError, RecursionError):
            pass  # YAML's own flow style looks much the same
    try:
        if count is not None:
            count.nodes += TEXT_NODES
        value = plain(parse_tree(text, _DIALECT, count=count))
    except YamlError as error:
        raise ValueError(str(error)) from None
    if "\\" in text and not _is_storable(value):
        raise ValueError(_NOT_STORABLE)
    return value


def _is_storable(value: object) -> bool:
    """Whether no escape has made a NUL or half a surrogate pair: neither can be stored or passed on."""
    if isinstance(value, dict):
        return all(_is_storable(key) and _is_storable(entry) for key, entry in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_storable, value))
    return not isinstance(value, str) or not _UNSTORABLE.search(value)


def _checked_json(text: str) -> object:
    """Parse JSON, a hundred times faster than YAML. Raises ValueError when it is nested too deep."""
    value: object = json.loads(text)
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    if any(isinstance(inner, list | dict) for inner in level):
        raise ValueError(f"nested deeper than {MAX_DEPTH}")
    if "\\u" in text and not _is_storable(value):
        raise ValueError(_NOT_STORABLE)
    return value


def truth(value: object) -> bool:
    """Read true or false, as a word too. Raises ValueError for anything else."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in {"true", "false"}:
        return value.strip().lower() == "true"
    raise ValueError("expected true or false")


def shared_preference(value: object) -> tuple[bool, int]:
    """Return whether shared CPUs are preferred, and how many levels above the best pool.

    As in cri-resource-manager: true and 0 mean the best pool itself, -N means N levels up. Raises ValueError.

    >>> shared_preference(-1)
    (True, 1)
    """
    if isinstance(value, str) and _INTEGER.match(value.strip()):
        value = int(value)
    if isinstance(value, int) and not isinstance(value, bool) and value <= 0:
        return True, min(-value, MAX_LEVELS_UP)
    try:
        return truth(value), 0
    except ValueError:
        raise ValueError("expected true, false, 0 or a negative integer") from None


def by_container(value: object, value_fields: frozenset[str] = frozenset()) -> Mapping[str, object] | None:
    """Return the value as a map by container name, or None when it is one value for the whole pod.

    A map with only ``value_fields`` as keys is one value, unless its values are maps; so is one with a slash in a key,
    which no container's name has (RFC 1123 label).

    >>> by_container({"duration": "60s"}, frozenset({"duration"})) is None
    True
    """
    if not isinstance(value, dict) or any("/" in key for key in value if isinstance(key, str)):
        return None
    if value and value_fields.issuperset(value) and not any(isinstance(entry, dict) for entry in value.values()):
        return None
    return {str(name): entry for name, entry in value.items()}


def listed(value: object, expected: str) -> tuple[str, ...]:
    """Return the words of a list, or of a text that separates them by commas; at least one. Raises ValueError.

    >>> listed("dram, pmem", "kinds")
    ('dram', 'pmem')
    """
    words: tuple[object, ...] = ()
    if isinstance(value, str):
        words = tuple(word.strip() for word in value.split(","))
    elif isinstance(value, list):
        words = tuple(word.strip() if isinstance(word, str) else word for word in value)
    found = tuple(word for word in words if isinstance(word, str) and word)
    if not found or len(found) != len(words):
        raise ValueError(f"expected {expected}")
    return found
