"""Request a set of instances of the cost graph, and refuse one that the instances which are present cannot meet."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from policies.devices.costs.model import name_order, type_of
from policies.devices.costs.table import CostTable
from sysfs.known_words import did_you_mean, question
from sysfs.text import some

# How many known types a refusal names.
SHOWN_TYPES = 8


@dataclass(frozen=True, slots=True)
class SetRequest:
    """How many instances of each type, which are taken, and which must be in the set; those count as requested."""

    counts: Mapping[str, int]
    busy: frozenset[str] = frozenset()
    must: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CannotSelect:
    """Why no set meets a request, as a sentence that names the type or the instance."""

    problem: str


def refuse(table: CostTable, wanted: SetRequest) -> CannotSelect | None:
    """Return why no set can meet the request; None when one can."""
    return next(map(CannotSelect, _problems(table, wanted)), None)


def _problems(table: CostTable, wanted: SetRequest) -> Iterator[str]:
    present: dict[str, set[str]] = {}
    for group in table.groups:
        present.setdefault(group.kind, set()).update(group.members)
    if not any(wanted.counts.values()):
        yield f"nothing is requested: give request: {{TYPE: COUNT}} or --request TYPE=COUNT; {_listed(present)}"
    for kind, count in wanted.counts.items():
        if kind not in present:
            yield f"{kind}: no instance of this type is present; {_known_types(kind, present)}"
        else:
            yield from _shortages(kind, count, present[kind], wanted)
    for name in sorted(wanted.must, key=name_order):
        if type_of(name) not in wanted.counts:
            yield f"{name} must be in the set, but no {type_of(name)} is requested"


def _known_types(kind: str, present: Iterable[str]) -> str:
    same = [known for known in present if known.rpartition("/")[2] == kind.rpartition("/")[2]]
    return question(same[0]) if same else did_you_mean(kind, present, _listed(present))


def _listed(present: Iterable[str]) -> str:
    return f"known types: {some(sorted(present), SHOWN_TYPES) or 'none'}"


def _shortages(kind: str, count: int, present: set[str], wanted: SetRequest) -> Iterator[str]:
    must = sorted((name for name in wanted.must if type_of(name) == kind), key=name_order)
    for name in must:
        if name not in present:
            yield f"{name} must be in the set, but is not present"
        if name in wanted.busy:
            yield f"{name} must be in the set, but is busy"
    busy = len(present & wanted.busy)
    if count > len(present) - busy:
        yield f"{kind}: {count} requested, {len(present) - busy} free ({len(present)} present, {busy} busy)"
    if len(must) > count:
        yield f"{kind}: {count} requested, but {len(must)} must be in the set: {', '.join(must)}"
