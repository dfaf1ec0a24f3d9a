from policies.costs.demand import SetRequest
from policies.costs.greedy import links_to, take_greedily
from policies.costs.model import CostLine, CostListing
from tests.unit.policies.costs.build import graph_of

# g0 is cheap to n0, which is dear to g1; both GPUs are needed.
LINES = (CostLine(("g/0",), 1, ("n/0",)), CostLine(("g/0",), 5, ("n/1",)), CostLine(("g/1",), 9, ("n/0",)))


def test_each_step_takes_what_costs_least_to_all_that_is_chosen() -> None:
    graph = graph_of(CostListing(LINES), SetRequest({"g": 2, "n": 1}))
    assert graph.members(take_greedily(graph)) == ("g/0", "g/1", "n/1")


def test_ties_go_to_the_first_instance() -> None:
    graph = graph_of(CostListing(present=("g/2", "g/10", "g/1")), SetRequest({"g": 2}))
    assert graph.members(take_greedily(graph)) == ("g/1", "g/2")


def test_what_must_be_in_the_set_is_chosen_before_the_walk() -> None:
    graph = graph_of(CostListing(LINES), SetRequest({"g": 1, "n": 1}, must=frozenset({"n/0"})))
    assert graph.members(take_greedily(graph)) == ("g/0", "n/0")


def test_links_are_what_one_more_instance_costs() -> None:
    graph = graph_of(CostListing((CostLine(("c/0", "c/1", "c/2"), 2, ("c/0", "c/1", "c/2")),)), SetRequest({"c": 2}))
    assert links_to(graph, [2]) == [8]
