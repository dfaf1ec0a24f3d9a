"""A machine as a map: a box for each CPU inside core, L3 domain, NUMA node and package; drawn with letters. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase, ascii_uppercase, digits
from typing import Final

from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from sysfs.text import numbered

NO_CACHE: Final = -1
"""The id of the L3 domain of cores that share no L3 cache."""

SHARED, RESERVED, ISOLATED, UNAVAILABLE, OFFLINE, MANY = "·", "r", "i", "-", "x", "#"
LETTERS: Final = "".join(
    c for c in ascii_uppercase + ascii_lowercase + digits if c not in {RESERVED, ISOLATED, OFFLINE}
)
"""The letters of owners, in this order; those beyond them are all shown as MANY."""

_MEANINGS = ((RESERVED, "reserved"), (ISOLATED, "isolated, free"), (UNAVAILABLE, "not available"), (OFFLINE, "offline"))
_BETWEEN_NODES = "    "
_BETWEEN_DOMAINS = " | "


@dataclass(frozen=True, slots=True)
class CacheDomain:
    """The cores of a NUMA node that share an L3 cache, each as its CPUs. ``id`` is the cache's index, or NO_CACHE."""

    id: int
    cores: tuple[CpuSet, ...]


@dataclass(frozen=True, slots=True)
class NodeCores:
    """The cores of a NUMA node in one package, by L3 domain."""

    id: int
    l3: tuple[CacheDomain, ...]


@dataclass(frozen=True, slots=True)
class PackageCores:
    """The NUMA nodes with CPUs of a package."""

    id: int
    nodes: tuple[NodeCores, ...]


@dataclass(frozen=True, slots=True)
class CpuMap:
    """Every CPU of a machine in its place, and the sets that have no owner.

    ``isolated`` are all kernel-isolated CPUs, ``unavailable`` online ones that no container gets. ``offline`` ones are
    in no package: Linux does not say where they are.
    """

    packages: tuple[PackageCores, ...]
    reserved: CpuSet = CpuSet()
    isolated: CpuSet = CpuSet()
    unavailable: CpuSet = CpuSet()
    offline: CpuSet = CpuSet()


def cpu_map(machine: Machine, *, available: CpuSet, reserved: CpuSet) -> CpuMap:
    """Return the map of this machine, of which these CPUs are available, and of those these are reserved."""
    packages = tuple(PackageCores(package.id, _nodes(machine, package.cpus)) for package in machine.packages)
    unavailable = machine.online - available
    return CpuMap(packages, reserved, machine.isolated - unavailable, unavailable, machine.offline)


def cpus_of(shown: CpuMap) -> CpuSet:
    """Return all CPUs of a map, those that are offline too."""
    cores = [core for package in shown.packages for node in package.nodes for l3 in node.l3 for core in l3.cores]
    return CpuSet.of_masks((shown.offline.mask, *(core.mask for core in cores)))


def _nodes(machine: Machine, package: CpuSet) -> tuple[NodeCores, ...]:
    there = ((node, node.cpus & package) for node in machine.nodes)
    return tuple(NodeCores(node.id, _domains(machine, cpus)) for node, cpus in there if cpus)


def _domains(machine: Machine, node: CpuSet) -> tuple[CacheDomain, ...]:
    caches = [cache for cache in machine.caches if cache.level == 3]
    found: dict[int, list[CpuSet]] = {}
    for core in machine.cores:
        cpus = core.cpus & node
        if cpus:
            at = next((cache.index for cache in caches if not cache.cpus.isdisjoint(cpus)), NO_CACHE)
            found.setdefault(at, []).append(cpus)
    return tuple(CacheDomain(at, tuple(cores)) for at, cores in sorted(found.items()))


def lettered(owners: Iterable[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return these owners with their known letters, and the first free ones for those that have none.

    >>> lettered(["web", "db"], {"db": "A", "gone": "B"})
    {'web': 'B', 'db': 'A'}
    """
    here = list(owners)
    kept = {name: known[name] for name in here if name in known}
    free = iter([letter for letter in LETTERS if letter not in kept.values()])
    return {name: kept.get(name) or next(free, MANY) for name in here}


def drawn(shown: CpuMap, owned: Mapping[str, CpuSet], *, width: int) -> list[str]:
    """Return the map in lines of at most this width; ``owned`` are the CPUs of each letter.

    Thread siblings stand side by side, L3 domains of a node apart.
    """
    marks = _marks(shown, owned)
    lines = [line for package in shown.packages for line in _package_lines(package, marks, width)]
    if shown.offline:
        lines.append(f"offline     {OFFLINE * len(shown.offline)}  {numbered('CPU', shown.offline)}"[:width])
    return lines


def legend(shown: CpuMap) -> str:
    """Return the meanings of the marks that are on this map."""
    sets = (shown.reserved, shown.isolated, shown.unavailable, shown.offline)
    others = [f"{mark} {text}" for (mark, text), cpus in zip(_MEANINGS, sets, strict=True) if cpus]
    return "   ".join(["a letter: owned by that container alone", f"{SHARED} shared", *others])


def _marks(shown: CpuMap, owned: Mapping[str, CpuSet]) -> dict[int, str]:
    marks = dict.fromkeys(shown.isolated, ISOLATED)
    marks |= dict.fromkeys(shown.reserved, RESERVED)
    marks |= dict.fromkeys(shown.unavailable, UNAVAILABLE)
    for letter, cpus in owned.items():
        marks |= dict.fromkeys(cpus, letter)
    return marks


def _package_lines(package: PackageCores, marks: Mapping[int, str], width: int) -> Iterator[str]:
    """Yield the lines of a package: as many nodes beside each other as the width has room for."""
    lead = f"package {package.id}   "
    line = ""
    for node in package.nodes:
        first, *more = _node_lines(node, marks, width - len(lead))
        beside = f"{line}{_BETWEEN_NODES}{first}" if line else f"{lead}{first}"
        if line and (len(beside) > width or more):
            yield line
            lead = " " * len(lead)
            beside = f"{lead}{first}"
        line = beside
        for rest in more:
            yield line
            line = f"{' ' * len(lead)}{rest}"
    if line:
        yield line


def _node_lines(node: NodeCores, marks: Mapping[int, str], width: int) -> list[str]:
    """Return the cores of a node, wrapped between cores where they are wider than this."""
    lead = f"node {node.id}  "
    lines: list[str] = []
    line = lead
    for i, domain in enumerate(node.l3):
        for j, core in enumerate(domain.cores):
            text = "".join(marks.get(cpu, SHARED) for cpu in core)
            between = _BETWEEN_DOMAINS if i and not j else " "
            if len(line) == len(lead):  # the first of its line
                between = between.lstrip()
            elif len(line) + len(between) + len(text) > width:
                lines.append(line)
                line, between = " " * len(lead), between.lstrip()
            line += between + text
    return [*lines, line]


def owned_by_letter(owners: Sequence[tuple[str, CpuSet]], letters: Mapping[str, str]) -> dict[str, CpuSet]:
    """Return the CPUs of each letter; several owners may have MANY, or share the CPUs of their pod."""
    owned: dict[str, CpuSet] = {}
    for name, cpus in owners:
        owned[letters[name]] = owned.get(letters[name], CpuSet()) | cpus
    return owned
