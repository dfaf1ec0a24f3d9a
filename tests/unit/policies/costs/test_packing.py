from itertools import combinations, pairwise
from random import Random

from policies.costs.demand import SetRequest
from policies.costs.graph import CostGraph
from policies.costs.model import CostLine, CostListing
from policies.costs.packing import ENDLESS, least_sums, packing
from tests.unit.policies.costs.build import graph_of


def cores(costs: tuple[int, int, int], must: frozenset[str] = frozenset()) -> CostGraph:
    """Two domains of two cores of two threads, with costs within a core, a domain and between domains."""
    lines = []
    for core in range(4):
        mine = (f"c/{2 * core}", f"c/{2 * core + 1}")
        near = tuple(f"c/{i}" for i in range(core // 2 * 4, core // 2 * 4 + 4) if i // 2 != core)
        far = tuple(f"c/{i}" for i in range(8) if i // 4 != core // 2)
        lines += [CostLine(mine, cost, names) for cost, names in zip(costs, (mine, near, far), strict=True)]
    return graph_of(CostListing(tuple(lines)), SetRequest({"c": 5}, must=must))


def test_the_costs_are_those_of_the_cheapest_instances_of_each_count() -> None:
    random = Random(1)
    for _ in range(20):
        near, far = sorted(random.sample(range(20), 2))
        costs = (random.randint(0, 20), near, far)
        graph = cores(costs)
        found = packing(graph, range(len(graph.vertices)), 6)
        assert found is not None
        assert len(found.costs) == 7
        one_way = [
            [costs[0] if a // 2 == b // 2 else costs[1] if a // 4 == b // 4 else costs[2] for b in range(8)]
            for a in range(8)
        ]
        for n, cost in enumerate(found.costs):
            assert cost == min(
                sum(4 * one_way[a][b] for a, b in combinations(chosen, 2)) for chosen in combinations(range(8), n)
            )
            counts = found.counts(n)
            assert sum(counts.values()) == n
            assert 2 * graph.cost([counts[v] for v in range(len(graph.vertices))]) == cost


def test_fewer_than_must_be_chosen_cost_without_end() -> None:
    graph = cores((0, 5, 9), must=frozenset({"c/0", "c/1", "c/6"}))
    found = packing(graph, range(len(graph.vertices)), 5)
    assert found is not None
    assert [cost >= ENDLESS // 2 for cost in found.costs] == [True, True, True, False, False, False]
    assert [graph.vertices[v].must for v in range(len(graph.vertices)) if found.counts(3)[v]] == [2, 1]


def test_costs_that_are_no_distances_of_domains_have_no_packing() -> None:
    """A ring of four with different costs: whichever is taken apart, the rest holds together."""
    names = ("a", "b", "c", "d", "a")
    lines = tuple(CostLine((f"x/{p}",), 1 + i, (f"x/{q}",)) for i, (p, q) in enumerate(pairwise(names)))
    graph = graph_of(CostListing(lines), SetRequest({"x": 2}))
    assert packing(graph, range(4), 2) is None


def test_sums_take_the_cheapest_split() -> None:
    assert least_sums((0, 5, 6), (0, 1), 9) == (0, 1, 6, 7)
    assert least_sums((0, 5, 6), (0, 1), 1) == (0, 1)
