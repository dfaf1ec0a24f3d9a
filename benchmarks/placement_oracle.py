"""The best exclusive CPUs that a request could get, found by trying every set of cache domains; no code of the policy.

What counts, in this order: packages, NUMA nodes and L3 domains used; cores that are shared with strangers; distance
between the nodes. What bounds it are the promises to containers that share: in every pool, the CPUs that nobody owns
cover what is booked in it, and a pool in use keeps one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import NamedTuple

from sysfs.model import Machine

IMPOSSIBLE = -1


class Cost(NamedTuple):
    """What a set of CPUs costs; less is better, the first difference decides."""

    packages: int
    nodes: int
    caches: int
    stranger_cores: int  # of which another container may use a thread
    distance: int  # sum over the pairs of nodes
    newly_shared: int = 0  # of these cores, those that were idle before


@dataclass(frozen=True)
class Leaf:
    """A cache domain, or a node without one: its CPUs, node and package."""

    cpus: int
    node: int
    package: int


@dataclass(frozen=True)
class Promise:
    """What is booked in one pool: its CPUs, CPU time of those that share it, and whether any of them books none."""

    cpus: int
    mcpu: int
    is_used: bool


class Shape:
    """What the oracle needs of a machine."""

    def __init__(self, machine: Machine) -> None:
        """Cut the machine into leaves."""
        self.machine = machine
        self.leaves = tuple(_leaves(machine))
        self.cores = tuple(core.cpus.mask for core in machine.cores)
        self.threads = max(core.bit_count() for core in self.cores)
        self.nodes = {node.id: node.cpus.mask for node in machine.nodes if node.cpus}
        self.packages = {package.id: package.cpus.mask for package in machine.packages}

    @cached_property
    def distances(self) -> Mapping[tuple[int, int], int]:
        """Distances between nodes with CPUs."""
        nodes = [node for node in self.machine.nodes if node.cpus]
        return {(a.id, b.id): a.distance_to(b.id) for a in nodes for b in nodes}

    def domains_of(self, cpus: int) -> tuple[int, int, int]:
        """How many packages, nodes and leaves these CPUs are on."""
        leaves = [leaf for leaf in self.leaves if leaf.cpus & cpus]
        return len({leaf.package for leaf in leaves}), len({leaf.node for leaf in leaves}), len(leaves)

    def cost_of(self, cpus: int) -> Cost:
        """What these CPUs, owned by one container, cost."""
        nodes = [node for node, mask in self.nodes.items() if mask & cpus]
        strangers = sum(1 for core in self.cores if core & cpus and core & ~cpus)
        return Cost(*self.domains_of(cpus), strangers, self.distance(nodes))

    def distance(self, nodes: Iterable[int]) -> int:
        """The sum of the distances between these nodes."""
        return sum(self.distances[pair] for pair in combinations(sorted(nodes), 2))


def _leaves(machine: Machine) -> Iterator[Leaf]:
    for node in machine.nodes:
        rest = node.cpus.mask
        package = next((p.id for p in machine.packages if p.cpus.mask & rest), 0)
        for cache in machine.caches:
            if cache.level == 3 and cache.cpus.mask & rest and not cache.cpus.mask & ~node.cpus.mask:
                yield Leaf(cache.cpus.mask, node.id, package)
                rest &= ~cache.cpus.mask
        if rest:
            yield Leaf(rest, node.id, package)


class Oracle:
    """The machine at one moment: which CPUs are free to be owned, and what is promised."""

    def __init__(self, shape: Shape, free: int, promises: Sequence[Promise]) -> None:
        """``free``: CPUs that may be shared and that no container owns. ``promises``: one for each pool with any."""
        self._shape = shape
        self.free = free
        self._promises = promises
        self._caps = {mask: self._cap(mask, promises) for mask in _pools_of(shape)}

    def emptied(self) -> "Oracle":
        """The same moment, when a pool need not keep a CPU for containers that book no CPU time."""
        promises = [replace(promise, is_used=False) for promise in self._promises]
        return Oracle(self._shape, self.free, promises)

    def _cap(self, pool: int, promises: Sequence[Promise]) -> int:
        """How many CPUs may be owned before the pool breaks a promise."""
        inside = [promise for promise in promises if not promise.cpus & ~pool]
        needed = -(-sum(promise.mcpu for promise in inside) // 1000)
        kept = int(any(promise.is_used and promise.cpus == pool for promise in inside))
        return max(0, (self.free & pool).bit_count() - max(needed, kept))

    def best(self, count: int) -> Cost | None:
        """The least cost of ``count`` CPUs; None if the promises leave fewer."""
        shape = self._shape
        useful = [leaf for leaf in shape.leaves if leaf.cpus & self.free]
        best: Cost | None = None
        for size in range(1, len(useful) + 1):
            for chosen in combinations(useful, size):
                packages, nodes = {leaf.package for leaf in chosen}, {leaf.node for leaf in chosen}
                domains = len(packages), len(nodes), size
                if best is not None and domains > best[:3]:
                    continue
                strangers = self._strangers(chosen, count)
                if strangers != IMPOSSIBLE:
                    newly = self._newly_shared(chosen, count, strangers)
                    cost = Cost(*domains, strangers, shape.distance(nodes), newly)
                    best = cost if best is None else min(best, cost)
        return best

    def _newly_shared(self, chosen: Sequence[Leaf], count: int, strangers: int) -> int:
        """How many idle cores at least become shared, when so many threads are not on whole cores."""
        threads = self._shape.threads
        loose = self._table(chosen, breaks=False).get((count - strangers) // threads, 0)
        return -(-max(0, strangers - loose) // max(1, threads - 1))

    def _strangers(self, chosen: Sequence[Leaf], count: int) -> int:
        """The fewest single threads beside whole cores in these leaves; IMPOSSIBLE if they have too little."""
        threads = self._shape.threads
        table = self._table(chosen, breaks=True)
        enough = [n for n, loose in table.items() if threads * n <= count <= threads * n + loose]
        return count - threads * max(enough) if enough else IMPOSSIBLE

    def _table(self, chosen: Sequence[Leaf], *, breaks: bool) -> dict[int, int]:
        """For each number of whole cores that these leaves can give: how many single threads besides.

        ``breaks``: threads of cores that are whole count too.
        """
        by_package: dict[int, dict[int, list[dict[int, int]]]] = {}
        for leaf in chosen:
            nodes = by_package.setdefault(leaf.package, {})
            nodes.setdefault(leaf.node, []).append(self._leaf_table(leaf, breaks=breaks))
        packages = []
        for package, nodes in by_package.items():
            tables = [self._bounded(_sum(leaves), self._shape.nodes[node]) for node, leaves in nodes.items()]
            packages.append(self._bounded(_sum(tables), self._shape.packages[package]))
        return self._bounded(_sum(packages), self._shape.machine.online.mask)

    def _leaf_table(self, leaf: Leaf, *, breaks: bool) -> dict[int, int]:
        free, threads = leaf.cpus & self.free, self._shape.threads
        cores = [core for core in self._shape.cores if core & leaf.cpus]
        whole = sum(1 for core in cores if core.bit_count() == threads and not core & ~free)
        single = free.bit_count() - threads * whole
        table = {n: single + (threads - 1) * (whole - n) * breaks for n in range(whole + 1)}
        return self._bounded(table, leaf.cpus)

    def _bounded(self, table: dict[int, int], pool: int) -> dict[int, int]:
        cap, threads = self._caps[pool], self._shape.threads
        return {n: min(loose, cap - threads * n) for n, loose in table.items() if threads * n <= cap}


def _pools_of(shape: Shape) -> Iterator[int]:
    yield shape.machine.online.mask
    yield from shape.packages.values()
    yield from shape.nodes.values()
    yield from (leaf.cpus for leaf in shape.leaves)


def _sum(tables: Sequence[dict[int, int]]) -> dict[int, int]:
    """The table of several domains together: every number of whole cores from the best shares of each."""
    total = {0: 0}
    for table in tables:
        joint: dict[int, int] = {}
        for (a, loose), (b, more) in product(total.items(), table.items()):
            joint[a + b] = max(joint.get(a + b, 0), loose + more)
        total = joint
    return total
