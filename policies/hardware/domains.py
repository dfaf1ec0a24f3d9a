"""Build the tree of hardware domains: package, die, NUMA node, L3, L2, core. A level that does not nest is left out.

Sets are masks of online CPUs. Both the pools and the choice of CPUs use this tree, so that they agree.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from itertools import count

from sysfs.cpuset import CpuSet
from sysfs.model import Machine, Package

Sets = tuple[tuple[int, int], ...]  # (id, CPU mask), ascending by id


class Level(IntEnum):
    """The levels of domains, from the outside in."""

    ROOT = 0
    PACKAGE = 1
    DIE = 2
    NODE = 3
    L3 = 4
    L2 = 5
    CORE = 6


WORDS = {
    Level.DIE: "dies",
    Level.NODE: "NUMA nodes",
    Level.L3: "L3 domains",
    Level.L2: "L2 domains",
    Level.CORE: "cores",
}


@dataclass(frozen=True, slots=True)
class Domain:
    """CPUs that hardware holds together. ``index`` counts depth first, parents before children."""

    index: int
    level: Level
    package: int  # -1 for the root
    id: int  # the kernel's id; for caches and cores the machine's index
    cpus: int
    children: tuple["Domain", ...]


@dataclass(frozen=True, slots=True)
class Domains:
    """The tree, how many domains it has, and a sentence for each level that was left out somewhere."""

    root: Domain
    count: int
    notes: tuple[str, ...]


def build_domains(machine: Machine) -> Domains:
    """Nest the domains of the machine."""
    notes: list[str] = []
    children: list[Domain] = []
    indexes = count(1)
    for package in machine.packages:
        levels, omitted = _nesting_levels(machine, package)
        notes += omitted
        children.append(_grow(package.id, Level.PACKAGE, (package.id, package.cpus.mask), levels, indexes))
    root = Domain(0, Level.ROOT, -1, 0, machine.online.mask, tuple(children))
    return Domains(root, next(indexes), tuple(notes))


def cores_inside(domain: Domain) -> frozenset[int]:
    """Return the masks of the cores in this domain."""
    if domain.level is Level.CORE:
        return frozenset((domain.cpus,))
    return frozenset(core for child in domain.children for core in cores_inside(child))


def _candidates(machine: Machine, package: Package) -> Iterator[tuple[Level, Sets]]:
    levels = (
        (Level.DIE, ((d.id, d.cpus.mask) for d in machine.dies)),
        (Level.NODE, ((n.id, n.cpus.mask) for n in machine.nodes)),
        (Level.L3, ((c.index, c.cpus.mask) for c in machine.caches if c.level == 3)),
        (Level.L2, ((c.index, c.cpus.mask) for c in machine.caches if c.level == 2)),
        (Level.CORE, ((c.index, c.cpus.mask) for c in machine.cores)),
    )
    return ((level, tuple((i, cpus) for i, cpus in sets if cpus & package.cpus.mask)) for level, sets in levels)


def _nesting_levels(machine: Machine, package: Package) -> tuple[tuple[tuple[Level, Sets], ...], list[str]]:
    """Return the levels of this package whose sets each lie in one set of the level above, and notes on the others."""
    parents = [package.cpus.mask]
    kept: list[tuple[Level, Sets]] = []
    notes: list[str] = []
    for level, sets in _candidates(machine, package):
        stray = _first_stray(sets, parents)
        if stray is None:
            kept.append((level, sets))
            # What this level does not cover still has the sets of the level above as parents.
            parents = [cpus for _, cpus in sets] + parents
        elif level in (Level.DIE, Level.NODE):
            notes.append(
                f"socket #{package.id}: its {WORDS[level]} are not pools, since {WORDS[level][:-1]} {stray} "
                f"does not lie inside one {'package' if not kept else WORDS[kept[-1][0]][:-1]}"
            )
    return tuple(kept), notes


def _first_stray(sets: Sets, parents: list[int]) -> int | None:
    """Return the id of the first set that overlaps another or sticks out of its parent, or None."""
    seen = 0
    for i, cpus in sets:
        if cpus & seen:
            return i
        seen |= cpus
        home = next(p for p in parents if p & cpus)
        if cpus & ~home:
            return i
    return None


def _grow(
    package: int, level: Level, own: tuple[int, int], levels: tuple[tuple[Level, Sets], ...], indexes: Iterator[int]
) -> Domain:
    """Build the domain of this set with everything inside it."""
    index, rest = next(indexes), own[1]
    children: list[Domain] = []
    for i, (inner, sets) in enumerate(levels):
        children += [_grow(package, inner, one, levels[i + 1 :], indexes) for one in sets if one[1] & rest]
        for _, cpus in sets:
            rest &= ~cpus
    if level is not Level.CORE:
        # Every CPU lies in a core, so that a walk down to the cores sees all of them.
        children += (Domain(next(indexes), Level.CORE, package, cpu, 1 << cpu, ()) for cpu in CpuSet(rest))
    return Domain(index, level, package, own[0], own[1], tuple(children))
