import pytest

from policies.hints import search
from policies.hints.model import Amount
from policies.hints.search import (
    Giver,
    OverlapSearch,
    SearchTooLongError,
    Steps,
    fewest_nodes,
    lowest_set,
    reaches,
)

FREE = Amount((4, 1, 3, 2), 5)
ALL = 0b1111


def test_nodes_reach_an_amount_together() -> None:
    assert reaches(FREE, 0b0011)
    assert not reaches(FREE, 0b0110)


def test_the_lowest_set_of_a_size_that_has_enough() -> None:
    assert lowest_set((FREE,), 2, ALL) == 0b0011
    assert lowest_set((FREE,), 2, 0b1110) == 0b1100
    assert lowest_set((FREE,), 1, ALL) == 0


def test_every_amount_has_to_be_reached() -> None:
    assert lowest_set((FREE, Amount((0, 0, 1, 1), 1)), 2, ALL) == 0b0101


def test_required_nodes_are_in_the_set() -> None:
    assert lowest_set((FREE,), 2, ALL, required=0b1000) == 0b1001
    assert lowest_set((FREE,), 2, 0b0111, required=0b1000) == 0


def test_a_set_may_be_rejected() -> None:
    assert lowest_set((FREE,), 2, ALL, accept=lambda mask: mask != 0b0011) == 0b0101


def test_the_fewest_nodes_that_have_enough() -> None:
    assert fewest_nodes((FREE,), ALL) == 2
    assert fewest_nodes((FREE, Amount((0, 1, 0, 0), 1)), 0b1110) == 3
    assert fewest_nodes((Amount((1, 1), 3),), 0b11) == 0
    assert fewest_nodes((FREE,), ALL, required=0b1010) == 3


def test_a_search_that_takes_too_long_ends() -> None:
    with pytest.raises(SearchTooLongError, match="too long"):
        lowest_set((FREE,), 2, ALL, accept=lambda mask: False, steps=Steps(3))


def test_searches_share_their_steps() -> None:
    steps = Steps()
    lowest_set((FREE,), 2, ALL, steps=steps)
    after_one = steps.left
    OverlapSearch((), ALL, steps).lowest(4)
    assert search.MAX_STEPS > after_one > steps.left


def test_an_overlap_leaves_out_what_one_of_the_givers_can_spare() -> None:
    one, other = Giver((Amount((2, 2, 2), 4),), 0b111, 0), Giver((Amount((3, 3, 3), 6),), 0b111, 0)
    assert OverlapSearch([one], 0b111).lowest(2) == (0b011, (0b100,))
    assert OverlapSearch([one], 0b111).lowest(1) is None
    found = OverlapSearch([one, other], 0b111).lowest(1)
    assert found is not None
    assert (found[0], sorted(found[1])) == (0b001, [0b010, 0b100])


def test_required_nodes_are_not_given_up() -> None:
    giver = Giver((Amount((2, 2, 2), 4),), 0b111, 0b100)
    assert OverlapSearch([giver], 0b111).lowest(2) == (0b101, (0b010,))


def test_an_overlap_may_be_asked_for_by_its_nodes() -> None:
    overlaps = OverlapSearch([Giver((Amount((2, 1, 1), 2),), 0b111, 0)], 0b111)
    assert overlaps.lowest(2, only=0b110) == (0b110, (0b001,))
    assert overlaps.lowest(1, only=0b010) is None


def test_a_giver_without_enough_has_no_hint() -> None:
    assert OverlapSearch([Giver((Amount((1, 1), 3),), 0b11, 0)], 0b11).lowest(2) is None


def test_without_givers_nothing_can_be_left_out() -> None:
    assert OverlapSearch([], 0b101).lowest(2) == (0b101, ())
    assert OverlapSearch([], 0b101).lowest(1) is None
