from fractions import Fraction

import pytest

from policies.devices.costs import CostError, CostLine, CostListing, Group, Normalize, compile_costs

FOOS, BARS = ("foo/0", "foo/1"), ("bar/0",)


def test_instances_of_the_same_lines_are_one_group() -> None:
    table = compile_costs(CostListing((CostLine(FOOS, 10, BARS), CostLine(FOOS[:1], 3, FOOS[1:])), ("foo/2", "foo/3")))
    assert table.groups == (
        Group("bar", ("bar/0",)),
        Group("foo", ("foo/0",)),
        Group("foo", ("foo/1",)),
        Group("foo", ("foo/2", "foo/3")),
    )
    assert [dict(row) for row in table.costs] == [{}, {0: 10, 2: 3}, {0: 10}, {}]


def test_a_cost_to_itself_is_none_and_to_another_of_the_group_one() -> None:
    assert compile_costs(CostListing((CostLine(FOOS, 5, FOOS),))).costs == ({0: 5},)
    assert compile_costs(CostListing((CostLine(BARS, 5, BARS),))).costs == ({},)


@pytest.mark.parametrize(
    ("normalize", "costs"),
    [
        (Normalize.NONE, [{}, {2: 2}, {1: 5}]),
        (Normalize.PER_TYPE_MAX, [{}, {2: 100}, {1: 100}]),
        (Normalize.GLOBAL, [{}, {2: 40}, {1: 100}]),
    ],
)
def test_the_largest_cost_becomes_100(normalize: Normalize, costs: list[dict[int, int]]) -> None:
    lines = (
        CostLine(("bar/0",), 0, ("a/0",)),
        CostLine(("bar/0",), 2, ("foo/0",)),
        CostLine(("foo/0",), 5, ("bar/0",)),
    )
    known = [
        {to: cost for to, cost in row.items() if cost} for row in compile_costs(CostListing(lines), normalize).costs
    ]
    assert known == costs


def test_parts_of_a_whole_are_kept_exactly() -> None:
    table = compile_costs(CostListing((CostLine(BARS, 3, FOOS), CostLine(BARS, 1, ("a/0",)))), Normalize.PER_TYPE_MAX)
    assert (table.scale, table.costs[1]) == (3, {0: 100, 2: 300})
    assert compile_costs(CostListing((CostLine(BARS, Fraction(5, 2), FOOS),))).scale == 2


def test_costs_of_nothing_stay_nothing() -> None:
    table = compile_costs(CostListing((CostLine(BARS, 0, FOOS),)), Normalize.GLOBAL)
    assert table.costs == ({1: 0}, {})
    assert compile_costs(CostListing(), Normalize.GLOBAL).groups == ()


def test_two_lines_that_disagree_are_refused_with_both_lines() -> None:
    lines = (CostLine(FOOS, 10, BARS, 3), CostLine(FOOS[1:], 12, BARS, 8))
    with pytest.raises(CostError, match="line 8: foo/1: has cost 10 on line 3 to bar/0 and cost 12 here"):
        compile_costs(CostListing(lines))
    assert compile_costs(CostListing((lines[0], lines[0]))).costs == ({}, {0: 10})
    others = (CostLine(FOOS[1:], 1, ("bar/9",), 1), CostLine(("foo/2",), 2, BARS, 2))
    with pytest.raises(CostError, match="foo/1: has cost 10 on line 3 to bar/0"):
        compile_costs(CostListing((*others, *lines)))


def test_lines_of_two_files_that_disagree_are_refused_with_both_files() -> None:
    """The file of the earlier line is named where it is another one."""
    here = CostLine(FOOS[1:], 12, BARS, 8, "b.yaml")
    for file, named in (("a.yaml", "on line 3 of a.yaml to"), ("b.yaml", "on line 3 to")):
        with pytest.raises(CostError, match=f"foo/1: has cost 10 {named} bar/0 and cost 12 here") as refused:
            compile_costs(CostListing((CostLine(FOOS, 10, BARS, 3, file), here)))
        assert (refused.value.file, refused.value.line) == ("b.yaml", 8)


def test_pairs_of_all_lines_are_bounded() -> None:
    lines = (CostLine(FOOS[:1], 1, BARS, 4), CostLine(FOOS, 1, (*BARS, *FOOS), 5))
    assert compile_costs(CostListing(lines), most_pairs=7).scale == 1
    with pytest.raises(CostError, match="line 5: foo/0: more than 6 pairs of instances"):
        compile_costs(CostListing(lines), most_pairs=6)
