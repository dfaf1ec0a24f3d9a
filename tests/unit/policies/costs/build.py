"""Graphs and costs for the tests of the cost graph."""

from itertools import combinations, product
from random import Random

from policies.costs.demand import SetRequest
from policies.costs.graph import CostGraph, Missing, build_graph
from policies.costs.model import CostLine, CostListing, type_of
from policies.costs.table import compile_costs


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


def cheapest_by_enumeration(listing: CostListing, wanted: SetRequest, missing: Missing) -> int:
    """The cost of the cheapest set, from all sets, by the definition: the sum over all pairs of both directions."""
    known = {
        (source, target): line.cost for line in listing.lines for source in line.sources for target in line.targets
    }

    def one_way(source: str, target: str) -> int:
        other = known.get((target, source), 0) if missing is Missing.MIRROR else 0
        return int(known.get((source, target), other))

    choices = []
    for kind, count in wanted.counts.items():
        free = [name for name in listing.present if type_of(name) == kind and name not in wanted.busy]
        sets = combinations(free, count)
        choices.append([chosen for chosen in sets if {m for m in wanted.must if type_of(m) == kind} <= set(chosen)])
    return min(
        sum(one_way(a, b) + one_way(b, a) for a, b in combinations([n for part in parts for n in part], 2))
        for parts in product(*choices)
    )


def graph_of(listing: CostListing, wanted: SetRequest, missing: Missing = Missing.ZERO) -> CostGraph:
    """The graph of a request that can be met."""
    graph = build_graph(compile_costs(listing), wanted, missing)
    assert isinstance(graph, CostGraph), graph.problem
    return graph


def no_two_alike(seed: int, each: int, count: int, most: int = 99) -> CostGraph:
    """Two types of so many instances with random costs up to ``most``, and so many of each to choose."""
    random = Random(seed)
    names = [f"{kind}/{i}" for kind in "ab" for i in range(each)]
    lines = tuple(CostLine((x,), random.randint(0, most), (y,)) for x in names for y in names if x != y)
    return graph_of(CostListing(lines), SetRequest({"a": count, "b": count}))
