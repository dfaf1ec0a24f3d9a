from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices.links import LinkError, matrix_of, node_score, ranked_points, read_links
from tests.unit.policies.devices.links.machines import alike, kep_690, of_nvlinks

SCORES = st.lists(st.one_of(st.none(), st.fractions(0, 100, max_denominator=1800)), max_size=30)
NOT_LINKED = matrix_of((), [["X" if i == j else "SYS" for j in range(8)] for i in range(8)])


def test_the_node_with_links_wins() -> None:
    """The story of KEP-690: two GPUs of a node with NVLinks, or of one without."""
    linked, not_linked = node_score(kep_690(), [2]), node_score(NOT_LINKED, [2])
    assert linked.devices == ((0, 3),)
    assert (linked.set_points, linked.most_points, linked.score) == (200, 1800, 11)
    assert (not_linked.set_points, not_linked.score) == (10, 0)
    assert linked.exact == Fraction(100, 9)


def test_slow_links_lose_no_precision() -> None:
    """The KEP notes that small scores become 0: eight GPUs with SYS have 280 * 100 / 50400."""
    eight = node_score(NOT_LINKED, [8])
    assert (eight.set_points, eight.most_points, eight.score) == (280, 50400, 0)
    assert eight.exact == Fraction(5, 9)
    near = node_score(matrix_of((), [["X" if i == j else "PIX" for j in range(8)] for i in range(8)]), [8])
    assert near.score == 2
    assert near.exact > eight.exact > node_score(of_nvlinks([[0] * 8] * 8), [8]).exact == 0


@pytest.mark.parametrize("size", [2, 4, 8])
def test_18_links_everywhere_are_100_and_more_are_not_above(size: int) -> None:
    assert node_score(alike(8, 18), [size]).score == 100
    assert node_score(alike(8, 36), [size]).exact == 100


def test_one_gpu_has_no_pairs_and_divides_by_nothing() -> None:
    found = node_score(kep_690(), [1])
    assert found.devices == ((0,),)
    assert (found.set_points, found.most_points, found.score) == (0, 0, 0)
    assert found.exact == 0
    assert node_score(kep_690(), []).score == 0


def test_only_available_gpus_count() -> None:
    assert node_score(kep_690(), [2], frozenset({0, 5, 6, 7})).devices == ((6, 7),)


def test_containers_get_their_gpus_one_after_the_other() -> None:
    """GPUs are given per container; each counts by its pairs: 200 of 1800 and 4 GPUs of 10800."""
    found = node_score(kep_690(), [2, 4])
    first, second = found.devices
    assert not set(first) & set(second)
    assert found.most_points == 1800 + 6 * 1800
    assert found.set_points == 200 + node_score(kep_690(), [4], kep_690().indices.difference(first)).set_points


def test_too_few_gpus_are_an_error() -> None:
    with pytest.raises(LinkError, match="request: size: 9 requested, 8 available"):
        node_score(kep_690(), [9])
    with pytest.raises(LinkError, match="request: size: 4 requested, 2 available"):
        node_score(kep_690(), [6, 4])
    with pytest.raises(LinkError, match="request: size: 1 requested, 0 available"):
        node_score(read_links("No devices were found"), [1])


def test_nvlinks_hide_pcie_in_the_published_score() -> None:
    matrix = matrix_of([[0, 2], [2, 0]], [["X", "PIX"], ["PIX", "X"]])
    assert node_score(matrix, [2]).set_points == 200


@pytest.mark.parametrize(
    ("scores", "points"),
    [
        ([], ()),
        ([None, None], (0, 0)),
        ([Fraction(100), Fraction(50), Fraction(0)], (10, 5, 0)),
        ([Fraction(5, 9), Fraction(0)], (1, 0)),
        ([Fraction(100), Fraction(999, 10), Fraction(998, 10)], (10, 9, 8)),
        ([Fraction(99), Fraction(98), Fraction(97)], (10, 9, 8)),
        ([Fraction(0), None], (1, 0)),
        ([Fraction(100), None], (10, 0)),
    ],
)
def test_points_are_a_share_of_ten_and_differences_are_kept(
    scores: list[Fraction | None], points: tuple[int, ...]
) -> None:
    assert ranked_points(scores, 100) == points


@given(SCORES)
def test_points_follow_the_order_of_the_exact_scores(scores: list[Fraction | None]) -> None:
    points = ranked_points(scores, 100)
    order = [Fraction(-1) if score is None else score for score in scores]
    is_roomy = len(set(order)) <= 11
    for one, more in zip(order, points, strict=True):
        assert 0 <= more <= 10
        for other, fewer in zip(order, points, strict=True):
            if one > other:
                assert more > fewer if is_roomy else more >= fewer
            if one == other:
                assert more == fewer


def test_of_more_than_eleven_the_best_are_kept_apart() -> None:
    points = ranked_points([Fraction(i, 10) for i in range(100)], 100)
    assert points[-11:] == tuple(range(11))
    assert set(points[:-11]) == {0}
