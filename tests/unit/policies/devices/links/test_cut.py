import pytest

from policies.devices.links import ChosenSet, best_set, points_between
from policies.devices.links.cut import TooManySets
from tests.unit.policies.devices.links.machines import (
    alike,
    best_by_enumeration,
    every_cut,
    kep_690,
    random_points,
    score,
)


def points_of_kep() -> list[list[int]]:
    return [list(row) for row in points_between(kep_690(), range(8))]


def test_four_gpus_and_a_request_of_three_have_four_cuts() -> None:
    """KEP-690 lists three of them; {0, 2, 3} and {1} is missing there."""
    assert list(every_cut((0, 1, 2, 3), 3)) == [
        ((0, 1, 2), (3,)),
        ((0, 1, 3), (2,)),
        ((0, 2, 3), (1,)),
        ((0,), (1, 2, 3)),
    ]


def test_the_cut_that_the_kep_forgets_can_win() -> None:
    points = [[0, 1, 9, 9], [1, 0, 1, 1], [9, 1, 0, 9], [9, 1, 9, 0]]
    assert best_set(points, 3) == ChosenSet((0, 2, 3), 27, 27)


def test_the_best_pairs_of_the_kep_leave_best_pairs() -> None:
    """All GPUs can have a partner with two links: 0-3, 1-2, 4-7, 5-6, and the first such cut begins with that."""
    assert best_set(points_of_kep(), 2) == ChosenSet((0, 3), 200, 800)


def test_what_is_left_over_counts_too() -> None:
    """The best pair is 1-2; without it 0-1 and 2-3 are both good."""
    points = [[0, 8, 0, 0], [8, 0, 9, 0], [0, 9, 0, 8], [0, 0, 8, 0]]
    assert best_set(points, 2) == ChosenSet((0, 1), 8, 16)


def test_a_remainder_is_never_given() -> None:
    """Peer defect: of seven GPUs, three of them with 12 links to each other, four with one, a request for four got the
    three and a hole. With the three a full set scores most too, and the total is the same."""
    near = range(3)
    points = [[0 if i == j else 1200 if i in near and j in near else 100 for j in range(7)] for i in range(7)]
    best = best_set(points, 4)
    assert len(best.members) == 4
    assert best == ChosenSet((0, 1, 2, 3), 3 * 1200 + 3 * 100, 4200)
    assert best_set(points, 3, from_all_cuts=True).members == (0, 1, 2)


def test_five_gpus_and_a_request_of_three_give_three() -> None:
    """The same defect as reported with a pair that is linked better than any three."""
    points = [[0 if i == j else 1800 if {i, j} == {3, 4} else 10 for j in range(5)] for i in range(5)]
    assert best_set(points, 3) == ChosenSet((0, 1, 2), 30, 1830)


def test_the_pair_is_one_of_the_best_cut_with_16_gpus() -> None:
    """Peer defect: from 14 GPUs on, the stored best cut was overwritten while others were tried.

    Here only 0-15, 1-14, ... are linked, so only those may be given.
    """
    points = [[100 + i * j if i + j == 15 else 0 for j in range(16)] for i in range(16)]
    assert best_set(points, 2) == ChosenSet((7, 8), 156, sum(100 + i * (15 - i) for i in range(8)))


def test_what_is_required_is_in_a_full_set() -> None:
    points = points_of_kep()
    best = best_set(points, 2, frozenset({0}))
    assert best == ChosenSet((0, 3), 200, 800)
    assert best_set(points, 2, frozenset({0, 5})) == ChosenSet((0, 5), 10, 420)
    assert best_set(points, 8, frozenset({6})).members == tuple(range(8))
    alone = [[0, 0, 0], [0, 0, 9], [0, 9, 0]]
    assert best_set(alone, 2, frozenset({0})) == ChosenSet((0, 1), 0, 0)


def test_all_best_cuts_may_have_a_better_set_than_the_first() -> None:
    """0-1 with 2-3 and 0-2 with 1-3 have the same total; the second has the single best pair."""
    points = [[0, 5, 9, 0], [5, 0, 0, 1], [9, 0, 0, 5], [0, 1, 5, 0]]
    assert best_set(points, 2) == ChosenSet((0, 1), 5, 10)
    assert best_set(points, 2, from_all_cuts=True) == ChosenSet((0, 2), 9, 10)


@pytest.mark.parametrize("size", range(1, 17))
@pytest.mark.parametrize("from_all_cuts", [False, True])
def test_gpus_behind_one_switch_are_given_from_the_first_on(size: int, from_all_cuts: bool) -> None:
    points = points_between(alike(16, 18), range(16))
    assert best_set(points, size, from_all_cuts=from_all_cuts).members == tuple(range(size))


@pytest.mark.parametrize("size", range(1, 7))
def test_no_links_at_all_are_ties(size: int) -> None:
    points = [[0] * 6 for _ in range(6)]
    assert best_set(points, size) == best_set(points, size, from_all_cuts=True) == ChosenSet(tuple(range(size)), 0, 0)


def test_alike_gpus_among_others_are_found_as_by_enumeration() -> None:
    """0, 2 and 5 can stand for each other, and so can 1 and 4."""
    near = {(0, 0): 7, (0, 1): 3, (1, 1): 9, (0, 2): 1, (1, 2): 5, (2, 2): 0}
    group = [0, 1, 0, 2, 1, 0]
    points = [
        [0 if i == j else near[min(group[i], group[j]), max(group[i], group[j])] for j in range(6)] for i in range(6)
    ]
    for size in range(1, 7):
        for from_all_cuts in (False, True):
            expected = best_by_enumeration(points, size, frozenset(), from_all_cuts=from_all_cuts)
            assert best_set(points, size, from_all_cuts=from_all_cuts) == ChosenSet(*expected)


def test_more_gpus_are_exact_where_many_are_alike() -> None:
    """32 GPUs behind two switches; the size of a switch gives the first of them."""
    points = [[0 if i == j else 50 if i // 16 == j // 16 else 10 for j in range(32)] for i in range(32)]
    assert best_set(points, 16) == ChosenSet(tuple(range(16)), 120 * 50, 2 * 120 * 50)


@pytest.mark.parametrize(("count", "size"), [(24, 4), (24, 12), (200, 100)])
def test_too_many_different_gpus_are_told_early(count: int, size: int) -> None:
    points = [[abs(i - j) ** 2 for j in range(count)] for i in range(count)]
    with pytest.raises(TooManySets):
        best_set(points, size)


def test_points_may_be_any_whole_numbers() -> None:
    from random import Random

    points = random_points(Random(3), 9, range(10**9))
    best = best_set(points, 3)
    assert best.score == score(points, best.members)


def test_a_required_gpu_cannot_stand_for_one_that_is_not() -> None:
    """All but 3 are alike, so that all cuts are best ones; with 1 required, its best partner is 3."""
    points = [[0, 1, 1, 9], [1, 0, 1, 9], [1, 1, 0, 9], [9, 9, 9, 0]]
    assert best_set(points, 2, frozenset({1})) == ChosenSet((0, 1), 1, 10)
    assert best_set(points, 2, frozenset({1}), from_all_cuts=True) == ChosenSet((1, 3), 9, 10)
    assert best_set(points, 2, frozenset({1, 2})) == ChosenSet((1, 2), 1, 10)
    assert best_set(points, 2, frozenset({2}), from_all_cuts=True) == ChosenSet((2, 3), 9, 10)
