from fractions import Fraction

import pytest

from policies.devices.costs import (
    CannotSelect,
    CostLine,
    CostListing,
    CostTerm,
    Missing,
    Normalize,
    Selection,
    SelectMethod,
    SelectOptions,
    SetRequest,
    cheapest_of,
    compile_costs,
    select,
)
from tests.unit.policies.devices.costs.build import selected, two_types

FOO, BAR, CPU = "example.com/foo", "example.com/bar", "cpu"
# The first example of the proposal: foo/id0 to bar/card0 costs 10, and 12 back.
FIRST = CostListing(
    (
        CostLine(
            (f"{FOO}/id0", f"{FOO}/id1"),
            10,
            (*(f"cpu/cpu{i}" for i in range(21)), *(f"{BAR}/card{i}" for i in range(4))),
        ),
        CostLine((f"{FOO}/id0", f"{FOO}/id1"), 20, tuple(f"cpu/cpu{i}" for i in range(21, 31))),
        CostLine((f"{BAR}/card0",), 5, tuple(f"cpu/cpu{i}" for i in range(21))),
        CostLine((f"{BAR}/card0",), 12, (f"{FOO}/id0",)),
    )
)
HARD, HARD_REQUEST = compile_costs(two_types(5, 12)), SetRequest({"a": 6, "b": 6})


def test_the_sum_of_both_directions_is_never_chosen_while_silence_is_free() -> None:
    assert selected(FIRST, SetRequest({FOO: 1, BAR: 1})).cost == 10
    both = SetRequest({FOO: 1, BAR: 1}, must=frozenset({f"{FOO}/id0", f"{BAR}/card0"}))
    assert selected(FIRST, both).cost == 22


def test_with_one_way_costs_counted_both_ways_the_optimum_is_20() -> None:
    answer = selected(FIRST, SetRequest({FOO: 1, BAR: 1}), SelectOptions(missing=Missing.MIRROR))
    assert (answer.cost, answer.is_optimal, answer.silent) == (20, True, ())


def test_members_that_win_by_silence_are_named() -> None:
    answer = selected(FIRST, SetRequest({FOO: 1, BAR: 1}))
    assert answer.silent == tuple(name for name in answer.names if name.startswith(f"{BAR}/card"))
    assert selected(FIRST, SetRequest({CPU: 2})).silent == ()


def test_a_member_is_silent_only_beside_a_free_instance_that_reports_costs() -> None:
    listing = CostListing((CostLine(("g/0", "g/1"), 5, ("n/0",)), CostLine(("n/0",), 1, ("g/0",))), ("g/2",))
    silent = [
        selected(listing, SetRequest({"g": 1, "n": 1}, frozenset(busy))).silent
        for busy in ({"g/0"}, {"g/0", "g/1"}, {"g/2"})
    ]
    assert silent == [("g/2",), (), ()]
    alike = CostListing((CostLine(("g/0", "g/1"), 5, ("n/0",)),), ("g/2",))
    assert selected(alike, SetRequest({"g": 1, "n": 1}, frozenset({"g/0"}))).silent == ("g/2",)


def test_a_set_that_costs_nothing_is_the_cheapest_however_it_is_found() -> None:
    free = CostListing(present=("g/0", "g/1"))
    assert selected(free, SetRequest({"g": 1}), SelectOptions(SelectMethod.GREEDY)).is_optimal


def test_terms_add_up_to_the_cost() -> None:
    answer = selected(FIRST, SetRequest({FOO: 1, CPU: 2}))
    assert answer.terms == (CostTerm((FOO, CPU), 2, 20), CostTerm((CPU, CPU), 1, 0))
    assert answer.names == ("cpu/cpu0", "cpu/cpu1", f"{FOO}/id0")


def test_a_normalised_cost_may_be_a_fraction() -> None:
    listing = CostListing((CostLine(("a/0",), 1, ("b/0",)), CostLine(("a/0",), 3, ("b/1",))))
    answer = select(compile_costs(listing, Normalize.PER_TYPE_MAX), SetRequest({"a": 1, "b": 1}, frozenset({"b/2"})))
    assert isinstance(answer, Selection)
    assert answer.cost == Fraction(100, 3)


@pytest.mark.parametrize("method", SelectMethod)
def test_every_method_meets_the_request_and_none_is_worse_than_the_greedy_one(method: SelectMethod) -> None:
    answer = select(HARD, HARD_REQUEST, SelectOptions(method))
    assert isinstance(answer, Selection)
    assert [name[0] for name in answer.names] == ["a"] * 6 + ["b"] * 6
    assert answer.cost <= answer.greedy_cost
    assert sum(term.cost for term in answer.terms) == answer.cost
    assert answer == select(HARD, HARD_REQUEST, SelectOptions(method))


def test_an_unproved_answer_names_the_method_that_found_it() -> None:
    answer = select(HARD, HARD_REQUEST, SelectOptions(steps=100))
    assert isinstance(answer, Selection)
    assert (answer.is_optimal, answer.method) == (False, SelectMethod.ANNEAL)
    exact = select(HARD, HARD_REQUEST, SelectOptions(SelectMethod.EXACT, steps=100))
    assert isinstance(exact, Selection)
    assert (exact.is_optimal, exact.method) == (False, SelectMethod.EXACT)


def test_a_proved_answer_is_the_exact_one() -> None:
    answer = select(HARD, HARD_REQUEST)
    assert isinstance(answer, Selection)
    assert (answer.is_optimal, answer.method) == (True, SelectMethod.EXACT)
    assert answer.cost < answer.greedy_cost


def test_a_request_that_cannot_be_met_is_answered_with_the_reason() -> None:
    assert isinstance(select(HARD, SetRequest({"a": 13})), CannotSelect)


def test_devices_of_one_resource_are_chosen_by_their_costs_to_each_other() -> None:
    far = (CostLine(("gpu/0", "gpu/1"), 40, ("gpu/2", "gpu/3")), CostLine(("gpu/0",), 2, ("gpu/1",)))
    table = compile_costs(CostListing((*far, CostLine(("gpu/2",), 3, ("gpu/3",)))))

    def chosen(free: str, size: int, must: str = "") -> str:
        names, required = [f"gpu/{one}" for one in free], frozenset(f"gpu/{one}" for one in must)
        return "".join(name[-1] for name in cheapest_of(table, "gpu", names, required, size))

    assert (chosen("0123", 2), chosen("023", 2), chosen("0123", 2, "3")) == ("01", "23", "23")
    assert (chosen("239", 2, "2"), chosen("239", 3), chosen("98", 2)) == ("29", "239", "89")  # 8, 9: not listed
    assert chosen("01", 3) == ""
