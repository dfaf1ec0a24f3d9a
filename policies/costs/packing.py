"""The least cost of so many instances out of vertices that only distance tells apart, such as the CPUs of a NUMA node.

Cores in cache domains in a node: two instances cost each other what the smallest domain that holds both says, and all
pairs of two domains the same. So the least cost of n instances follows from the least costs in each domain alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from policies.costs.graph import CostGraph

# The cost of too few instances: the set must have more.
ENDLESS = 1 << 200


@dataclass(frozen=True, slots=True)
class PackedVertices:
    """``costs[n]`` is twice the least cost of n instances.

    Two instances of different ``parts`` cost each other ``between``. ``tables[i][n]`` is the least cost of n instances
    of the first i parts, without ``between * n * n``. A packing without parts is one vertex.
    """

    vertices: tuple[int, ...]
    costs: tuple[int, ...]
    parts: tuple["PackedVertices", ...] = ()
    between: int = 0
    tables: tuple[tuple[int, ...], ...] = ()

    def counts(self, n: int) -> dict[int, int]:
        """Return how many instances of each vertex make up the least cost of n; n must not cost ENDLESS."""
        if not self.parts:
            return {self.vertices[0]: n}
        found: dict[int, int] = {}
        for part, before, after in reversed(list(zip(self.parts, self.tables[:-1], self.tables[1:], strict=True))):
            inside = _inside(part, self.between)
            share = next(
                i for i, cost in enumerate(inside) if 0 <= n - i < len(before) and before[n - i] + cost == after[n]
            )
            found.update(part.counts(share))
            n -= share
        return found


def packing(graph: CostGraph, vertices: Sequence[int], most: int) -> PackedVertices | None:
    """Return the packing of up to ``most`` instances of a layer's vertices; None where more than distance counts."""
    if len(vertices) == 1:
        v = vertices[0]
        must, size = graph.vertices[v].must, len(graph.vertices[v].members)
        own = graph.pair[v][v]
        costs = tuple(n * (n - 1) * own if n >= must else ENDLESS for n in range(min(size, most) + 1))
        return PackedVertices((v,), costs)
    between = max(cost for v in vertices for cost in _costs_to_others(graph, v, vertices))
    domains = _domains(graph, vertices, between)
    if len(domains) == 1:
        return None
    parts = [packing(graph, domain, most) for domain in domains]
    found = tuple(part for part in parts if part is not None)
    if len(found) < len(parts):
        return None
    tables: list[tuple[int, ...]] = [(0,)]
    for part in found:
        tables.append(least_sums(tables[-1], _inside(part, between), most))
    costs = tuple(cost + between * n * n for n, cost in enumerate(tables[-1]))
    return PackedVertices(tuple(vertices), costs, found, between, tuple(tables))


def least_sums(first: Sequence[int], second: Sequence[int], most: int) -> tuple[int, ...]:
    """Return the least sum of two costs for each count, up to ``most``, that is split between them."""
    sums = [ENDLESS << 1] * min(len(first) + len(second) - 1, most + 1)
    for i, cost in enumerate(first):
        for n, other in enumerate(second[: len(sums) - i], i):
            sums[n] = min(sums[n], cost + other)
    return tuple(sums)


def _inside(part: PackedVertices, between: int) -> list[int]:
    """Return the costs of a part, less what its pairs would cost between parts."""
    return [cost - between * n * n for n, cost in enumerate(part.costs)]


def _costs_to_others(graph: CostGraph, v: int, vertices: Sequence[int]) -> list[int]:
    row = graph.pair[v]
    return [row[w] for w in vertices if w != v]


def _domains(graph: CostGraph, vertices: Sequence[int], between: int) -> list[list[int]]:
    """Return the vertices by what is connected by other costs than this one."""
    found: list[list[int]] = []
    left = dict.fromkeys(vertices)
    while left:
        domain = [left.popitem()[0]]
        for v in domain:  # which grows meanwhile
            row = graph.pair[v]
            near = [w for w in left if row[w] != between]
            domain += near
            for w in near:
                del left[w]
        found.append(sorted(domain))
    return sorted(found)
