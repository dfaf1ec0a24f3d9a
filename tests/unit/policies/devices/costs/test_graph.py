import pytest

from policies.devices.costs import (
    CannotSelect,
    CostGraph,
    CostLine,
    CostListing,
    Missing,
    SetRequest,
    build_graph,
    compile_costs,
)
from tests.unit.policies.devices.costs.build import graph_of

GPUS, CPUS = ("gpu/0", "gpu/1"), ("cpu/0", "cpu/1", "cpu/2")
LISTING = CostListing((CostLine(GPUS[:1], 10, CPUS[:2]), CostLine(CPUS[:1], 12, GPUS), CostLine(GPUS, 3, GPUS)), CPUS)


def test_the_most_constrained_layer_is_the_first() -> None:
    assert [layer.kind for layer in graph_of(LISTING, SetRequest({"cpu": 2, "gpu": 2})).layers] == ["gpu", "cpu"]
    assert [layer.kind for layer in graph_of(LISTING, SetRequest({"cpu": 3, "gpu": 1})).layers] == ["cpu", "gpu"]

    assert [layer.kind for layer in graph_of(LISTING, SetRequest({"cpu": 3, "gpu": 0})).layers] == ["cpu"]


def test_a_pair_costs_both_directions() -> None:
    graph = graph_of(LISTING, SetRequest({"cpu": 1, "gpu": 1}))
    assert [vertex.members for vertex in graph.vertices] == [("gpu/0",), ("gpu/1",), ("cpu/0",), ("cpu/1",), ("cpu/2",)]
    assert graph.pair[0] == (0, 6, 22, 10, 0)
    assert graph.pair[1] == (6, 0, 12, 0, 0)


def test_a_one_way_cost_may_count_both_ways() -> None:
    graph = graph_of(LISTING, SetRequest({"cpu": 1, "gpu": 1}), Missing.MIRROR)
    assert graph.pair[0] == (0, 6, 22, 20, 0)
    assert graph.pair[1] == (6, 0, 24, 0, 0)


def test_a_known_cost_of_nothing_is_no_missing_one() -> None:
    listing = CostListing((CostLine(("a/0",), 10, ("b/0",)), CostLine(("b/0",), 0, ("a/0",))))
    assert graph_of(listing, SetRequest({"a": 1, "b": 1}), Missing.MIRROR).pair[0][1] == 10


def test_interchangeable_instances_are_one_vertex() -> None:
    lines = [CostLine((cpu,), 4, ("gpu/0",)) for cpu in CPUS]
    lines += [CostLine((cpu,), 1, (other,)) for cpu in CPUS for other in CPUS if cpu < other]
    graph = graph_of(CostListing(tuple(lines)), SetRequest({"cpu": 2, "gpu": 1}))
    assert members_of(graph) == [(0, ("gpu/0",)), (1, CPUS)]
    assert graph.pair == ((0, 4), (4, 1))
    assert graph.cost([1, 2]) == 9


def test_instances_that_differ_in_types_which_are_not_requested_are_one_vertex() -> None:
    assert members_of(graph_of(LISTING, SetRequest({"gpu": 1}))) == [(0, GPUS)]


@pytest.mark.parametrize(("inside", "between", "joined"), [(5, 5, True), (5, 3, False), (3, 5, False)])
def test_a_group_is_joined_with_what_its_members_cost_as_they_cost_each_other(
    inside: int, between: int, joined: bool
) -> None:
    pair = CostLine(("a/0", "a/1"), inside, ("a/0", "a/1"))
    single = (CostLine(("a/0", "a/1"), between, ("a/2",)), CostLine(("a/2",), between, ("a/0", "a/1")))
    assert len(graph_of(CostListing((pair, *single)), SetRequest({"a": 2})).vertices) == (1 if joined else 2)
    other = (CostLine(("a/2", "a/3"), inside, ("a/2", "a/3")), CostLine(("a/0", "a/1"), 2 * between, ("a/2", "a/3")))
    assert len(graph_of(CostListing((pair, *other)), SetRequest({"a": 2})).vertices) == (1 if joined else 2)


def test_busy_instances_are_left_out_and_those_that_must_be_chosen_come_first() -> None:
    wanted = SetRequest({"gpu": 1, "cpu": 1}, frozenset({"gpu/0", "cpu/0"}), frozenset({"cpu/2"}))
    graph = graph_of(LISTING, wanted)
    assert members_of(graph) == [(0, ("gpu/1",)), (1, ("cpu/2", "cpu/1"))]
    assert [vertex.must for vertex in graph.vertices] == [0, 1]


def test_a_set_is_shown_in_ascending_order() -> None:
    numbered = graph_of(CostListing((CostLine(("g/9", "g/10"), 1, ("n/0",)),)), SetRequest({"n": 1, "g": 2}))
    assert numbered.members([2, 1]) == ("g/9", "g/10", "n/0")
    graph = graph_of(LISTING, SetRequest({"gpu": 1, "cpu": 2}))
    assert graph.members([0, 1, 1, 0, 1]) == ("cpu/1", "cpu/2", "gpu/1")


def test_a_request_that_cannot_be_met_has_no_graph() -> None:
    assert isinstance(build_graph(compile_costs(LISTING), SetRequest({"gpu": 3})), CannotSelect)


def test_more_instances_of_different_lines_than_the_graph_may_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("policies.devices.costs.graph.MAX_VERTICES", 4)
    refused = build_graph(compile_costs(LISTING), SetRequest({"gpu": 1, "cpu": 1}))
    assert isinstance(refused, CannotSelect)
    assert refused.problem == "5 of the free instances stand in different lines; at most 4 may"


@pytest.mark.parametrize("at", range(2, 12))
def test_instances_with_equal_sums_of_other_costs_are_two_vertices(at: int) -> None:
    """One more, two less, one more: the sums that are compared first are equal, whichever three types these are."""
    lines, more = [], {at: 1, at + 1: -2, at + 2: 1}
    for i in range(2, 14):
        lines += [CostLine(("a/0",), 5 + more.get(i, 0), (f"t{i}/0",)), CostLine(("a/1",), 5, (f"t{i}/0",))]
    graph = graph_of(CostListing(tuple(lines)), SetRequest({"a": 1, **{f"t{i}": 1 for i in range(2, 14)}}))
    assert {("a/0",), ("a/1",)} <= {vertex.members for vertex in graph.vertices}


def members_of(graph: CostGraph) -> list[tuple[int, tuple[str, ...]]]:
    return [(vertex.layer, vertex.members) for vertex in graph.vertices]
