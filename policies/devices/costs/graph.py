"""Build the layered graph of a request: a layer for each resource type, a vertex for interchangeable instances."""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import repeat
from operator import add, itemgetter, mul

from policies.devices.costs.model import name_order, type_of
from policies.devices.costs.request import CannotSelect, SetRequest, refuse
from policies.devices.costs.table import CostTable, Group

# Graph and search hold two numbers for each pair of vertices: 1,024 of them take 100 MiB. 1,792 CPUs are 896 cores.
MAX_VERTICES = 1024
# Weights of the check sums of rows, by position: multiples of an odd number, far apart and small enough to be fast.
_WEIGHT = 0x9E3779B1
_MODULUS = 1 << 24


class Missing(StrEnum):
    """The value of an unknown cost: nothing, or the cost of the other direction."""

    ZERO = "zero"
    MIRROR = "mirror"


@dataclass(frozen=True, slots=True)
class Vertex:
    """Interchangeable instances of a layer in the order in which they are taken; every set has the first ``must``."""

    layer: int
    members: tuple[str, ...]
    must: int = 0


@dataclass(frozen=True, slots=True)
class Layer:
    """The vertices of one resource type, and how many instances the set has of it."""

    kind: str
    count: int
    vertices: range


@dataclass(frozen=True, slots=True)
class CostGraph:
    """The layers, the most constrained first, and the cost of each pair of vertices in both directions together.

    ``pair[v][v]`` is the cost between two members of a vertex. Costs are whole numbers of 1/``scale``. A set is given
    by how many instances it has of each vertex.
    """

    layers: tuple[Layer, ...]
    vertices: tuple[Vertex, ...]
    pair: tuple[tuple[int, ...], ...]
    scale: int = 1

    def cost(self, counts: Sequence[int]) -> int:
        """Return the sum over all pairs of a set."""
        taken = [(v, count) for v, count in enumerate(counts) if count]
        links = ((v, count, sum(n * self.pair[v][w] for w, n in taken)) for v, count in taken)
        return sum(count * (link - self.pair[v][v]) for v, count, link in links) // 2

    def links_to(self, counts: Sequence[int]) -> list[int]:
        """Return, for each vertex, the cost from one of its instances that is not in the set to the whole set."""
        links = [0] * len(self.vertices)
        for v, count in enumerate(counts):
            if count:
                links = [link + count * cost for link, cost in zip(links, self.pair[v], strict=True)]
        return links

    def members(self, counts: Sequence[int]) -> tuple[str, ...]:
        """Return the instances of a set in ascending order."""
        chosen = (name for vertex, count in zip(self.vertices, counts, strict=True) for name in vertex.members[:count])
        return tuple(sorted(chosen, key=lambda name: (type_of(name), name_order(name))))


def alike(
    looks: Sequence[Hashable],
    sizes: Sequence[int],
    pair: Sequence[Sequence[int]],
    fits: Callable[[int, int], bool] = lambda _a, _b: True,
) -> list[list[int]]:
    """Return the positions, those together that look the same, fit, and cost every third one the same.

    ``sizes`` has how many instances stand at each position.
    """
    # Check sums of the rows tell most of those apart that differ, and plain sums so many that few are compared.
    weights = [(i + 1) * _WEIGHT % _MODULUS for i in range(len(pair))]
    sums: list[int] = [sum(map(mul, row, weights)) for row in pair]

    def sum_without(i: int, other: int) -> int:
        return sums[i] - pair[i][i] * weights[i] - pair[i][other] * weights[other]

    def are_alike(a: int, b: int) -> bool:
        return (
            fits(a, b)
            and sum_without(a, b) == sum_without(b, a)
            and all(i in (a, b) for i, (x, y) in enumerate(zip(pair[a], pair[b], strict=True)) if x != y)
        )

    buckets: dict[Hashable, list[list[int]]] = {}
    found: list[list[int]] = []
    for i, look in enumerate(looks):
        bucket = buckets.setdefault((look, sum(map(mul, sizes, pair[i])) - pair[i][i]), [])
        together = next((positions for positions in bucket if are_alike(positions[0], i)), None)
        if together is None:
            together = []
            bucket.append(together)
            found.append(together)
        together.append(i)
    return found


def known_groups(table: CostTable, missing: Missing) -> frozenset[int]:
    """Return the groups that say something about costs; counted both ways, to be a target is enough."""
    reporting = frozenset(i for i, row in enumerate(table.costs) if row)
    return reporting.union(*table.costs) if missing is Missing.MIRROR else reporting


def build_graph(table: CostTable, wanted: SetRequest, missing: Missing = Missing.ZERO) -> CostGraph | CannotSelect:
    """Return the graph of a request over the instances that are free, or why no set meets it."""
    refusal = refuse(table, wanted)
    if refusal is not None:
        return refusal
    asked = ((i, group.members) for i, group in enumerate(table.groups) if wanted.counts.get(group.kind))
    free = {i: tuple(name for name in members if name not in wanted.busy) for i, members in asked}
    found = [i for i, members in free.items() if members]
    if len(found) > MAX_VERTICES:
        return CannotSelect(f"{len(found)} of the free instances stand in different lines; at most {MAX_VERTICES} may")
    groups = [Group(table.groups[i].kind, free[i]) for i in found]
    return layered(groups, pair_costs(table, found, missing), wanted, table.scale)


def layered(groups: Sequence[Group], pair: Sequence[Sequence[int]], wanted: SetRequest, scale: int = 1) -> CostGraph:
    """Return the graph over groups of free instances that are enough for the request, each sorted by name.

    ``pair`` has the costs between two members of these groups, there and back together, in 1/``scale``.
    """
    kinds, sizes = [group.kind for group in groups], [len(group.members) for group in groups]

    # A vertex has one cost between any two of its members, so that groups join only where theirs is that one.
    def have_one_cost(a: int, b: int) -> bool:
        return all(sizes[i] == 1 or pair[i][i] == pair[a][b] for i in (a, b))

    joined = alike(kinds, sizes, pair, have_one_cost)
    layers: list[Layer] = []
    vertices: list[Vertex] = []
    at: list[list[int]] = []
    for kind in _layer_order(wanted, kinds, sizes):
        first = len(vertices)
        for positions in joined:
            if kinds[positions[0]] == kind:
                vertices.append(_vertex(len(layers), [groups[i].members for i in positions], wanted))
                at.append(positions)
        layers.append(Layer(kind, wanted.counts[kind], range(first, len(vertices))))
    return CostGraph(tuple(layers), tuple(vertices), _rows(at, pair), scale)


def _layer_order(wanted: SetRequest, kinds: Sequence[str], sizes: Sequence[int]) -> list[str]:
    """Return the requested types, the one with the fewest spare instances first."""
    spare = {kind: -count for kind, count in wanted.counts.items() if count}
    for kind, size in zip(kinds, sizes, strict=True):
        if kind in spare:
            spare[kind] += size
    return sorted(spare, key=lambda kind: (spare[kind], kind))


def _vertex(layer: int, groups: Sequence[tuple[str, ...]], wanted: SetRequest) -> Vertex:
    """Return the vertex of these groups, each of which is sorted."""
    if len(groups) == 1 and not wanted.must:
        return Vertex(layer, groups[0])
    names = [name for members in groups for name in members]
    members = sorted(names, key=lambda name: (name not in wanted.must, name_order(name)))
    return Vertex(layer, tuple(members), sum(name in wanted.must for name in names))


def pair_costs(table: CostTable, groups: Sequence[int], missing: Missing) -> list[list[int]]:
    """Return the costs between groups, there and back together."""
    # None only where it counts as the other direction; 0 is added in C.
    unknown = None if missing is Missing.MIRROR else 0
    there = [list(map(table.costs[a].get, groups, repeat(unknown))) for a in groups]
    together = both_ways if missing is Missing.MIRROR else add
    return [list(map(together, row, column)) for row, column in zip(there, zip(*there, strict=True), strict=True)]


def both_ways(there: int | None, back: int | None) -> int:
    """Return the sum of both directions; an unknown one counts as the other."""
    if there is None:
        return 2 * (back or 0)
    return 2 * there if back is None else there + back


def _rows(at: Sequence[Sequence[int]], pair: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """Return the costs between vertices, each given by the positions of its groups in ``pair``."""
    firsts = [positions[0] for positions in at]
    of_firsts = itemgetter(*firsts, firsts[0])  # which returns no tuple for one alone
    rows = [list(of_firsts(pair[i])[:-1]) for i in firsts]
    for v, positions in enumerate(at):
        if len(positions) > 1:
            rows[v][v] = pair[positions[0]][positions[1]]
    return tuple(map(tuple, rows))
