"""Compile a listing into a table of costs between groups of instances that no line tells apart."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import lcm

from policies.costs.model import CostError, CostLine, CostListing, CostValue, name_order, type_of

# What the largest cost becomes when costs are normalised.
FULL_SCALE = 100
# Pairs of groups in all lines. 900 cores, each with costs to all, have 0.8 million; 4 million take 3 s and 600 MiB.
MAX_PAIRS = 4_000_000


class Normalize(StrEnum):
    """What is scaled to 100: nothing, the largest cost that each source type reports, or the largest of all."""

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


def compile_costs(listing: CostListing, normalize: Normalize = Normalize.NONE) -> CostTable:
    """Return the table of a listing. Raises CostError for two lines that disagree."""
    groups = _groups(listing)
    group_of = {name: i for i, group in enumerate(groups) for name in group.members}
    rows: list[dict[int, CostLine]] = [{} for _ in groups]
    pairs = 0
    for line in listing.lines:
        sources, targets = _groups_of(line.sources, group_of), _groups_of(line.targets, group_of)
        pairs += len(sources) * len(targets)
        if pairs > MAX_PAIRS:
            raise CostError(line.line, line.sources[0], f"more than {MAX_PAIRS} pairs of instances with costs so far")
        for source in sources:
            row = rows[source]
            for target in targets:
                if source == target and len(groups[source].members) == 1:
                    continue
                earlier = row.setdefault(target, line)
                if earlier.cost != line.cost:
                    raise _disagreement(groups[source], groups[target], earlier, line)
    factors = _factors(listing, normalize)
    scaled = [
        {target: line.cost * factors.get(group.kind, 1) for target, line in row.items()}
        for group, row in zip(groups, rows, strict=True)
    ]
    scale = lcm(*{value.denominator for row in scaled for value in row.values()})
    costs = tuple({target: int(value * scale) for target, value in row.items()} for row in scaled)
    return CostTable(groups, costs, scale)


def _groups_of(names: Sequence[str], group_of: Mapping[str, int]) -> Sequence[int]:
    return (group_of[names[0]],) if len(names) == 1 else sorted({group_of[name] for name in names})


def _groups(listing: CostListing) -> tuple[Group, ...]:
    """Return the groups in the order of their first members."""
    as_source: dict[str, list[int]] = {name: [] for name in _names(listing)}
    as_target: dict[str, list[int]] = {name: [] for name in as_source}
    for i, line in enumerate(listing.lines):
        for name in dict.fromkeys(line.sources):
            as_source[name].append(i)
        for name in dict.fromkeys(line.targets):
            as_target[name].append(i)
    members: dict[tuple[str, tuple[int, ...], tuple[int, ...]], list[str]] = {}
    for name in sorted(as_source, key=lambda name: (type_of(name), name_order(name))):
        members.setdefault((type_of(name), tuple(as_source[name]), tuple(as_target[name])), []).append(name)
    return tuple(Group(kind, tuple(names)) for (kind, _, _), names in members.items())


def _names(listing: CostListing) -> Iterator[str]:
    for line in listing.lines:
        yield from line.sources
        yield from line.targets
    yield from listing.present


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


def _disagreement(source: Group, target: Group, earlier: CostLine, line: CostLine) -> CostError:
    name, other = source.members[0], target.members[-1]
    said = f"cost {earlier.cost}" + f" on line {earlier.line}" * (earlier.line > 0)
    problem = f"has {said} to {other} and cost {line.cost} here; keep one"
    return CostError(line.line, name, problem)


def with_instances(table: CostTable, kind: str, names: Sequence[str]) -> CostTable:
    """Return the table with those of these instances of a type that it lacks, without costs."""
    known = {name for group in table.groups if group.kind == kind for name in group.members}
    lacking = tuple(sorted({*names} - known, key=name_order))
    if not lacking:
        return table
    return CostTable((*table.groups, Group(kind, lacking)), (*table.costs, {}), table.scale)
