"""Weighted attraction and repulsion between containers (spec section 3): match expressions, joint keys, scores.

Expression semantics are those users of cri-resource-manager and nri-plugins know: keys name, namespace, qosclass,
id, labels/K, tags/K and pod/...; a key with a dot is a label; ``:a:b`` joins the values of several keys.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from types import MappingProxyType

from policies.base import Affinity, CpuKind, Expression, Grant, Labels, Request
from policies.options import PolicyOptions
from policies.pools import PoolTree

COLOCATION_WEIGHT = 10
MAX_WEIGHT = 1000
DISTANCE_FACTOR = 0.75  # per link between two pools

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


def affinity_scores(
    tree: PoolTree, options: PolicyOptions, request: Request, others: Iterable[Grant]
) -> tuple[float, ...]:
    """Per pool, how much the wishes of this container and of the others towards it pull there.

    A weight counts fully in the pool where the other container is, and 0.75 per link above and below it.
    """
    weights = [0] * len(tree.pools)
    colocates = not request.affinities and (options.colocate_pods or options.colocate_namespaces)
    for grant in others:
        other = grant.request
        if not (request.affinities or colocates or other.affinities):
            continue
        if grant.kind is CpuKind.PRESERVE or grant.kind is CpuKind.RESERVED:
            continue
        weight = wish(request, other) + wish(other, request)
        if colocates:
            weight += _colocation(options, request, other)
        if weight:
            weights[tree.named(grant.pool).index] += weight
    return _spread(tree, weights)


def wish(subject: Request, other: Request) -> int:
    """The sum of the weights of the subject's affinities that the other container matches."""
    total = 0
    for affinity in subject.affinities:
        if _in_scope(affinity, subject, other) and matches(affinity.match, other):
            total += max(-MAX_WEIGHT, min(MAX_WEIGHT, affinity.weight))
    return total


def _in_scope(affinity: Affinity, subject: Request, other: Request) -> bool:
    if affinity.scope is None:
        return subject.pod.uid == other.pod.uid
    return matches(affinity.scope, other)


def _colocation(options: PolicyOptions, request: Request, other: Request) -> int:
    weight = 0
    if options.colocate_pods and request.pod.uid == other.pod.uid:
        weight += COLOCATION_WEIGHT
    if options.colocate_namespaces and request.pod.namespace == other.pod.namespace:
        weight += COLOCATION_WEIGHT
    return weight


def _spread(tree: PoolTree, weights: Sequence[int]) -> tuple[float, ...]:
    scores = [0.0] * len(tree.pools)
    for i, weight in enumerate(weights):
        if not weight:
            continue
        here = tree.pools[i]
        for above in here.path:
            scores[above] += weight * DISTANCE_FACTOR ** (here.depth - tree.pools[above].depth)
        for below in range(i + 1, here.end):
            scores[below] += weight * DISTANCE_FACTOR ** (tree.pools[below].depth - here.depth)
    return tuple(round(s, 6) for s in scores)


def matches(expression: Expression, container: Request) -> bool:
    """True when the container satisfies the expression; an unknown operator matches nothing."""
    test = _OPERATORS.get(expression.operator)
    return test is not None and test(_value(expression.key, container), expression.values)


def _is_in(value: str | None, values: tuple[str, ...]) -> bool:
    return value is not None and (value in values or "*" in values)


def _is_like(value: str | None, values: tuple[str, ...]) -> bool:
    return value is not None and any(fnmatchcase(value, v) for v in values)


_OPERATORS: Mapping[str, Callable[[str | None, tuple[str, ...]], bool]] = MappingProxyType(
    {
        "AlwaysTrue": lambda value, values: True,
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
    """The value of a key, joint or simple; None when the container has none. A joint key exists if any part does."""
    keys, separator = split_joint_key(key)
    parts = [_simple_value(k, container) for k in keys]
    if all(p is None for p in parts):
        return None
    return separator.join(p or "" for p in parts)


def split_joint_key(key: str) -> tuple[tuple[str, ...], str]:
    """The keys of a joint key and what separates their values.

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
    if key in _FIELDS:
        return _FIELDS[key](container)
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
    return next((value for name, value in labels if name == key), None)
