"""Scores of nodes as the few whole numbers that a scheduler extender may give, in the order of the exact scores."""

from collections.abc import Sequence
from fractions import Fraction
from math import floor
from typing import Final

MOST_POINTS: Final = 10
"""MaxExtenderPriority of k8s.io/kube-scheduler/extender/v1; kube-scheduler takes 10 of its 100 for each."""


def ranked_points(scores: Sequence[Fraction | None], full_score: int) -> tuple[int, ...]:
    """Return the points of nodes, 0 to 10, by their exact scores; None, an unknown one, is below all that are known.

    A score gets its share of ``full_score``, cut off. Two that differ would often have the same points then, so the
    better one gets as many more as it takes to be ahead. Where more than eleven differ, the best ones are kept apart,
    and the others have 0 together. Equal scores have equal points.

    >>> ranked_points([Fraction(100, 9), Fraction(25, 9), None, Fraction(25, 9)], 100)
    (2, 1, 0, 1)
    """
    known = sorted({score for score in scores if score is not None})
    lowest = 1 if len(known) < len(set(scores)) else 0
    points: list[int] = []
    for score in known:
        least = points[-1] + 1 if points else lowest
        points.append(max(least, floor(MOST_POINTS * score / full_score)))
    most = MOST_POINTS
    for i in reversed(range(len(points))):
        points[i] = max(0, min(points[i], most))
        most = points[i] - 1
    by_score: dict[Fraction | None, int] = {None: 0, **dict(zip(known, points, strict=True))}
    return tuple(by_score[score] for score in scores)
