"""Preferences of one container that cannot both count: which of them is ignored, and how its author is told.

Only what is ignored is a problem. A strict wish that another one excludes refuses the container (``supply.demand``),
and a pod-wide wish that a container's own overrides is what scopes are for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from cri_proxy.cri.annotations import table as rows
from cri_proxy.cri.annotations.forms import Annotation, AnnotationProblem, Found
from policies.base import Threads
from sysfs.model import MemoryKind

_OF_MEMORY = (rows.MEMORY_TYPE, rows.STRICT_MEMORY_TYPE, rows.COLD_START)
_OF_CPUS = (
    rows.PREFER_ISOLATED,
    rows.REQUIRE_ISOLATED,
    rows.PREFER_RESERVED,
    rows.PREFER_SHARED,
    rows.HYPERTHREADS,
    rows.HIDE_HYPERTHREADS,
)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Any of ``ignored`` does not count beside any of ``by`` where ``holds`` says so of their values.

    ``only_alike``: of these the narrower scope wins, so that only at the same one something is ignored.
    """

    ignored: tuple[Annotation[object], ...]
    by: tuple[Annotation[object], ...]
    holds: Callable[[object, object], bool]
    why: str
    only_alike: bool = False


def _is_wish(value: object) -> bool:
    """Whether a value asks for something; false, any and nothing let things be as they are."""
    return bool(value) and value != Threads.ANY


def _wants_own(value: object) -> bool:
    """Whether a value means nothing without CPUs that are owned; to hide threads makes sense on shared ones too."""
    return value is True or value is Threads.OWN_CORE


def _asks_for_shared(value: object) -> bool:
    """Whether this is a prefer-shared-cpus of true, 0 or -N."""
    return isinstance(value, tuple) and value[:1] == (True,)


def has_cold_start_kinds(kinds: Iterable[object]) -> bool:
    """Whether a container of these kinds of memory can begin on one of them and get the other later."""
    return {MemoryKind.DRAM, MemoryKind.PMEM}.issubset(kinds)


CONFLICTS: tuple[Conflict, ...] = (
    Conflict(
        (rows.PREFER_ISOLATED,),
        (rows.REQUIRE_ISOLATED,),
        lambda ignored, by: ignored is False and by is True,
        "isolated CPUs are required",
        only_alike=True,
    ),
    Conflict(
        (rows.HIDE_HYPERTHREADS,),
        (rows.HYPERTHREADS,),
        lambda ignored, by: ignored != by,
        "that says something else",
        only_alike=True,
    ),
    Conflict(
        _OF_CPUS,
        (rows.PRESERVE_CPU,),
        lambda ignored, by: _is_wish(ignored) and by is True,
        "the container's CPUs are left alone",
    ),
    Conflict(
        (rows.PREFER_ISOLATED, rows.HYPERTHREADS),
        (rows.PREFER_RESERVED,),
        lambda ignored, by: _wants_own(ignored) and by is True,
        "reserved CPUs are nobody's own",
    ),
    Conflict(
        (rows.PREFER_SHARED,),
        (rows.PREFER_RESERVED,),
        lambda ignored, by: ignored != (True, 0) and by is True,
        "reserved CPUs are nobody's own, and in no pool",
    ),
    Conflict(
        (rows.PREFER_ISOLATED, rows.HYPERTHREADS),
        (rows.PREFER_SHARED,),
        lambda ignored, by: _wants_own(ignored) and _asks_for_shared(by),
        "shared CPUs are nobody's own",
    ),
    Conflict(
        _OF_MEMORY,
        (rows.PRESERVE_MEMORY, rows.PRESERVE_CPU),
        lambda ignored, by: _is_wish(ignored) and by is True,
        "the container's memory nodes are left alone",
    ),
    Conflict(
        (rows.COLD_START,),
        (rows.MEMORY_TYPE,),
        lambda ignored, by: _is_wish(ignored) and isinstance(by, tuple) and not has_cold_start_kinds(by),
        "a cold start needs both dram and pmem",
    ),
    Conflict(
        (rows.STRICT_HINTS, rows.PICK_BY_HINTS),
        (rows.TOPOLOGY_HINTS,),
        lambda ignored, by: ignored is True and not by,
        "no hint counts",
    ),
)


def conflicts(found: Mapping[str, Found[object]]) -> Iterator[AnnotationProblem]:
    """A problem for each value that is ignored because of another one; ``found`` by key, as ``Finder`` keeps it."""
    told: set[str] = set()
    for row in CONFLICTS:
        for ignored, by in _pairs(row, found):
            if ignored.full_key not in told and row.holds(ignored.value, by.value):
                told.add(ignored.full_key)
                yield ignored.problem(f"without effect beside {by.full_key}: {row.why}")
    strict = found.get(rows.STRICT_MEMORY_TYPE.key)
    if strict and strict.value is True and rows.MEMORY_TYPE.key not in found:
        yield strict.problem("without effect: there is no memory-type to be strict about")


def _pairs(row: Conflict, found: Mapping[str, Found[object]]) -> Iterator[tuple[Found[object], Found[object]]]:
    """The values of both sides that meet: the ignored one as narrow as the other one, or narrower."""
    for ignored in (found[r.key] for r in row.ignored if r.key in found):
        for by in (found[r.key] for r in row.by if r.key in found):
            if ignored.scope == by.scope or (ignored.scope < by.scope and not row.only_alike):
                yield ignored, by
