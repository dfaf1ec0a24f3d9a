"""``Annotation`` rows, and ``Finder``: a row's value for one container among all spellings, scopes and domains.

Forms of a key, from the narrowest scope to the widest:

- ``KEY.DOMAIN/container.NAME``: one value for one container;
- ``DOMAIN/KEY`` or ``KEY.DOMAIN`` with a JSON or YAML map by container name: an entry for one container;
- ``KEY.DOMAIN/pod``, ``KEY.DOMAIN``, ``DOMAIN/KEY`` with one value: the whole pod.

The narrowest scope wins; within a scope the first domain that has the key. A value that is not understood is reported
and counts as absent: the next wider one applies.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Generic, TypeVar, cast

from cri_proxy.cri.annotations.values import ReadText, by_container
from cri_proxy.foreign_text import admit
from policies.preferences import Preferences

_NOTHING: Mapping[str, str] = MappingProxyType({})
_PROBLEM_BYTES = 512  # a key has 317 characters at most, of the value 80 are shown

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


def field_of(preferences: Preferences, field: str) -> object:
    """Return the value of a field, which may be one of a value inside: ``devices.counts``."""
    return attrgetter(field)(preferences)


def with_field(preferences: Preferences, field: str, value: object) -> Preferences:
    """Return the preferences with this value in a field, which may be one of a value inside."""
    outer, _, inner = field.partition(".")
    if inner:
        value = replace(getattr(preferences, outer), **{inner: value})
    return replace(preferences, **{outer: value})  # type: ignore[arg-type]  # as the row's parser makes it


@dataclass(frozen=True, slots=True)
class Annotation(Generic[T_co]):
    """One row of the table: ``parse`` raises ValueError; ``fields`` are where the value goes (see ``origins``).

    ``examples`` and ``bad_example`` are values as written; ``value_fields`` the keys of a value that is itself a map,
    which tell it from a map by container name. ``old_keys`` are earlier spellings, accepted beside ``key``. ``words``
    puts it for ``explain`` under ``label``, where that is not the value itself. ``takes`` is what a pod can take with
    it beyond its own containers, and so whether a shared node restricts it: most keys choose among what the
    container's own requests pay for, or add to its own wishes (''). ``spelling_of`` is the key of the row with the
    same meaning.
    """

    key: str
    parse: Callable[[object], T_co]
    fields: tuple[str, ...]
    text: str
    examples: tuple[str, ...]
    bad_example: str
    takes: str = ""
    by_container_only: bool = False  # the value is always a map by container name
    value_fields: frozenset[str] = frozenset()
    old_keys: tuple[str, ...] = ()
    label: str = ""
    words: Callable[[Preferences], str] | None = None
    spelling_of: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """Every spelling of the key, the present one first."""
        return (self.key, *self.old_keys)

    @property
    def stands_for(self) -> str:
        """The key by which it is restricted, one for all spellings of the same wish."""
        return self.spelling_of or self.key

    @property
    def is_preference(self) -> bool:
        """Whether its fields are fields of ``Preferences``."""
        return self.fields[0].partition(".")[0] in Preferences.__dataclass_fields__

    def shown(self, preferences: Preferences) -> str:
        """Return the words for ``explain``; '' where the preferences leave it open."""
        if self.words is not None:
            return self.words(preferences)
        return str(field_of(preferences, self.fields[0]) or "") if self.label and self.is_preference else ""

    def put(self, preferences: Preferences, value: object) -> Preferences:
        """Return the preferences with this value; a row of several fields has a tuple with one item each."""
        values = value if isinstance(value, tuple) and len(self.fields) > 1 else (value,)
        for field, each in zip(self.fields, values, strict=True):
            preferences = with_field(preferences, field, each)
        return preferences


@dataclass(frozen=True, slots=True)
class AnnotationProblem:
    """A value that was not understood, hence ignored: the annotation's full key, its text (cut), and why."""

    key: str
    value: str
    problem: str

    def __str__(self) -> str:
        return admit(f"annotation {self.key}: {self.value!r}: {self.problem}", _PROBLEM_BYTES)


@dataclass(frozen=True, slots=True)
class FoundValue(Generic[T_co]):
    """The value that counts for a row; ``scope`` 0 = for this container, 1 = for the whole pod."""

    scope: int
    full_key: str
    text: str
    value: T_co

    def problem(self, problem: str) -> AnnotationProblem:
        """Return the problem that keeps this value from counting."""
        return AnnotationProblem(self.full_key, cut(self.text), problem)


_Candidate = tuple[FoundValue[object], str]
"""A value that applies to the container, not parsed yet, and why its text cannot be, '' when it can."""


class Finder:
    """Looks up rows for one container; keeps the values found and the problems."""

    def __init__(
        self,
        annotations: Mapping[str, ReadText],
        container: str,
        domains: Sequence[str],
        refused: Mapping[str, str] = _NOTHING,
    ) -> None:
        """The pod's annotations; ``domains`` in order of precedence.

        ``refused`` holds, by the key of a row, why this pod may not say it (see ``AnnotationRules.refused_in``).
        """
        self._annotations = annotations
        self._container = container
        self._domains = domains
        self._refused = refused
        # Most pods have few of the keys: the other rows are not looked for in all their forms.
        self._keys = {key_in(full_key, (domain,)) for full_key in annotations for domain in domains}
        self._sought: set[str] = set()
        self.found: dict[str, FoundValue[object]] = {}
        self.problems: list[AnnotationProblem] = []

    def find(self, row: Annotation[T]) -> FoundValue[T] | None:
        """Return the narrowest value of a row that is understood; values that are not go to ``problems``."""
        if row.key in self._sought:
            return cast("FoundValue[T] | None", self.found.get(row.key))
        self._sought.add(row.key)
        best: FoundValue[T] | None = None
        for key in row.keys:
            found = self._find(row, key) if key in self._keys else None
            if found is None:
                continue
            if best is None or found.scope < best.scope:
                best = found
            elif found.scope == best.scope and found.value != best.value:
                problem = f"without effect: {best.full_key}, the present name of this annotation, has another value"
                self.problems.append(found.problem(problem))
        if best is not None:
            self.found[row.key] = best
        return best

    def _find(self, row: Annotation[T], key: str) -> FoundValue[T] | None:
        """As ``find``, of one spelling of the row's key."""
        refused = self._refused.get(row.stands_for)
        # sorted is stable: within a scope the candidates stay in the order of the domains.
        for candidate, unread in sorted(self._candidates(row, key), key=lambda pair: pair[0].scope):
            problem = refused or unread
            if not problem:
                try:
                    return replace(cast("FoundValue[T]", candidate), value=row.parse(candidate.value))
                except ValueError as error:
                    problem = str(error)
            self.problems.append(candidate.problem(problem))
        return None

    def value(self, row: Annotation[T]) -> T | None:
        """Return the value alone; None without one."""
        found = self.find(row)
        return found.value if found else None

    def _candidates(self, row: Annotation[object], key: str) -> Iterator[_Candidate]:
        """Yield every value of this key that applies to the container: by domain, then in the order of the forms."""
        for domain in self._domains:
            forms = (
                (f"{key}.{domain}/container.{self._container}", 0),
                (f"{key}.{domain}/pod", 1),
                (f"{key}.{domain}", 1),
                (f"{domain}/{key}", 1),
            )
            for full_key, scope in forms[-1:] if row.by_container_only else forms:
                read = self._annotations.get(full_key)
                candidate = None if read is None else self._candidate(row, full_key, read, scope)
                if candidate is not None:
                    yield candidate

    def _candidate(self, row: Annotation[object], full_key: str, read: ReadText, scope: int) -> _Candidate | None:
        """Return one annotation as a value for this container; None when it is a map that does not name it."""
        found = FoundValue(scope, full_key, read.text, read.value)
        entries = by_container(read.value, row.value_fields) if scope and not read.problem else None
        if entries is not None:
            name = self._container
            return (replace(found, scope=0, value=entries[name]), "") if name in entries else None
        return found, read.problem or ("expected a map by container name" if row.by_container_only else "")


def is_about(full_key: str, read: ReadText, container: str, value_fields: frozenset[str] = frozenset()) -> bool:
    """Whether this annotation is for the container: by its key, by a map of container names, or for the whole pod."""
    _, is_named, name = full_key.partition("/container.")
    if is_named:
        return name == container
    entries = None if read.problem else by_container(read.value, value_fields)
    return entries is None or container in entries


def key_in(full_key: str, domains: Sequence[str]) -> str:
    """Return the KEY of a full key in one of the domains; '' when it is in none.

    >>> key_in("memory-type.cri-proxy.io/pod", ["cri-proxy.io"])
    'memory-type'
    """
    prefix, _, name = full_key.partition("/")
    for domain in domains:
        if prefix == domain:
            return name
        if prefix.endswith(f".{domain}"):
            return prefix.removesuffix(f".{domain}")
    return ""


def cut(text: str, limit: int = 80) -> str:
    """Return the beginning of a text, for reports."""
    return text if len(text) <= limit else text[: limit - 1] + "…"
