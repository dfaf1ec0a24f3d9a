"""Build the tree of hardware domains: package, die, NUMA node, L3, L2, core. A level that does not nest is left out.

Sets are masks of online CPUs. Both the pools and the choice of CPUs use this tree, so that they agree.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from itertools import count

from sysfs.cpuset import CpuSet
from sysfs.model import Machine, Package

Sets = tuple[tuple[int, int], ...]  # (id, CPU mask), ascending by id
Levels = tuple[tuple["Level", Sets], ...]


class Level(IntEnum):
    """The levels of domains, from the outside in."""

    ROOT = 0
    PACKAGE = 1
    DIE = 2
    NODE = 3
    L3 = 4
    L2 = 5
    CORE = 6


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
    """Nest the domains of the machine; NUMA nodes beat the packages and dies that they stick out of."""
    notes: list[str] = []
    children: list[Domain] = []
    indexes = count(1)
    sticking_out = tuple(p for p in machine.packages if _sticks_out(machine, p.cpus.mask))
    for package in machine.packages:
        if package not in sticking_out:
            levels, note = _levels_of(machine, package)
            notes += note
            children.append(_grow(package.id, Level.PACKAGE, (package.id, package.cpus.mask), levels, indexes))
    # Virtual machines have a package for each CPU, and a container's memory is in its nodes.
    if sticking_out:
        cpus = sum(package.cpus.mask for package in sticking_out)
        levels, _ = _nesting_levels(_candidates(machine, cpus, Level.NODE), cpus)
        children += _children(-1, Level.ROOT, cpus, levels, indexes)
        ids = CpuSet.of(package.id for package in sticking_out)
        notes.append(f"sockets #{ids} are not pools, since each shares a NUMA node with another")
    root = Domain(0, Level.ROOT, -1, 0, machine.online.mask, tuple(children))
    return Domains(root, next(indexes), tuple(notes))


def _sticks_out(machine: Machine, cpus: int) -> bool:
    """Return whether a NUMA node has some of these CPUs, and others."""
    return any(node.cpus.mask & cpus and node.cpus.mask & ~cpus for node in machine.nodes)


def cores_inside(domain: Domain) -> frozenset[int]:
    """Return the masks of the cores in this domain."""
    if domain.level is Level.CORE:
        return frozenset((domain.cpus,))
    return frozenset(core for child in domain.children for core in cores_inside(child))


def _candidates(machine: Machine, within: int, outermost: Level) -> tuple[tuple[Level, Sets], ...]:
    levels = (
        (Level.DIE, ((d.id, d.cpus.mask) for d in machine.dies)),
        (Level.NODE, ((n.id, n.cpus.mask) for n in machine.nodes)),
        (Level.L3, ((c.index, c.cpus.mask) for c in machine.caches if c.level == 3)),
        (Level.L2, ((c.index, c.cpus.mask) for c in machine.caches if c.level == 2)),
        (Level.CORE, ((c.index, c.cpus.mask) for c in machine.cores)),
    )
    inside = ((level, tuple((i, cpus) for i, cpus in sets if cpus & within)) for level, sets in levels)
    return tuple((level, sets) for level, sets in inside if level >= outermost)


def _levels_of(machine: Machine, package: Package) -> tuple[Levels, list[str]]:
    """Return the levels of this package that nest, and a note where dies and nodes do not."""
    cpus = package.cpus.mask
    levels, strays = _nesting_levels(_candidates(machine, cpus, Level.DIE), cpus)
    if (node := strays.get(Level.NODE)) is None:
        return levels, []
    omitted = "NUMA nodes"
    # A container's memory is in its nodes, so that dies give way to several of them.
    if sum(node.cpus.mask & cpus != 0 for node in machine.nodes) > 1:
        omitted = "dies"
        levels, _ = _nesting_levels(_candidates(machine, cpus, Level.NODE), cpus)
    why = f"NUMA node {node} does not lie inside one die"
    return levels, [f"socket #{package.id}: its {omitted} are not pools, since {why}"]


def _nesting_levels(levels: Levels, within: int) -> tuple[Levels, Mapping[Level, int]]:
    """Return the levels whose sets each lie in one of the level above, and of the others the first that does not."""
    parents = [within]
    kept: list[tuple[Level, Sets]] = []
    strays: dict[Level, int] = {}
    for level, sets in levels:
        stray = _first_stray(sets, parents)
        if stray is None:
            kept.append((level, sets))
            # What this level does not cover still has the sets of the level above as parents.
            parents = [cpus for _, cpus in sets] + parents
        else:
            strays[level] = stray
    return tuple(kept), strays


def _first_stray(sets: Sets, parents: list[int]) -> int | None:
    """Return the id of the first set that overlaps another or sticks out of its parent, or None."""
    seen = 0
    for i, cpus in sets:
        if cpus & seen:
            return i
        seen |= cpus
        # The innermost of those that have some of it: parents are listed from the inside.
        home = next(p for p in parents if p & cpus)
        if cpus & ~home:
            return i
    return None


def _grow(package: int, level: Level, own: tuple[int, int], levels: Levels, indexes: Iterator[int]) -> Domain:
    """Build the domain of this set with everything inside it."""
    index = next(indexes)
    return Domain(index, level, package, own[0], own[1], _children(package, level, own[1], levels, indexes))


def _children(package: int, level: Level, cpus: int, levels: Levels, indexes: Iterator[int]) -> tuple[Domain, ...]:
    rest = cpus
    children: list[Domain] = []
    for i, (inner, sets) in enumerate(levels):
        children += [_grow(package, inner, one, levels[i + 1 :], indexes) for one in sets if one[1] & rest]
        for _, covered in sets:
            rest &= ~covered
    if level is not Level.CORE:
        # Every CPU lies in a core, so that a walk down to the cores sees all of them.
        children += (Domain(next(indexes), Level.CORE, package, cpu, 1 << cpu, ()) for cpu in CpuSet(rest))
    return tuple(children)
