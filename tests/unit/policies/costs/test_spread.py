from random import Random

import pytest

from policies.costs.demand import SetRequest
from policies.costs.graph import CostGraph, Missing
from policies.costs.greedy import take_greedily
from policies.costs.model import CostLine, CostListing
from policies.costs.spread import SpreadSearch, areas_of
from tests.unit.policies.costs.build import (
    cheapest_by_enumeration,
    graph_of,
    no_two_alike,
    random_areas,
    random_request,
)


def server(seed: int, nodes: int = 2) -> CostGraph:
    """Nodes of 8 CPUs in cores of two, and six devices to each node at costs of their own."""
    random = Random(seed)
    lines = []
    cpus = [f"cpu/{i}" for i in range(8 * nodes)]
    for core in range(4 * nodes):
        mine = (cpus[2 * core], cpus[2 * core + 1])
        node = core // 4 * 8
        rest = tuple(name for name in cpus[node : node + 8] if name not in mine)
        far = tuple(name for name in cpus if name not in cpus[node : node + 8])
        lines += [CostLine(mine, cost, names) for cost, names in ((1, mine), (6, rest), (9, far))]
    devices = [f"dev/{i}" for i in range(6)]
    for device in devices:
        lines += [
            CostLine((device,), random.randint(5, 40), tuple(cpus[node : node + 8])) for node in range(0, 8 * nodes, 8)
        ]
        lines += [CostLine((device,), random.randint(5, 40), (other,)) for other in devices if other != device]
    return graph_of(CostListing(tuple(lines)), SetRequest({"cpu": 9, "dev": 3}))


@pytest.mark.parametrize("missing", Missing)
def test_the_set_is_the_cheapest_of_all(missing: Missing) -> None:
    random = Random(3)
    searched = 0
    while searched < 60:
        listing = random_areas(random)
        wanted = random_request(random, listing)
        graph = graph_of(listing, wanted, missing)
        areas = areas_of(graph)
        if areas is None:
            continue
        searched += 1
        found = SpreadSearch(graph, areas, take_greedily(graph)).run(None)
        assert found.is_proved
        assert graph.cost(found.counts) == cheapest_by_enumeration(listing, wanted, missing)
        assert wanted.must <= set(graph.members(found.counts))


def test_the_cpus_of_a_node_are_one_area() -> None:
    areas = areas_of(server(1))
    assert areas is not None
    assert [len(area.vertices) for area in areas.areas] == [4, 4]


def test_many_areas_are_within_the_steps() -> None:
    graph = server(2, nodes=16)
    areas = areas_of(graph)
    assert areas is not None
    assert SpreadSearch(graph, areas, take_greedily(graph)).run().is_proved


def test_instances_without_areas_are_for_other_searches() -> None:
    assert areas_of(no_two_alike(1, 6, 3)) is None
    assert areas_of(no_two_alike(1, 6, 3, most=0)) is None


@pytest.mark.parametrize("limit", ["steps", "clock"])
def test_an_early_end_leaves_the_cheapest_set_met(limit: str) -> None:
    graph = server(1)
    areas = areas_of(graph)
    assert areas is not None
    first = take_greedily(graph)
    search = SpreadSearch(graph, areas, first)
    found = search.run(3) if limit == "steps" else search.run(None, lambda: True)
    whole = SpreadSearch(graph, areas, first).run(None)
    assert whole.is_proved
    assert graph.cost(whole.counts) <= graph.cost(found.counts) <= graph.cost(first)
    assert found.is_proved is (limit == "clock" and found.steps < 1000)
    assert SpreadSearch(graph, areas, first).run(None) == whole
