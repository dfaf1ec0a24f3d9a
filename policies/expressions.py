"""Evaluate affinity match expressions on a container: look up keys (also joint ones), apply operators; show in words.

Their meaning (docs/placement.md, Affinity) is what users of cri-resource-manager and nri-plugins know: keys name,
namespace, qosclass, id, labels/K, tags/K and pod/...; a key with a dot is a label; ``:a:b`` joins several values.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType

from policies.base import Expression, Labels, Request
from policies.glob import is_like

_SHOWN_VALUES = 4
_SHOWN_CHARS = 160

_FIELDS: Mapping[str, Callable[[Request], str]] = MappingProxyType(
    {
        "name": lambda c: c.container.name,
        "namespace": lambda c: c.pod.namespace,
        "qosclass": lambda c: c.pod.qos.value,
        "id": lambda c: f"{c.pod.uid}/{c.container.name}",
        "pod/name": lambda c: c.pod.name,
        "pod/namespace": lambda c: c.pod.namespace,
        "pod/qosclass": lambda c: c.pod.qos.value,
        "pod/id": lambda c: c.pod.uid,
        "pod/uid": lambda c: c.pod.uid,
    }
)

# Labels that the kubelet sets on every container, known here even where the labels did not come along.
_KUBELET_LABELS = {
    "io.kubernetes.container.name": "name",
    "io.kubernetes.pod.name": "pod/name",
    "io.kubernetes.pod.namespace": "pod/namespace",
    "io.kubernetes.pod.uid": "pod/uid",
}


def matches(expression: Expression, container: Request) -> bool:
    """Return whether the container satisfies the expression. An unknown operator matches nothing."""
    if expression.operator == "AlwaysTrue":
        return True
    test = _OPERATORS.get(expression.operator)
    return test is not None and test(_value(expression.key, container), expression.values)


def expression_text(expression: Expression) -> str:
    """Return the expression in words, of bounded length.

    >>> expression_text(Expression("name", "In", ("c0", "c1")))
    'name In c0, c1'
    """
    text = f"{expression.key} {expression.operator} {', '.join(expression.values[:_SHOWN_VALUES])}".rstrip()
    more = len(expression.values) - _SHOWN_VALUES
    return text[:_SHOWN_CHARS] + (f" and {more} more" if more > 0 else "")


def _is_in(value: str | None, values: tuple[str, ...]) -> bool:
    return value is not None and (value in values or "*" in values)


def _is_like(value: str | None, values: tuple[str, ...]) -> bool:
    return value is not None and any(is_like(value, v) for v in values)


_OPERATORS: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = MappingProxyType(
    {
        "Exists": lambda value, values: value is not None,
        "NotExist": lambda value, values: value is None,
        "NotExists": lambda value, values: value is None,  # as the peers' documents spell it
        "Equals": _is_in,
        "In": _is_in,
        "NotEqual": lambda value, values: not _is_in(value, values),
        "NotIn": lambda value, values: not _is_in(value, values),
        "Matches": _is_like,
        "MatchesAny": _is_like,
        "MatchesNot": lambda value, values: not _is_like(value, values),
        "MatchesNone": lambda value, values: not _is_like(value, values),
    }
)


def _value(key: str, container: Request) -> str | None:
    """Return the value of a key, joint or simple, or None. A joint key exists if any part does."""
    if key[:1] != ":":
        return _simple_value(key, container)
    keys, separator = split_joint_key(key)
    parts = [_simple_value(k, container) for k in keys]
    if all(p is None for p in parts):
        return None
    return separator.join(p or "" for p in parts)


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


def _simple_value(key: str, container: Request) -> str | None:
    field = _FIELDS.get(key)
    if field is not None:
        return field(container)
    if key.startswith("pod/labels/"):
        return _label(key.removeprefix("pod/labels/"), container.pod.labels)
    if key.startswith("labels/"):
        return _container_label(key.removeprefix("labels/"), container)
    # Tags were set by the peers' own collectors; nothing sets them here, so they never exist.
    return _container_label(key, container) if "." in key and not key.startswith("tags/") else None


def _container_label(key: str, container: Request) -> str | None:
    value = _label(key, container.labels)
    known = _KUBELET_LABELS.get(key)
    return _simple_value(known, container) if value is None and known else value


def _label(key: str, labels: Labels) -> str | None:
    i = bisect_left(labels, (key,))  # a pod may have thousands
    return labels[i][1] if i < len(labels) and labels[i][0] == key else None
