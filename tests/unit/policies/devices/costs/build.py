"""Listings, requests and their answers by definition, for the tests of the cost graph."""

from collections.abc import Iterable
from itertools import combinations, product
from random import Random

from policies.devices.costs import (
    CostGraph,
    CostLine,
    CostListing,
    Missing,
    Selection,
    SelectOptions,
    SetRequest,
    build_graph,
    compile_costs,
    select,
    type_of,
)


def random_listing(random: Random, *, alike: float, known: float, types: int = 3, most: int = 5) -> CostListing:
    """Up to ``types`` types of 1 to ``most`` instances. Costs are few different ones where instances are ``alike``."""
    names = [f"t{kind}/i{i}" for kind in range(random.randint(1, types)) for i in range(random.randint(1, most))]
    values = [random.randint(0, 40) for _ in range(2)] if random.random() < alike else list(range(41))
    lines = [
        CostLine((source,), random.choice(values), (target,))
        for source in names
        for target in names
        if source != target and random.random() < known
    ]
    return CostListing(tuple(lines), tuple(names))


def random_request(random: Random, listing: CostListing) -> SetRequest:
    """A request that can be met, with instances that are busy and that must be in the set."""
    busy = frozenset(name for name in listing.present[1:] if random.random() < 0.15)
    free = [name for name in listing.present if name not in busy]
    must = frozenset(name for name in free if random.random() < 0.1)
    counts = {}
    for kind in sorted({type_of(name) for name in free}):
        least = sum(type_of(name) == kind for name in must)
        counts[kind] = random.randint(max(least, 1), sum(type_of(name) == kind for name in free))
    return SetRequest(counts, busy, must)


def two_types(seed: int, nodes: int, alike: int = 1, most: int = 99) -> CostListing:
    """Types ``a`` and ``b`` of so many nodes of alike instances, with random costs up to ``most`` in all directions."""
    random = Random(seed)
    names = [tuple(f"{kind}/{i * alike + n}" for n in range(alike)) for kind in "ab" for i in range(nodes)]
    lines = [CostLine(x, random.randint(0, most), y) for x in names for y in names if x != y or alike > 1]
    return CostListing(tuple(lines))


class CostOracle:
    """What sets cost by the definition: the sum over all pairs of both directions."""

    def __init__(self, listing: CostListing, missing: Missing = Missing.ZERO) -> None:
        self._listing, self._missing = listing, missing
        self._known = {(x, y): int(line.cost) for line in listing.lines for x in line.sources for y in line.targets}

    def _one_way(self, source: str, target: str) -> int:
        unknown = self._known.get((target, source), 0) if self._missing is Missing.MIRROR else 0
        return self._known.get((source, target), unknown)

    def cost(self, names: Iterable[str]) -> int:
        return sum(self._one_way(a, b) + self._one_way(b, a) for a, b in combinations(names, 2))

    def cheapest(self, wanted: SetRequest) -> int:
        """The cost of the cheapest set, from all sets."""
        choices = []
        for kind, count in wanted.counts.items():
            free = [name for name in self._listing.present if type_of(name) == kind and name not in wanted.busy]
            sets = combinations(free, count)
            choices.append([chosen for chosen in sets if {m for m in wanted.must if type_of(m) == kind} <= set(chosen)])
        return min(self.cost(name for part in parts for name in part) for parts in product(*choices))


def selected(listing: CostListing, wanted: SetRequest, options: SelectOptions | None = None) -> Selection:
    """The answer to a request that can be met."""
    answer = select(compile_costs(listing), wanted, options)
    assert isinstance(answer, Selection), answer.problem
    return answer


def graph_of(listing: CostListing, wanted: SetRequest, missing: Missing = Missing.ZERO) -> CostGraph:
    """The graph of a request that can be met."""
    graph = build_graph(compile_costs(listing), wanted, missing)
    assert isinstance(graph, CostGraph), graph.problem
    return graph
