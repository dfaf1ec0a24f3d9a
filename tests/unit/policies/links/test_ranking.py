from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.links.ranking import MOST_POINTS, ranked_points

SCORES = st.lists(st.one_of(st.none(), st.fractions(0, 100, max_denominator=1800)), max_size=30)


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
    is_roomy = len(set(order)) <= MOST_POINTS + 1
    for one, more in zip(order, points, strict=True):
        assert 0 <= more <= MOST_POINTS
        for other, fewer in zip(order, points, strict=True):
            if one > other:
                assert more > fewer if is_roomy else more >= fewer
            if one == other:
                assert more == fewer


def test_of_more_than_eleven_the_best_are_kept_apart() -> None:
    points = ranked_points([Fraction(i, 10) for i in range(100)], 100)
    assert points[-11:] == tuple(range(11))
    assert set(points[:-11]) == {0}
