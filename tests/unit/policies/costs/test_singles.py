from random import Random

import pytest

from policies.costs.exact import search
from policies.costs.graph import CostGraph, Missing
from policies.costs.greedy import take_greedily
from policies.costs.singles import MAX_SINGLES, MIN_SINGLES, SinglesSearch, are_for_convex_bounds
from tests.unit.policies.costs.build import (
    are_single,
    cheapest_by_enumeration,
    graph_of,
    no_two_alike,
    random_listing,
    random_request,
)


def searched(graph: CostGraph) -> SinglesSearch:
    return SinglesSearch(graph, take_greedily(graph))


@pytest.mark.parametrize("missing", Missing)
def test_the_set_is_the_cheapest_of_all(missing: Missing) -> None:
    random = Random(7)
    graphs = 0
    while graphs < 60:
        listing = random_listing(random, alike=0.1, known=0.9, most=6)
        wanted = random_request(random, listing)
        graph = graph_of(listing, wanted, missing)
        if not are_single(graph):
            continue
        graphs += 1
        found = searched(graph).run(None)
        assert found.is_proved
        assert graph.cost(found.counts) == cheapest_by_enumeration(listing, wanted, missing)
        assert wanted.must <= set(graph.members(found.counts))


@pytest.mark.parametrize("most", [1, 3, 99, (1 << 31) - 1, 10**30])
def test_both_searches_prove_the_same_cost(most: int) -> None:
    """With few different costs many sets are as cheap as each other; huge ones exceed what a float tells apart."""
    for seed in range(6):
        graph = no_two_alike(seed, 8, 4, most=most)
        first = take_greedily(graph)
        singles, other = SinglesSearch(graph, first).run(None), search(graph, first, None)
        assert singles.is_proved
        assert graph.cost(singles.counts) == graph.cost(other.counts)


def test_the_end_of_the_steps_ends_the_search_with_the_best_set_so_far_and_it_goes_on_from_there() -> None:
    graph = no_two_alike(1, 14, 7)
    first = take_greedily(graph)
    whole = SinglesSearch(graph, first).run(None)
    halting = SinglesSearch(graph, first)
    costs = []
    for steps in (0, 4000, 8000):
        found = halting.run(steps)
        assert not found.is_proved
        costs.append(graph.cost(found.counts))
    assert costs == sorted(costs, reverse=True)
    assert costs[0] == graph.cost(first)
    assert halting.run(None) == whole


def test_the_clock_ends_the_search_too() -> None:
    looks: list[int] = []

    def is_over() -> bool:
        looks.append(1)
        return len(looks) == 3

    graph = no_two_alike(1, 14, 7)
    assert not searched(graph).run(None, is_over).is_proved
    assert len(looks) == 3


def test_a_layer_that_is_wanted_whole_leaves_nothing_to_search() -> None:
    graph = no_two_alike(2, 5, 5)
    found = searched(graph).run(None)
    assert (found.counts, found.is_proved) == ((1,) * 10, True)


def test_it_is_for_single_instances_neither_few_nor_many() -> None:
    for each, is_for_it in (
        (MIN_SINGLES, True),
        (MIN_SINGLES - 2, False),
        (MAX_SINGLES, True),
        (MAX_SINGLES + 2, False),
    ):
        assert are_for_convex_bounds(no_two_alike(1, each // 2, 3)) is is_for_it
    assert not are_for_convex_bounds(no_two_alike(1, MAX_SINGLES // 2, 3, most=0))
