"""Compile a listing into a table of costs between groups of instances that no line tells apart."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import lcm

from policies.devices.costs.model import CostError, CostLine, CostListing, CostValue, name_order, type_of
from sysfs.cpuset import gathered

# What the largest cost becomes when costs are normalised.
FULL_SCALE = 100
# Pairs of groups in all lines. 900 cores, each with costs to all, have 0.8 million; 4 million take 3 s and 600 MiB.
MAX_PAIRS = 4_000_000


class Normalize(StrEnum):
    """The costs that are scaled to 100: none, the largest that each source type reports, or the largest of all."""

    NONE = "none"
    PER_TYPE_MAX = "per-type-max"
    GLOBAL = "global"


@dataclass(frozen=True, slots=True)
class Group:
    """Instances of one type that stand in the same lines: all have the same costs."""

    kind: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CostTable:
    """The costs from group to group, as whole numbers of 1/``scale``; what is not in a row is not known.

    ``costs[g].get(g)`` is the cost from one member of a group to another.
    """

    groups: tuple[Group, ...]
    costs: tuple[Mapping[int, int], ...]
    scale: int = 1


def compile_costs(
    listing: CostListing, normalize: Normalize = Normalize.NONE, *, most_pairs: int = MAX_PAIRS
) -> CostTable:
    """Return the table of a listing. Raises CostError for two lines that disagree, and beyond ``most_pairs``."""
    groups = _groups(listing)
    group_of = {name: i for i, group in enumerate(groups) for name in group.members}
    # Many lines have the same names: every core of a node, for one, has the same CPUs on other nodes.
    groups_of: dict[tuple[str, ...], Sequence[int]] = {}
    worth, scale = _worth(listing, normalize)
    rows: list[dict[int, int]] = [{} for _ in groups]
    pairs = 0
    for line in listing.lines:
        for names in (line.sources, line.targets):
            if names not in groups_of:
                groups_of[names] = sorted({group_of[name] for name in names})
        sources, targets = groups_of[line.sources], groups_of[line.targets]
        pairs += len(sources) * len(targets)
        if pairs > most_pairs:
            problem = f"more than {most_pairs} pairs of instances with costs so far"
            raise CostError(line.line, line.sources[0], problem, line.file)
        for source in sources:
            row, cost = rows[source], worth[groups[source].kind, line.cost]
            said = dict.fromkeys(targets, cost)
            if len(groups[source].members) == 1:
                # A group of one would have a cost to itself.
                said.pop(source, None)
            # isdisjoint runs in C, and most lines state pairs that no line before has.
            for target in said if not row.keys().isdisjoint(said) else ():
                if row.get(target, cost) != cost:
                    raise _disagreement(listing, groups[source], groups[target], line)
            row.update(said)
    return CostTable(groups, tuple(rows), scale)


def _worth(listing: CostListing, normalize: Normalize) -> tuple[dict[tuple[str, CostValue], int], int]:
    """Return what each cost of each source type counts as, in whole numbers of 1/scale, and the scale."""
    factors = _factors(listing, normalize)
    said = {(kind, line.cost) for line in listing.lines for kind in {type_of(name) for name in line.sources}}
    values = {(kind, cost): cost * factors.get(kind, 1) for kind, cost in said}
    scale = lcm(*{value.denominator for value in values.values()})
    return {key: int(value * scale) for key, value in values.items()}, scale


def _groups(listing: CostListing) -> tuple[Group, ...]:
    """Return the groups in the order of their first members."""
    # Names stand in the same lines where the same lists of names have them.
    as_source = _places(dict.fromkeys(line.sources for line in listing.lines))
    as_target = _places(dict.fromkeys(line.targets for line in listing.lines))
    names = {*as_source, *as_target, *listing.present}
    in_order = sorted(names, key=lambda name: (type_of(name), name_order(name)))
    members = gathered(
        ((type_of(name), tuple(as_source.get(name, ())), tuple(as_target.get(name, ()))), name) for name in in_order
    )
    return tuple(Group(kind, tuple(alike)) for (kind, _, _), alike in members.items())


def _places(lists: Iterable[tuple[str, ...]]) -> dict[str, list[int]]:
    """Return, for each name, which of the lists have it."""
    return gathered((name, i) for i, names in enumerate(lists) for name in dict.fromkeys(names))


def _factors(listing: CostListing, normalize: Normalize) -> dict[str, Fraction]:
    """Return what the costs of each source type are multiplied by; a type whose costs are all 0 has none."""
    if normalize is Normalize.NONE:
        return {}
    largest: dict[str, CostValue] = {}
    for line in listing.lines:
        for kind in {type_of(name) for name in line.sources}:
            largest[kind] = max(largest.get(kind, 0), line.cost)
    if normalize is Normalize.GLOBAL:
        largest = dict.fromkeys(largest, max(largest.values(), default=0))
    return {kind: Fraction(FULL_SCALE) / value for kind, value in largest.items() if value}


def _disagreement(listing: CostListing, source: Group, target: Group, line: CostLine) -> CostError:
    name, other = source.members[0], target.members[-1]
    earlier = next(known for known in listing.lines if name in known.sources and other in known.targets)
    said = f"cost {earlier.cost}" + f" on line {earlier.line}" * (earlier.line > 0)
    said += f" of {earlier.file}" * (earlier.file != line.file)
    problem = f"has {said} to {other} and cost {line.cost} here; keep one"
    return CostError(line.line, name, problem, line.file)
