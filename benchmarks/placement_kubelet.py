"""A model of the kubelet's static CPU manager, for comparison; no code of the policy (benchmarks/placement.py).

Policy options full-pcpus-only and prefer-align-cpus-by-uncorecache, Topology Manager best-effort: the narrowest, then
lowest set of NUMA nodes that has the CPUs; in it whole packages and nodes, then whole L3 domains, then one that has all
that is left, then cores; of each kind those with the least left, then the lowest (kubelet, ``cpu_assignment.go``).
"""

from collections.abc import Iterable, Iterator
from itertools import combinations

from benchmarks.placement_oracle import Shape


class KubeletNode:
    """The CPUs that the kubelet has left to give, as a mask."""

    def __init__(self, shape: Shape, free: int) -> None:
        """Take the machine's domains."""
        self._shape = shape
        self._nodes = tuple(shape.nodes.values())
        self.free = free

    def place(self, count: int) -> int:
        """Take CPUs; 0 where there are too few."""
        nodes = next((mask for mask in self._node_sets() if (mask & self.free).bit_count() >= count), 0)
        taken = self._take(self.free & nodes, count) if nodes else 0
        self.free &= ~taken
        return taken

    def _node_sets(self) -> Iterator[int]:
        for size in range(1, len(self._nodes) + 1):
            sets = combinations(range(len(self._nodes)), size)
            for chosen in sorted(sets, key=lambda ids: sum(1 << i for i in ids)):
                yield sum(self._nodes[i] for i in chosen)

    def _take(self, free: int, count: int) -> int:
        taken = 0
        for domains in (self._shape.packages.values(), self._nodes, [leaf.cpus for leaf in self._shape.leaves]):
            for domain in self._sorted(domains, free):
                size = domain.bit_count()
                if domain & free == domain and size <= count - taken.bit_count():
                    taken, free = taken | domain, free & ~domain
        for leaf in self._sorted([leaf.cpus for leaf in self._shape.leaves], free):
            left = count - taken.bit_count()
            if left and self._whole(leaf & free).bit_count() >= left:
                return taken | self._lowest(leaf & free, left)
        for node in self._sorted(self._nodes, free):
            taken |= self._lowest(node & free, min(count - taken.bit_count(), self._whole(node & free).bit_count()))
        return taken | self._any(free & ~taken, count - taken.bit_count())

    def _sorted(self, domains: Iterable[int], free: int) -> list[int]:
        some = [domain for domain in domains if domain & free]
        return sorted(some, key=lambda domain: ((domain & free).bit_count(), domain & -domain))

    def _whole(self, free: int) -> int:
        return sum(core for core in self._shape.cores if core & free == core)

    def _lowest(self, free: int, count: int) -> int:
        taken = 0
        for core in self._shape.cores:
            if core & free == core and core.bit_count() <= count - taken.bit_count():
                taken |= core
        return taken | self._any(free & ~taken, count - taken.bit_count())

    def _any(self, free: int, count: int) -> int:
        return sum(1 << cpu for cpu in [i for i in range(free.bit_length()) if free >> i & 1][:count])
