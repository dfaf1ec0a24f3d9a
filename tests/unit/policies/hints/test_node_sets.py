"""Tables over all subsets of nodes, and the order of hints."""

from policies.hints.model import Amount, Hint, Unlisted
from policies.hints.node_sets import by_size, offered, touching
from tests.unit.policies.hints.build import shown


def test_subsets_come_by_size_and_then_by_their_lowest_members() -> None:
    assert [bin(index) for index in by_size(4)[4:7]] == ["0b11", "0b101", "0b1001"]


def test_a_mask_on_two_nodes_touches_their_union_once() -> None:
    assert touching([2, 5], [1 << 2 | 1 << 5, 1 << 5]) == [0, 1, 2, 2]


def test_hints_that_are_listed_anyway_stand_in_the_order_of_the_others() -> None:
    family = Unlisted((Amount((1, 1, 1), 1),), 1, within=0b101, listed=(Hint(0b010, preferred=True),))
    assert shown(offered(family)) == ["0!", "1!", "2!", "0,2"]
