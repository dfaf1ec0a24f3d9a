"""Greedy walk, annealing and exact search, each as a method of ``select``."""

from itertools import product
from random import Random

import pytest

from policies.devices.costs import (
    CostLine,
    CostListing,
    Missing,
    Selection,
    SelectMethod,
    SelectOptions,
    SetRequest,
    compile_costs,
    select,
)
from tests.unit.policies.devices.costs.build import CostOracle, random_listing, random_request, selected, two_types

GREEDY, ANNEAL = SelectOptions(SelectMethod.GREEDY), SelectOptions(SelectMethod.ANNEAL)
# g0 is cheap to n0, which is dear to g1; both GPUs are needed.
GPUS = CostListing((CostLine(("g/0",), 1, ("n/0",)), CostLine(("g/0",), 5, ("n/1",)), CostLine(("g/1",), 9, ("n/0",))))
# A greedy walk takes x/0 first, and then nothing is cheap: the best pair is x/2 with x/3, two replacements away.
TRAP = CostListing(
    (
        CostLine(("x/0",), 5, ("x/1", "x/2", "x/3")),
        CostLine(("x/1",), 9, ("x/2", "x/3")),
        CostLine(("x/2",), 1, ("x/3",)),
    )
)
HARD, OF_HARD = two_types(1, 12), SetRequest({"a": 6, "b": 6})


def test_each_greedy_step_takes_what_costs_least_to_all_that_is_chosen() -> None:
    assert selected(GPUS, SetRequest({"g": 2, "n": 1}), GREEDY).names == ("g/0", "g/1", "n/1")


def test_greedy_ties_go_to_the_first_instance() -> None:
    present = CostListing(present=("g/2", "g/10", "g/1"))
    assert selected(present, SetRequest({"g": 2}), GREEDY).names == ("g/1", "g/2")


@pytest.mark.parametrize("method", SelectMethod)
def test_instances_that_must_be_in_the_set_are_chosen_before_all_others(method: SelectMethod) -> None:
    wanted = SetRequest({"g": 1, "n": 1}, must=frozenset({"n/0"}))
    assert selected(GPUS, wanted, SelectOptions(method)).names == ("g/0", "n/0")
    assert "x/0" in selected(TRAP, SetRequest({"x": 2}, must=frozenset({"x/0"})), SelectOptions(method)).names


def test_annealing_makes_a_set_cheaper_by_replacements() -> None:
    assert selected(TRAP, SetRequest({"x": 2}), GREEDY).cost == 5
    assert selected(TRAP, SetRequest({"x": 2}), ANNEAL).names == ("x/2", "x/3")
    assert selected(TRAP, SetRequest({"x": 2}), SelectOptions(SelectMethod.ANNEAL, walk_steps=0)).cost == 5
    assert selected(TRAP, SetRequest({"x": 4}), ANNEAL).names == ("x/0", "x/1", "x/2", "x/3")


@pytest.mark.parametrize("seed", range(5))
def test_no_single_replacement_makes_an_annealed_set_cheaper(seed: int) -> None:
    listing = two_types(seed, 20, most=1000)
    answer = selected(listing, SetRequest({"a": 10, "b": 10}), SelectOptions(SelectMethod.ANNEAL, seed=seed))
    cost = CostOracle(listing).cost
    others = [f"{kind}/{i}" for kind in "ab" for i in range(20) if f"{kind}/{i}" not in answer.names]
    swaps = [(old, new) for old, new in product(answer.names, others) if old[0] == new[0]]
    assert answer.cost <= min(cost(name if name != old else new for name in answer.names) for old, new in swaps)


@pytest.mark.parametrize("missing", Missing)
def test_the_exact_set_is_the_cheapest_of_all(missing: Missing) -> None:
    random = Random(3)
    for _ in range(60):
        listing = random_listing(random, alike=0.5, known=0.7)
        wanted = random_request(random, listing)
        answer = selected(listing, wanted, SelectOptions(missing=missing, steps=None))
        assert (answer.cost, answer.is_optimal) == (CostOracle(listing, missing).cheapest(wanted), True)
        assert wanted.must <= set(answer.names)


def test_the_end_of_the_steps_ends_the_search_with_the_best_set_so_far() -> None:
    answers = [
        selected(HARD, OF_HARD, SelectOptions(SelectMethod.EXACT, steps=steps, walk_steps=0))
        for steps in (0, 100, 500, 2000, None)
    ]
    costs = [answer.cost for answer in answers]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > costs[-1]
    assert [answer.is_optimal for answer in answers] == [False] * 4 + [True]


def test_the_clock_ends_the_search_too() -> None:
    looks: list[int] = []

    def is_over() -> bool:
        looks.append(1)
        return len(looks) >= 6

    answer = select(compile_costs(HARD), OF_HARD, SelectOptions(steps=None), is_over)
    assert isinstance(answer, Selection)
    assert not answer.is_optimal
    assert 6000 <= answer.steps < 7000  # the clock is looked at each 1000 steps


def test_instances_that_can_change_places_are_tried_once() -> None:
    """64 cores of two threads each: without that, every order of the cores would be a branch of its own."""
    every = [f"c/{i}" for i in range(128)]
    lines = []
    for i in range(64):
        mine = tuple(every[2 * i : 2 * i + 2])
        lines += [CostLine(mine, 1, mine), CostLine(mine, 4, tuple(name for name in every if name not in mine))]
    answer = selected(CostListing(tuple(lines)), SetRequest({"c": 7}))
    assert (answer.cost, answer.is_optimal) == (3 * 2 + (21 - 3) * 8, True)


def test_a_graph_with_a_single_set_is_proved_at_once() -> None:
    answer = selected(two_types(2, 5), SetRequest({"a": 5, "b": 5}), SelectOptions(steps=100))
    assert (len(answer.names), answer.is_optimal) == (10, True)


RECORDED = (
    ((12, 1, 5, ""), (3702, 3612, 3602, 3612, 3612, 3702, 3612, 3602), 10285, "exact"),
    ((8, 2, 7, "a/2"), (7251, 7130, 7212, 7212, 7212, 7212, 7212, 7130), 2731, "exact"),
    ((6, 3, 9, "a/4 a/5 b/0"), (11590, 10744, 10744, 10744, 10744, 10744, 10744, 10744), 674, "exact"),
    ((20, 1, 9, ""), (12692, 12330, 12330, 12330, 12330, 12330, 12443, 12330), 20025, "anneal"),
    ((20, 3, 15, ""), (34716, 31801, 32412, 32988, 32626, 32206, 32794, 31053), 20009, "anneal"),
    # Too large for replacements to end by themselves.
    ((100, 1, 40, ""), (291967, 286560, 286560, 286560, 286560, 286560, 286560, 285648), 20042, "exact"),
)


@pytest.mark.parametrize(("question", "costs", "steps", "method"), RECORDED)
def test_the_same_question_has_the_same_answer_in_every_version(
    question: tuple[int, int, int, str], costs: tuple[int, ...], steps: int, method: str
) -> None:
    """Recorded, so that a change of a search is seen: the costs of the greedy, the annealed and the exact sets."""
    nodes, alike, count, must = question
    listing, wanted = two_types(5, nodes, alike), SetRequest({"a": count, "b": count}, must=frozenset(must.split()))
    walks = [SelectOptions(SelectMethod.ANNEAL, seed=seed, walk_steps=400) for seed in range(6)]
    *quick, last = (selected(listing, wanted, options) for options in (GREEDY, *walks, SelectOptions()))
    assert tuple(int(answer.cost) for answer in (*quick, last)) == costs
    assert {(answer.steps, answer.is_optimal) for answer in quick} == {(0, False)}
    assert (last.steps, last.method) == (steps, method)


def test_of_sets_that_cost_the_same_the_first_one_stays() -> None:
    """The search, and what it is offered by the walk, replace a set by a cheaper one alone."""
    random, ties = Random(11), 0
    for _ in range(80):
        listing = random_listing(random, alike=1.0, known=0.9, types=2)
        wanted = random_request(random, listing)
        first = selected(listing, wanted, GREEDY)
        for steps in (0, None):
            found = selected(listing, wanted, SelectOptions(steps=steps, walk_steps=50))
            ties += found.cost == first.cost
            assert (found.cost < first.cost) == (found.names != first.names)
    assert ties > 40


def test_where_nothing_cheaper_is_met_and_nothing_is_proved_the_greedy_walk_has_found_the_set() -> None:
    names = [f"x/{i}" for i in range(6)]
    flat = CostListing(tuple(CostLine((one,), 5, tuple(other for other in names if other != one)) for one in names))
    answer = selected(flat, SetRequest({"x": 3}), SelectOptions(steps=0))
    assert (answer.method, answer.is_optimal) == (SelectMethod.GREEDY, False)
    assert selected(HARD, OF_HARD, SelectOptions(steps=0, walk_steps=400)).method is SelectMethod.ANNEAL


def test_the_terms_of_a_set_add_up_to_its_cost_within_a_type_too() -> None:
    wanted = SetRequest({"a": 4, "b": 3})
    answer = selected(two_types(4, 3, alike=3), wanted, SelectOptions(walk_steps=50))
    assert [(term.types, term.pairs) for term in answer.terms if term.types[0] == term.types[1]] == [
        (("a", "a"), 6),
        (("b", "b"), 3),
    ]
    assert sum(term.cost for term in answer.terms) == answer.cost
