"""Tables over all subsets of nodes, and the order of hints."""

import pytest

from policies.hints import Amount, TooManyNodesError, by_size, enough, fewest_nodes, hints_of, listed_nodes
from policies.hints.node_sets import touching
from tests.unit.policies.hints.build import shown


def test_subsets_come_by_size_and_then_by_their_lowest_members() -> None:
    assert [bin(index) for index in by_size(4)[4:7]] == ["0b11", "0b101", "0b1001"]


def test_a_mask_on_two_nodes_touches_their_union_once() -> None:
    assert touching([2, 5], [1 << 2 | 1 << 5, 1 << 5]) == [0, 1, 2, 2]


def test_a_set_has_enough_that_reaches_every_request() -> None:
    amounts = [Amount((4, 4, 0), 4), Amount((0, 1, 2), 2)]
    assert shown(hints_of((1, 3, 4), enough(3, amounts), size=2)) == ["1,4!", "3-4!", "1,3-4"]
    assert (fewest_nodes(3, amounts), fewest_nodes(3, [Amount((1, 1, 1), 4)])) == (2, 0)


def test_the_empty_set_has_nothing_not_even_where_nothing_is_asked_for() -> None:
    assert (list(enough(2, [Amount((0, 0), 0)])), list(enough(2, []))) == ([1, 2, 3], [1, 2, 3])


def test_sets_of_sixteen_nodes_are_listed_and_of_more_they_are_not() -> None:
    assert len(listed_nodes(0xFFFF << 8)) == 16
    with pytest.raises(TooManyNodesError, match="at most 16 NUMA nodes, and there are 17"):
        listed_nodes((1 << 17) - 1)
