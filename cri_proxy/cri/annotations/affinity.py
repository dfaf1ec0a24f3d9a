"""Parse one container's affinity or anti-affinity annotation: the short form, the full form, or both mixed. Pure.

Forms, operators and joint keys are those of cri-resource-manager ("Container Affinity and Anti-Affinity") and
nri-plugins. A key is kept as written; the policy looks it up.
"""

from collections.abc import Mapping

from policies.base import Affinity, Expression
from policies.expressions import split_joint_key

DEFAULT_KEY = "io.kubernetes.container.name"
DEFAULT_OPERATOR = "In"
MAX_WEIGHT = 1000
# Each decision compares every affinity with every container of the node, in one turn of the event loop. These bounds
# are of one list together, and a container has two lists. A decision with all of them reached takes a few times what it
# takes without affinities.
MAX_AFFINITIES = 64
MAX_VALUES = 256
MAX_WORD_CHARS = 512  # several names and label values, joined
MAX_KEYS = 6  # different ones, a joint key as many as it joins: each is looked up in every container
MAX_PATTERNS = 8  # each is matched with the values of all containers
MAX_PATTERN_CHARS = 96  # those for a joint key counted as often as it joins keys: its values are that much longer

_ONE_VALUE = frozenset({"Equals", "NotEqual", "Matches", "MatchesNot"})
_SOME_VALUES = frozenset({"In", "NotIn", "MatchesAny", "MatchesNone"})
_PATTERNS = frozenset({"Matches", "MatchesNot", "MatchesAny", "MatchesNone"})
_NO_VALUE = frozenset({"Exists", "NotExist", "AlwaysTrue"})
OPERATORS = _ONE_VALUE | _SOME_VALUES | _NO_VALUE
_SPELLINGS = {"NotExists": "NotExist"}  # nri-plugins' spelling


def affinities(value: object, *, anti: bool) -> tuple[Affinity, ...]:
    """Return the affinities of one container, in the order written; names of the short form become one match.

    Raises ValueError when any entry is malformed: half a list would differ from what the author requested.

    >>> affinities(["container1"], anti=True)[0].weight
    -1
    """
    if not isinstance(value, list):
        raise ValueError("expected a list of container names or of matches")
    if len(value) > MAX_AFFINITIES:
        raise ValueError(f"{len(value)} affinities in one list; the bound is {MAX_AFFINITIES}")
    names = tuple(entry for entry in value if isinstance(entry, str))
    short = (Affinity(Expression(DEFAULT_KEY, DEFAULT_OPERATOR, names), _weight(None, anti=anti)),) if names else ()
    full = tuple(_full(entry, anti=anti) for entry in value if not isinstance(entry, str))
    _check_size(short + full)
    return short + full


def bounded_affinities(found: tuple[Affinity, ...]) -> tuple[Affinity, ...]:
    """Return the affinities of a container's two lists, none where both together exceed the bounds of two lists.

    For those that an older version has saved, which knew no bounds.
    """
    try:
        if len(found) > 2 * MAX_AFFINITIES:
            return ()
        _check_size(found, lists=2)
    except ValueError:
        return ()
    return found


def _check_size(found: tuple[Affinity, ...], lists: int = 1) -> None:
    expressions = [e for affinity in found for e in (affinity.match, affinity.scope) if e]
    words = [len(word) for e in expressions for word in (e.key, *e.values)]
    patterns = [len(word) * _joined(e.key) for e in expressions if e.operator in _PATTERNS for word in e.values]
    # One key is looked up once, however many expressions name it.
    keys = sum(_joined(key) for key in {e.key for e in expressions if e.operator != "AlwaysTrue"})
    for count, most, what in (
        (sum(len(e.values) for e in expressions), MAX_VALUES * lists, "values"),
        (max(words, default=0), MAX_WORD_CHARS, "characters in a key or value"),
        (len(patterns), MAX_PATTERNS * lists, "patterns"),
        (sum(patterns), MAX_PATTERN_CHARS * lists, "characters in patterns, times the keys joined"),
        (keys, MAX_KEYS * lists, "different keys, with each one that a joint key joins"),
    ):
        if count > most:
            raise ValueError(f"{count} {what} in one list of affinities; the bound is {most}")


def _joined(key: str) -> int:
    return len(split_joint_key(key)[0])


def _full(entry: object, *, anti: bool) -> Affinity:
    fields = _fields(entry, {"scope", "match", "weight"}, "an affinity")
    if "match" not in fields:
        raise ValueError("an affinity needs a 'match'")
    scope = fields.get("scope")
    return Affinity(
        match=_expression(fields["match"], "match"),
        weight=_weight(fields.get("weight"), anti=anti),
        scope=None if scope is None else _expression(scope, "scope"),
    )


def _fields(value: object, known: set[str], what: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise ValueError(f"{what} is a map of {', '.join(sorted(known))}, not {value!r:.40}")
    unknown = sorted(str(key) for key in value if key not in known)
    if unknown:
        raise ValueError(f"{what} has no field {unknown[0]!r:.40}; known are {', '.join(sorted(known))}")
    return value


def _expression(value: object, what: str) -> Expression:
    fields = _fields(value, {"key", "operator", "values"}, f"a {what}")
    key = fields.get("key", DEFAULT_KEY)
    if not isinstance(key, str) or not key:
        raise ValueError(f"the key of a {what} is a name, not {key!r:.40}")
    named = fields.get("operator", DEFAULT_OPERATOR)
    operator = _SPELLINGS.get(named, named) if isinstance(named, str) else ""
    if operator not in OPERATORS:
        raise ValueError(f"no operator {named!r:.40}; known are {', '.join(sorted(OPERATORS))}")
    values = _values(fields.get("values"), what)
    if operator in _ONE_VALUE and len(values) != 1:
        raise ValueError(f"{operator} takes exactly one value, not {len(values)}")
    if operator in _SOME_VALUES and not values:
        raise ValueError(f"{operator} takes at least one value")
    if operator in _NO_VALUE and values:
        raise ValueError(f"{operator} takes no values")
    return Expression(key, operator, values)


def _values(value: object, what: str) -> tuple[str, ...]:
    if value is None:
        return ()
    listed = value if isinstance(value, list) else [value]
    if not all(isinstance(v, str | int) for v in listed):
        # A number with a point would be changed by parsing: 1.10 becomes 1.1.
        raise ValueError(f"the values of a {what} are a list of words; put numbers with a point in quotes")
    # YAML reads an unquoted true as a boolean; labels are always text
    return tuple(str(v).lower() if isinstance(v, bool) else str(v) for v in listed)


def _weight(value: object, *, anti: bool) -> int:
    """Return the weight within ±1000; an anti-affinity's is minus its absolute value: -1 and 1 push alike."""
    weight = 1 if value is None else value
    if not isinstance(weight, int) or isinstance(weight, bool):
        raise ValueError(f"a weight is an integer between -{MAX_WEIGHT} and {MAX_WEIGHT}, not {weight!r:.40}")
    clamped = max(-MAX_WEIGHT, min(MAX_WEIGHT, weight))
    return -abs(clamped) if anti else clamped
