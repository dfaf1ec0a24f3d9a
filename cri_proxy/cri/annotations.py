"""The table of annotations, and what they say about one container.

Forms of a key, from the narrowest scope to the widest:

- ``KEY.DOMAIN/container.NAME``: one value for one container;
- ``DOMAIN/KEY`` or ``KEY.DOMAIN`` with a JSON or YAML map by container name: an entry for one container;
- ``KEY.DOMAIN/pod``, ``KEY.DOMAIN``, ``DOMAIN/KEY`` with one value: the whole pod.

The narrowest scope wins; within a scope the first domain that has the key. A value that cannot be understood is
reported and counts as absent, so that the next wider one applies.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches

from cri_proxy.cri.affinity_text import affinities
from cri_proxy.cri.annotation_values import by_container, parse_text, shared_preference, truth
from cri_proxy.cri.hint_filter import HintFilter
from policies.base import Affinity, Wishes

DOMAINS = ("cri-proxy.io", "resource-policy.nri.io", "cri-resource-manager.intel.com")
# Before the key of an annotation in ``origins`` that is known and changes nothing.
WITHOUT_EFFECT = "without effect: "
GRANT_KEY = "cri-proxy.io/grant"  # on containers only, written by us: see cri/grant_text.py

Value = bool | tuple[bool, int] | tuple[Affinity, ...]


@dataclass(frozen=True, slots=True)
class Annotation:
    """One row: ``parse`` raises ValueError; ``field`` is where the value goes (of Wishes, unless told otherwise)."""

    key: str
    parse: Callable[[object], Value]
    field: str
    text: str
    examples: tuple[str, ...]
    bad_example: str
    by_container_only: bool = False  # the value is always a map by container name


@dataclass(frozen=True, slots=True)
class AnnotationProblem:
    """A value that was not understood, hence ignored: the annotation's full key, its text (cut), and why."""

    key: str
    value: str
    problem: str

    def __str__(self) -> str:
        return f"annotation {self.key}: {self.value!r}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Parsed:
    """What the annotations say about one container.

    ``origins`` name the annotation behind each field; see also ``without_effect``.
    """

    wishes: Wishes = Wishes()
    affinities: tuple[Affinity, ...] = ()
    uses_hints: bool = True
    hint_filter: HintFilter = HintFilter()
    origins: tuple[tuple[str, str], ...] = ()
    problems: tuple[AnnotationProblem, ...] = ()


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A value that applies to the container; ``scope`` 0 = this container, 1 = the pod."""

    scope: int
    full_key: str
    text: str
    value: object
    problem: str = ""


@dataclass(frozen=True, slots=True)
class _Found:
    """The value that counts for a row."""

    scope: int
    full_key: str
    value: Value


def _affinity(value: object) -> tuple[Affinity, ...]:
    return affinities(value, anti=False)


def _anti_affinity(value: object) -> tuple[Affinity, ...]:
    return affinities(value, anti=True)


TABLE: tuple[Annotation, ...] = (
    Annotation(
        "prefer-isolated-cpus",
        truth,
        "prefer_isolated",
        "Take kernel-isolated CPUs for exclusive use when enough are free, or take none of them.",
        ("true", "false", '{"c0": true, "c1": false}'),
        "perhaps",
    ),
    Annotation(
        "require-isolated-cpus",
        truth,
        "require_isolated",
        "Refuse the container rather than give it exclusive CPUs that are not kernel-isolated.",
        ("true", '{"c0": true}'),
        "2",
    ),
    Annotation(
        "prefer-shared-cpus",
        shared_preference,
        "prefer_shared, levels_up",
        "true: everything from the shared CPUs; false: the whole part of the request exclusive, for Burstable "
        "containers too; -N: shared, N levels above the best pool; 0 is true.",
        ("true", "false", "0", "-1", '{"c0": -1, "c1": true}'),
        "1",
    ),
    Annotation(
        "prefer-reserved-cpus",
        truth,
        "prefer_reserved",
        "Run on the CPUs that are reserved for the system, or (false) not, although the namespace is a reserved one.",
        ("true", "false"),
        "kube-system",
    ),
    Annotation(
        "topologyhints",
        truth,
        "uses_hints (of Parsed)",
        "false: where the devices and volumes of the container are does not count.",
        ("true", "false", '{"c0": false}'),
        "near",
    ),
    Annotation(
        "cpu.preserve",
        truth,
        "preserve_cpu",
        "Leave the container's CPU set alone, and its memory nodes with it.",
        ("true", "false"),
        "[0, 1]",
    ),
    Annotation(
        "memory.preserve",
        truth,
        "preserve_memory",
        "Leave the container's memory nodes alone.",
        ("true", "false"),
        "dram",
    ),
    Annotation(
        "affinity",
        _affinity,
        "affinities (of Parsed)",
        "Wish to be near other containers, by container name. Short: a list of names of the same pod. Full: a list "
        "of match, scope (default: the same pod) and weight (default 1, within ±1000).",
        ("c0: [c1]", "c0:\n- match: {key: name, operator: In, values: [c1]}\n  weight: 10"),
        "c0: c1",
        by_container_only=True,
    ),
    Annotation(
        "anti-affinity",
        _anti_affinity,
        "affinities (of Parsed)",
        "Wish to be away from other containers; as affinity, the weight is minus its absolute value (default -1).",
        ("c0: [c1, c2]",),
        "c0:\n- match: {operator: Near, values: [c1]}",
        by_container_only=True,
    ),
)


# Keys of the peers that change nothing here yet. They are no mistakes, hence no problems: nri-plugins and
# cri-resource-manager act on them, and a pod may be written for several of us.
_OF_PEERS = frozenset(
    {
        "allow.topologyhints",
        "blockioclass",
        "cold-start",
        "cpu-class",
        "deny.topologyhints",
        "hide-hyperthreads",
        "irq-affinity",
        "memory-type",
        "pick-resources-by-hints",
        "prefer-cpu-priority",
        "rdtclass",
        "scheduling-class",
        "strict.topologyhints",
        "toptierlimit",
        "unlimited-burstable",
    }
)
_NEAR = 0.85  # a letter or two of a key; allow.topologyhints is farther from topologyhints


def parse_annotations(annotations: Mapping[str, str], container: str, domains: Sequence[str] = DOMAINS) -> Parsed:
    """What a pod's annotations say about this container. Never raises; what is malformed is in ``problems``.

    >>> parse_annotations({"cri-proxy.io/prefer-shared-cpus": "-2"}, "c0").wishes.levels_up
    2
    """
    problems: list[AnnotationProblem] = []
    found = {row.key: _find(row, annotations, container, domains, problems) for row in TABLE}
    hints = found["topologyhints"]
    problems += _misspelt(annotations, domains)
    lists = [f for key in ("affinity", "anti-affinity") if (f := found[key])]
    return Parsed(
        wishes=_wishes(found),
        affinities=tuple(a for f in lists if isinstance(f.value, tuple) for a in f.value if isinstance(a, Affinity)),
        uses_hints=hints is None or hints.value is True,
        hint_filter=HintFilter() if hints is None or hints.value is True else HintFilter(sources=frozenset()),
        origins=(
            *((key, f.full_key) for key, f in sorted(found.items()) if f),
            *_without_effect(annotations, container, domains),
        ),
        problems=tuple(problems),
    )


def _find(
    row: Annotation,
    annotations: Mapping[str, str],
    container: str,
    domains: Sequence[str],
    problems: list[AnnotationProblem],
) -> _Found | None:
    """The narrowest value of a row that can be understood; the others that were tried go to ``problems``."""
    for candidate in sorted(_candidates(row, annotations, container, domains), key=lambda c: c.scope):
        problem = candidate.problem
        if not problem:
            try:
                return _Found(candidate.scope, candidate.full_key, row.parse(candidate.value))
            except ValueError as error:
                problem = str(error)
        problems.append(AnnotationProblem(candidate.full_key, _cut(candidate.text), problem))
    return None


def _candidates(
    row: Annotation, annotations: Mapping[str, str], container: str, domains: Sequence[str]
) -> Iterator[_Candidate]:
    """Every value of this row that applies to the container: by domain, then in the order of the module's text."""
    for domain in domains:
        forms = (
            (f"{row.key}.{domain}/container.{container}", 0),
            (f"{row.key}.{domain}/pod", 1),
            (f"{row.key}.{domain}", 1),
            (f"{domain}/{row.key}", 1),
        )
        for full_key, scope in forms[-1:] if row.by_container_only else forms:
            text = annotations.get(full_key)
            if text is None:
                continue
            candidate = _candidate(row, full_key, text, scope, container)
            if candidate is not None:
                yield candidate


def _candidate(row: Annotation, full_key: str, text: str, scope: int, container: str) -> _Candidate | None:
    """One annotation as a value for this container; None when it is a map that does not name it."""
    try:
        value = parse_text(text)
    except ValueError as error:
        return _Candidate(scope, full_key, text, None, str(error))
    entries = by_container(value) if scope else None
    if entries is not None:
        return _Candidate(0, full_key, text, entries[container]) if container in entries else None
    if row.by_container_only:
        return _Candidate(scope, full_key, text, None, "expected a map by container name")
    return _Candidate(scope, full_key, text, value)


def _misspelt(annotations: Mapping[str, str], domains: Sequence[str]) -> Iterator[AnnotationProblem]:
    """Keys in our domains that are nearly one of the table: whoever wrote them wanted something and gets nothing."""
    known = [row.key for row in TABLE]
    for full_key, text in annotations.items():
        key = _key_in(full_key, domains)
        if key and key not in known and key not in _OF_PEERS:
            near = get_close_matches(key, known, n=1, cutoff=_NEAR)
            if near:
                yield AnnotationProblem(full_key, _cut(text), f"there is no {key}; did you mean {near[0]}?")


def without_effect(origins: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """The annotations among these origins that are known and change nothing.

    >>> without_effect(parse_annotations({"cri-proxy.io/memory-type": "dram"}, "c0").origins)
    ('cri-proxy.io/memory-type',)
    """
    return tuple(full_key for field, full_key in origins if field.startswith(WITHOUT_EFFECT))


def _without_effect(
    annotations: Mapping[str, str], container: str, domains: Sequence[str]
) -> Iterator[tuple[str, str]]:
    for full_key, text in sorted(annotations.items()):
        key = _key_in(full_key, domains)
        if key in _OF_PEERS and _is_about(full_key, text, container):
            yield f"{WITHOUT_EFFECT}{full_key}", full_key


def _is_about(full_key: str, text: str, container: str) -> bool:
    """Whether this annotation speaks of the container: alone, in a map by container name, or of the whole pod."""
    _, is_named, name = full_key.partition("/container.")
    if is_named:
        return name == container
    try:
        entries = by_container(parse_text(text))
    except ValueError:
        return True
    return entries is None or container in entries


def _key_in(full_key: str, domains: Sequence[str]) -> str:
    """The KEY of a full key in one of the domains; '' when it is in none."""
    prefix, _, name = full_key.partition("/")
    for domain in domains:
        if prefix == domain:
            return name
        if prefix.endswith(f".{domain}"):
            return prefix.removesuffix(f".{domain}")
    return ""


def _wishes(found: Mapping[str, _Found | None]) -> Wishes:
    def flag(key: str) -> bool | None:
        entry = found[key]
        return entry.value if entry and isinstance(entry.value, bool) else None

    wishes = Wishes(
        prefer_isolated=flag("prefer-isolated-cpus"),
        require_isolated=_requires_isolated(found),
        prefer_reserved=flag("prefer-reserved-cpus"),
        preserve_cpu=flag("cpu.preserve") is True,
        preserve_memory=flag("memory.preserve") is True,
    )
    shared = found["prefer-shared-cpus"]
    match shared.value if shared else None:
        case (bool(prefer), int(levels_up)):
            wishes = replace(wishes, prefer_shared=prefer, levels_up=levels_up)
    return replace(wishes, prefer_isolated=True) if wishes.require_isolated else wishes


def _requires_isolated(found: Mapping[str, _Found | None]) -> bool:
    """Between prefer and require the narrower scope wins, on equal scope require (nri-plugins' rule)."""
    require, prefer = found["require-isolated-cpus"], found["prefer-isolated-cpus"]
    if require is None or require.value is not True:
        return False
    return prefer is None or require.scope <= prefer.scope


def _cut(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def table_markdown(domain: str = DOMAINS[0]) -> str:
    """The table as a page of the documentation: one row per annotation, generated so that it cannot lag."""
    lines = ["| annotation | what it says | values |", "|---|---|---|"]
    for row in TABLE:
        examples = "<br>".join("`" + e.replace("\n", " ⏎ ") + "`" for e in row.examples)
        lines.append(f"| `{domain}/{row.key}` | {row.text} | {examples} |")
    return "\n".join(lines) + "\n"
