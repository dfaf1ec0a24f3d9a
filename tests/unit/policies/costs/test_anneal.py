from itertools import combinations, product
from random import Random

import pytest

from policies.costs.anneal import anneal
from policies.costs.demand import SetRequest
from policies.costs.greedy import take_greedily
from policies.costs.model import CostLine, CostListing
from tests.unit.policies.costs.build import graph_of

# A greedy walk takes x/0 first, and then nothing is cheap: the best pair is x/2 with x/3, two replacements away.
TRAP = (
    CostLine(("x/0",), 5, ("x/1", "x/2", "x/3")),
    CostLine(("x/1",), 9, ("x/2", "x/3")),
    CostLine(("x/2",), 1, ("x/3",)),
)
LISTING = CostListing(TRAP)


def test_a_set_gets_cheaper_by_replacements() -> None:
    graph = graph_of(LISTING, SetRequest({"x": 2}))
    assert graph.cost(take_greedily(graph)) == 5
    assert graph.members(anneal(graph, take_greedily(graph), Random(1))) == ("x/2", "x/3")


def test_the_same_seed_gives_the_same_set() -> None:
    graph = graph_of(LISTING, SetRequest({"x": 2}))
    start = take_greedily(graph)
    assert anneal(graph, start, Random(7)) == anneal(graph, start, Random(7))


def test_a_set_without_alternatives_stays() -> None:
    graph = graph_of(LISTING, SetRequest({"x": 4}))
    assert anneal(graph, take_greedily(graph), Random(1)) == take_greedily(graph)


def test_what_must_be_in_the_set_stays() -> None:
    graph = graph_of(LISTING, SetRequest({"x": 2}, must=frozenset({"x/0"})))
    assert "x/0" in graph.members(anneal(graph, take_greedily(graph), Random(1)))


def test_no_step_is_no_change() -> None:
    graph = graph_of(LISTING, SetRequest({"x": 2}))
    assert anneal(graph, take_greedily(graph), Random(1), steps=0) == take_greedily(graph)


@pytest.mark.parametrize("seed", range(5))
def test_no_single_replacement_makes_the_result_cheaper(seed: int) -> None:
    random = Random(seed)
    names = tuple(f"x/{i}" for i in range(40))
    lines = [CostLine((name,), random.randint(1, 1000), (other,)) for name, other in combinations(names, 2)]
    graph = graph_of(CostListing(tuple(lines)), SetRequest({"x": 20}))
    found = anneal(graph, take_greedily(graph), random)
    inside = [v for v, count in enumerate(found) if count]
    outside = [v for v, count in enumerate(found) if not count]
    replaced = []
    for old, new in product(inside, outside):
        counts = list(found)
        counts[old], counts[new] = 0, 1
        replaced.append(graph.cost(counts))
    assert graph.cost(found) <= min(replaced)
