"""Report annotation values of a container that have no effect because another annotation rules them out. Pure.

Only an ignored value is a problem. A strict preference that another one excludes refuses the container
(``supply.demand``), and a container's own value overrides a pod-wide one by the scopes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from cri_proxy.cri.annotations import cpu_memory_rows as cpu_rows
from cri_proxy.cri.annotations import table as rows
from cri_proxy.cri.annotations.forms import Annotation, AnnotationProblem, FoundValue
from policies.preferences import CpuDistribution, Threads
from sysfs.model import MemoryKind

_OF_MEMORY = (
    *(cpu_rows.MEMORY_TYPE, cpu_rows.STRICT_MEMORY_TYPE, rows.COLD_START),
    *(cpu_rows.HUGE_PAGES, cpu_rows.STRICT_HUGE_PAGES),
)
_OF_CPUS = (
    cpu_rows.PREFER_ISOLATED,
    cpu_rows.REQUIRE_ISOLATED,
    cpu_rows.PREFER_RESERVED,
    cpu_rows.PREFER_SHARED,
    cpu_rows.HYPERTHREADS,
    cpu_rows.HIDE_HYPERTHREADS,
    cpu_rows.STRICT_HYPERTHREADS,
    cpu_rows.CPU_DISTRIBUTION,
    cpu_rows.STRICT_SINGLE_NODE,
)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Any of ``ignored`` has no effect beside any of ``by`` if ``holds`` is true of their values.

    ``only_alike``: between these the narrower scope wins, so that one is ignored only where the scopes are equal.
    """

    ignored: tuple[Annotation[object], ...]
    by: tuple[Annotation[object], ...]
    holds: Callable[[object, object], bool]
    why: str
    only_alike: bool = False


def _asks(value: object) -> bool:
    """Whether a value asks for something; false, any and nothing do not."""
    return bool(value) and value != Threads.ANY


def _wants_own(value: object) -> bool:
    """Whether a value needs CPUs of the container's own; hiding threads works on shared ones too."""
    return value is True or value is Threads.OWN_CORE


def _asks_for_shared(value: object) -> bool:
    """Whether this is a prefer-shared-cpus of true, 0 or -N."""
    return isinstance(value, tuple) and value[:1] == (True,)


def has_cold_start_kinds(kinds: Iterable[object]) -> bool:
    """Whether a container with these kinds of memory can start on PMEM alone and get DRAM later."""
    return {MemoryKind.DRAM, MemoryKind.PMEM}.issubset(kinds)


CONFLICTS: tuple[Conflict, ...] = (
    Conflict(
        (cpu_rows.PREFER_ISOLATED,),
        (cpu_rows.REQUIRE_ISOLATED,),
        lambda ignored, by: ignored is False and by is True,
        "isolated CPUs are required",
        only_alike=True,
    ),
    Conflict(
        (cpu_rows.HIDE_HYPERTHREADS,),
        (cpu_rows.HYPERTHREADS,),
        lambda ignored, by: ignored != by,
        "that has another value",
        only_alike=True,
    ),
    Conflict(
        _OF_CPUS,
        (cpu_rows.PRESERVE_CPU,),
        lambda ignored, by: _asks(ignored) and by is True,
        "the container's CPUs are left alone",
    ),
    Conflict(
        (cpu_rows.PREFER_ISOLATED, cpu_rows.HYPERTHREADS),
        (cpu_rows.PREFER_RESERVED,),
        lambda ignored, by: _wants_own(ignored) and by is True,
        "reserved CPUs are never exclusive",
    ),
    Conflict(
        (cpu_rows.PREFER_SHARED,),
        (cpu_rows.PREFER_RESERVED,),
        lambda ignored, by: ignored != (True, 0) and by is True,
        "reserved CPUs are never exclusive, and in no pool",
    ),
    Conflict(
        (cpu_rows.PREFER_ISOLATED, cpu_rows.HYPERTHREADS),
        (cpu_rows.PREFER_SHARED,),
        lambda ignored, by: _wants_own(ignored) and _asks_for_shared(by),
        "shared CPUs are never exclusive",
    ),
    Conflict(
        (cpu_rows.CPU_DISTRIBUTION,),
        (cpu_rows.HYPERTHREADS, cpu_rows.HIDE_HYPERTHREADS),
        lambda ignored, by: ignored is CpuDistribution.ACROSS_CORES and by in (Threads.OWN_CORE, Threads.HIDE),
        "whole cores are owned",
    ),
    Conflict(
        _OF_MEMORY,
        (cpu_rows.PRESERVE_MEMORY, cpu_rows.PRESERVE_CPU),
        lambda ignored, by: _asks(ignored) and by is True,
        "the container's memory nodes are left alone",
    ),
    Conflict(
        (rows.COLD_START,),
        (cpu_rows.MEMORY_TYPE,),
        lambda ignored, by: _asks(ignored) and isinstance(by, tuple) and not has_cold_start_kinds(by),
        "a cold start needs both dram and pmem",
    ),
    Conflict(
        (rows.STRICT_HINTS, rows.PICK_BY_HINTS),
        (rows.TOPOLOGY_HINTS,),
        lambda ignored, by: ignored is True and not by,
        "no hint counts",
    ),
)


def conflicts(found: Mapping[str, FoundValue[object]]) -> Iterator[AnnotationProblem]:
    """Yield a problem for each value that is ignored because of another one; ``found`` by key, as in ``Finder``."""
    reported: set[str] = set()
    for row in CONFLICTS:
        for ignored, by in _pairs(row, found):
            # Once for a value, however many rules ignore it.
            if ignored.full_key not in reported and row.holds(ignored.value, by.value):
                reported.add(ignored.full_key)
                yield ignored.problem(f"without effect beside {by.full_key}: {row.why}")
    strict = found.get(cpu_rows.STRICT_MEMORY_TYPE.key)
    if strict and strict.value is True and cpu_rows.MEMORY_TYPE.key not in found:
        yield strict.problem("without effect: there is no memory-type to be strict about")


def _pairs(
    row: Conflict, found: Mapping[str, FoundValue[object]]
) -> Iterator[tuple[FoundValue[object], FoundValue[object]]]:
    """Yield the pairs whose scopes meet: the ignored value's scope is as narrow as the other one's, or narrower."""
    for ignored in (found[r.key] for r in row.ignored if r.key in found):
        for by in (found[r.key] for r in row.by if r.key in found):
            # A wider value beside a narrower one is overridden, as the scopes mean it, and no problem.
            if ignored.scope == by.scope or (ignored.scope < by.scope and not row.only_alike):
                yield ignored, by
