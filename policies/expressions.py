"""Evaluate affinity match expressions on a container: look up keys (also joint ones), apply operators; show in words.

Their meaning (docs/placement.md, Affinity) is what users of cri-resource-manager and nri-plugins know: keys name,
namespace, qosclass, id, labels/K, tags/K and pod/...; a key with a dot is a label; ``:a:b`` joins several values.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from operator import attrgetter, or_
from types import MappingProxyType

from policies.base import Expression, Labels, Request
from policies.glob import Texts

_SHOWN_VALUES = 4
_SHOWN_CHARS = 160

_FIELDS: Mapping[str, Callable[[Request], str]] = MappingProxyType(
    {
        "name": attrgetter("container.name"),
        "namespace": attrgetter("pod.namespace"),
        "qosclass": attrgetter("pod.qos.value"),
        "id": lambda c: f"{c.pod.uid}/{c.container.name}",
        "pod/name": attrgetter("pod.name"),
        "pod/namespace": attrgetter("pod.namespace"),
        "pod/qosclass": attrgetter("pod.qos.value"),
        "pod/id": attrgetter("pod.uid"),
        "pod/uid": attrgetter("pod.uid"),
    }
)

# Labels that the kubelet sets on every container, known here even where the labels did not come along.
_KUBELET_LABELS = {
    "io.kubernetes.container.name": "name",
    "io.kubernetes.pod.name": "pod/name",
    "io.kubernetes.pod.namespace": "pod/namespace",
    "io.kubernetes.pod.uid": "pod/uid",
}


class Containers:
    """Several containers that expressions are evaluated on together. An answer is a mask: bit i for the i-th one.

    Each key is looked up once in each container, each pattern matched once with all values of a key.
    """

    def __init__(self, containers: Sequence[Request]) -> None:
        self._containers = containers
        self._every = (1 << len(containers)) - 1
        self._columns: dict[str, _Column] = {}

    def matching(self, expression: Expression) -> int:
        """Return the containers that satisfy the expression. An unknown operator matches nothing."""
        if expression.operator == "AlwaysTrue":
            return self._every
        if expression.operator not in _OPERATORS:
            return 0
        test, is_negated = _OPERATORS[expression.operator]
        found = test(self._column(expression.key), expression.values)
        # Of all containers: a negated operator also holds where the key does not exist (docs/placement.md, Affinity).
        return found ^ self._every if is_negated else found

    def in_pod(self, uid: str) -> int:
        """Return the containers of this pod."""
        return self._column("pod/uid").holders.get(uid, 0)

    def _column(self, key: str) -> "_Column":
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = _Column(list(map(_reader_of(key), self._containers)))
        return column


class _Column:
    """The values of one key, and the ``holders`` of each value; those of None lack the key."""

    def __init__(self, values: Sequence[str | None]) -> None:
        self._values = values
        self._texts: Texts | None = None
        self._like: dict[str, int] = {}
        self.holders: dict[str | None, int] = {}
        bit = 1
        for value in values:
            self.holders[value] = self.holders.get(value, 0) | bit
            bit <<= 1
        self.present = bit - 1 & ~self.holders.get(None, 0)

    def like(self, pattern: str) -> int:
        """Return the containers whose value matches the glob."""
        if self._texts is None:
            self._texts = Texts([value or "" for value in self._values])
        found = self._like.get(pattern)
        if found is None:  # replicas of a pod bring the same patterns
            found = self._like[pattern] = self._texts.matching(pattern) & self.present
        return found


def expression_text(expression: Expression) -> str:
    """Return the expression in words, of bounded length.

    >>> expression_text(Expression("name", "In", ("c0", "c1")))
    'name In c0, c1'
    """
    text = f"{expression.key} {expression.operator} {', '.join(expression.values[:_SHOWN_VALUES])}".rstrip()
    more = len(expression.values) - _SHOWN_VALUES
    return text[:_SHOWN_CHARS] + (f" and {more} more" if more > 0 else "")


def _exists(column: _Column, values: tuple[str, ...]) -> int:
    return column.present


def _is_in(column: _Column, values: tuple[str, ...]) -> int:
    return reduce(or_, (column.present if value == "*" else column.holders.get(value, 0) for value in values), 0)


def _is_like(column: _Column, values: tuple[str, ...]) -> int:
    return reduce(or_, map(column.like, values), 0)


# Each with whether the opposite is meant.
_OPERATORS: Mapping[str, tuple[Callable[[_Column, tuple[str, ...]], int], bool]] = MappingProxyType(
    {
        "Exists": (_exists, False),
        "NotExist": (_exists, True),
        "NotExists": (_exists, True),  # as the peers' documents spell it
        "Equals": (_is_in, False),
        "In": (_is_in, False),
        "NotEqual": (_is_in, True),
        "NotIn": (_is_in, True),
        "Matches": (_is_like, False),
        "MatchesAny": (_is_like, False),
        "MatchesNot": (_is_like, True),
        "MatchesNone": (_is_like, True),
    }
)


def _reader_of(key: str) -> Callable[[Request], str | None]:
    """Return what looks the key up, joint or simple, in a container. A joint key exists if any part does."""
    if key[:1] != ":":
        return _simple_reader_of(key)
    keys, separator = split_joint_key(key)
    readers = [_simple_reader_of(k) for k in keys]

    def read(container: Request) -> str | None:
        parts = [reader(container) for reader in readers]
        return None if all(p is None for p in parts) else separator.join(p or "" for p in parts)

    return read


@lru_cache(maxsize=128)  # one key is looked up in many containers
def split_joint_key(key: str) -> tuple[tuple[str, ...], str]:
    """Return the keys of a joint key and what separates their values.

    ``:a:b`` joins with colons; ``:KVa KV b`` style, ``:`` followed by two separator characters, names the one
    between keys (K) and the one between values (V).
    """
    if len(key) < 4 or key[0] != ":":
        return (key,), ""
    if _is_separator(key[1]) and _is_separator(key[2]):
        return tuple(key[3:].split(key[1])), key[2]
    return tuple(key[1:].split(":")), ":"


def _is_separator(char: str) -> bool:
    return not (char.isalnum() or char in "/.")


def _simple_reader_of(key: str) -> Callable[[Request], str | None]:
    field = _FIELDS.get(key)
    if field is not None:
        return field
    if key.startswith("pod/labels/"):
        name = key.removeprefix("pod/labels/")
        return lambda container: _label(name, container.pod.labels)
    if key.startswith("labels/"):
        return _label_reader_of(key.removeprefix("labels/"))
    # Tags were set by the peers' own collectors; nothing sets them here, so they never exist.
    return _label_reader_of(key) if "." in key and not key.startswith("tags/") else lambda container: None


def _label_reader_of(name: str) -> Callable[[Request], str | None]:
    known = _FIELDS.get(_KUBELET_LABELS.get(name, ""))

    def read(container: Request) -> str | None:
        value = _label(name, container.labels)
        return known(container) if value is None and known else value

    return read


def _label(key: str, labels: Labels) -> str | None:
    i = bisect_left(labels, (key,))  # a pod may have thousands
    return labels[i][1] if i < len(labels) and labels[i][0] == key else None
