"""The pool tree by the words of the rules (docs/placement.md section 1), with sets of ints and plain loops.

Slow and obvious on purpose, and it shares nothing with the policy: tests hold the one against the other.
"""

from dataclasses import dataclass

from policies.topology_aware import TopologyAwareOptions
from sysfs.model import Machine, Package

Ids = frozenset[int]
Level = tuple[tuple[str, Ids], ...]  # (name, CPUs) of each set of one level; a cache's name starts with a slash
Branch = tuple[str, Ids, tuple[Level, ...]]  # a set, and the levels below it


@dataclass(frozen=True, slots=True)
class Kinds:
    available: Ids
    reserved: Ids
    isolated: Ids
    sharable: Ids


@dataclass(frozen=True, slots=True)
class ModelPool:
    """One pool: ``above`` are the names of the pools that it lies in, nearest first; ``hardware`` its online CPUs."""

    name: str
    above: tuple[str, ...]
    hardware: Ids
    cpus: Ids
    mems: Ids


def kinds_of(machine: Machine, options: TopologyAwareOptions) -> Kinds:
    """Reserved CPUs lie inside the available ones; isolated ones are used as ordinary where there are no others."""
    available = frozenset(options.available) & frozenset(machine.online)
    reserved = frozenset(options.reserved) & available
    isolated = (frozenset(machine.isolated) & available) - reserved
    sharable = available - reserved - isolated
    if not sharable and not reserved:
        return Kinds(available, reserved, frozenset(), isolated)
    return Kinds(available, reserved, isolated, sharable)


def pools_of(machine: Machine, options: TopologyAwareOptions) -> tuple[ModelPool, ...]:
    """Every pool that has an available CPU, parents before children."""
    return _Tree(machine, options).pools()


class _Tree:
    """Grows the tree from the root down; never leaves this module."""

    def __init__(self, machine: Machine, options: TopologyAwareOptions) -> None:
        self._machine = machine
        self._options = options
        self._available = kinds_of(machine, options).available
        self._found: list[ModelPool] = []

    def pools(self) -> tuple[ModelPool, ...]:
        everyone = frozenset(self._machine.online)
        root = ModelPool("root", (), everyone, self._available, frozenset(self._machine.memory_nodes))
        self._found.append(root)
        top = self._top()
        # The root of a machine with one package is the package, too.
        for branch in top if len(top) > 1 else self._children(everyone, top[0][2]):
            self._add(branch, (root,))
        return tuple(pool for pool in self._found if pool.cpus)

    def _top(self) -> list[Branch]:
        """The packages, and the NUMA nodes of those that share one."""
        nodes = [frozenset(node.cpus) for node in self._machine.nodes]
        sharing = {
            p.id: any(node & frozenset(p.cpus) and node - frozenset(p.cpus) for node in nodes)
            for p in self._machine.packages
        }
        alone: list[Branch] = [
            (f"socket #{p.id}", frozenset(p.cpus), self._levels_of(p))
            for p in self._machine.packages
            if not sharing[p.id]
        ]
        cpus = frozenset(cpu for p in self._machine.packages if sharing[p.id] for cpu in p.cpus)
        levels = self._levels(cpus, ())
        return [*alone, *((name, own, levels[1:]) for name, own in levels[0])] if cpus else alone

    def _levels_of(self, package: Package) -> tuple[Level, ...]:
        """Of dies and nodes that do not nest the nodes stay, where there are several."""
        inside = frozenset(package.cpus)
        nodes = [frozenset(node.cpus) for node in self._machine.nodes if frozenset(node.cpus) & inside]
        dies = [d for d in self._machine.dies if d.package == package.id]
        do_nest = all(any(node <= frozenset(die.cpus) for die in dies) for node in nodes)
        kept = dies if do_nest or len(nodes) == 1 else []
        return self._levels(inside, tuple((f"die #{d.package}/{d.id}", frozenset(d.cpus)) for d in kept))

    def _levels(self, inside: Ids, dies: Level) -> tuple[Level, ...]:
        """The levels in here, outermost first; one whose sets overlap or stick out is left out."""
        nodes = [(f"NUMA node #{n.id}", frozenset(n.cpus)) for n in self._machine.nodes]
        caches = [(f"/L3 #{c.index}", frozenset(c.cpus)) for c in self._machine.caches if c.level == 3]
        kept: list[Level] = [(("", inside),)]
        for level in (dies, nodes, caches):
            here = tuple((name, cpus) for name, cpus in level if cpus & inside)
            are_disjoint = sum(len(cpus) for _, cpus in here) == len(frozenset().union(*(cpus for _, cpus in here)))
            are_nested = all(any(cpus <= outer for _, outer in kept[-1]) for _, cpus in here)
            if here and are_disjoint and are_nested:
                kept.append(here)
        return tuple(kept[1:])

    def _children(self, cpus: Ids, levels: tuple[Level, ...]) -> list[Branch]:
        """The sets of the next level in here; an only child is left out in favour of its own children."""
        if not levels:
            return []
        inner = [(name, own) for name, own in levels[0] if own <= cpus]
        if len(inner) == 1:
            return self._children(cpus, levels[1:])
        if inner[0][0].startswith("/L3") and not self._wants_caches([own for _, own in inner]):
            return []
        return [(name, own, levels[1:]) for name, own in inner]

    def _wants_caches(self, caches: list[Ids]) -> bool:
        """As the operator says; else where there are several domains of two or more cores."""
        if self._options.l3_pools != "auto":
            return self._options.l3_pools == "true"
        sizes = [sum(1 for core in self._machine.cores if frozenset(core.cpus) & cache) for cache in caches]
        return sum(1 for size in sizes if size >= 2) >= 2

    def _add(self, branch: Branch, above: tuple[ModelPool, ...]) -> None:
        name, cpus, levels = branch
        if name.startswith("/L3"):
            nodes = [f"NUMA node #{n.id}" for n in self._machine.nodes if cpus <= frozenset(n.cpus)]
            name = (nodes or [above[0].name])[0] + name
        mems = self._memory_of(cpus) or self._nearest_memory(cpus)
        pool = ModelPool(name, tuple(p.name for p in above), cpus, cpus & self._available, mems)
        self._found.append(pool)
        for child in self._children(cpus, levels):
            self._add(child, (pool, *above))

    def _nearest_memory(self, cpus: Ids) -> Ids:
        """Of the nodes with memory, those at the smallest distance from any node that has some of these CPUs."""
        homes = [n for n in self._machine.nodes if frozenset(n.cpus) & cpus]
        away = {m.id: min(h.distance_to(m.id) for h in homes) for m in self._machine.nodes if m.memory_bytes and homes}
        return frozenset(node for node, distance in away.items() if distance == min(away.values()))

    def _memory_of(self, cpus: Ids) -> Ids:
        """Nodes with memory that have some of these CPUs, and nodes without CPUs that are nearest to such a node."""
        homes = {n.id for n in self._machine.nodes if frozenset(n.cpus) & cpus}
        guests = {n.id for n in self._machine.nodes if not n.cpus and frozenset(n.near) & homes}
        return frozenset(n.id for n in self._machine.nodes if n.memory_bytes and n.id in homes | guests)
