from random import Random

import pytest

from policies.costs.demand import SetRequest
from policies.costs.exact import CLOCK_STEPS, ExactSearch
from policies.costs.graph import Missing
from policies.costs.greedy import take_greedily
from policies.costs.model import CostLine, CostListing
from tests.unit.policies.costs.build import (
    cheapest_by_enumeration,
    graph_of,
    no_two_alike,
    random_listing,
    random_request,
)


@pytest.mark.parametrize("missing", Missing)
def test_the_set_is_the_cheapest_of_all(missing: Missing) -> None:
    random = Random(3)
    for _ in range(60):
        listing = random_listing(random, alike=0.5, known=0.7)
        wanted = random_request(random, listing)
        graph = graph_of(listing, wanted, missing)
        found = ExactSearch(graph, take_greedily(graph)).run(None)
        assert found.is_proved
        assert graph.cost(found.counts) == cheapest_by_enumeration(listing, wanted, missing)
        assert wanted.must <= set(graph.members(found.counts))


def test_the_end_of_the_steps_ends_the_search_with_the_best_set_so_far() -> None:
    graph = no_two_alike(1, 12, 6)
    greedy = take_greedily(graph)
    whole = ExactSearch(graph, greedy).run(None)
    assert graph.cost(whole.counts) < graph.cost(greedy)
    costs = []
    for steps in (0, 100, 500, 2000):
        found = ExactSearch(graph, greedy).run(steps)
        assert not found.is_proved
        costs.append(graph.cost(found.counts))
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == graph.cost(greedy)


def test_the_clock_ends_the_search_too() -> None:
    graph = no_two_alike(1, 12, 6)
    looks: list[int] = []

    def is_over() -> bool:
        looks.append(1)
        return len(looks) == 2

    found = ExactSearch(graph, take_greedily(graph)).run(None, is_over)
    assert not found.is_proved
    assert 2 * CLOCK_STEPS <= found.steps < 3 * CLOCK_STEPS


def test_instances_that_can_change_places_are_tried_once() -> None:
    """64 cores of two threads each: without that, every order of the cores would be a branch of its own."""
    lines = [CostLine((f"c/{2 * i}", f"c/{2 * i + 1}"), 1, (f"c/{2 * i}", f"c/{2 * i + 1}")) for i in range(64)]
    every = [f"c/{i}" for i in range(128)]
    for i in range(64):
        mine = every[2 * i : 2 * i + 2]
        lines.append(CostLine(tuple(mine), 4, tuple(name for name in every if name not in mine)))
    graph = graph_of(CostListing(tuple(lines)), SetRequest({"c": 7}))
    found = ExactSearch(graph, take_greedily(graph)).run(20_000)
    assert found.is_proved
    assert graph.cost(found.counts) == 3 * 2 + (21 - 3) * 8


def test_a_graph_with_a_single_set_is_proved_at_once() -> None:
    graph = no_two_alike(2, 5, 5)
    found = ExactSearch(graph, take_greedily(graph)).run(100)
    assert found.is_proved
    assert set(found.counts) == {1}
