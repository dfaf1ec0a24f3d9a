"""How well the GPUs of nodes fit a pod, for the scheduler: scores of KEP-690, and these as points of an extender."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Final

from policies.devices.links.choice import GpuRequest, LinkOptions, allocate
from policies.devices.links.matrix import BEST_PAIR_POINTS, LinkError, LinkMatrix, LinkMode

FULL_SCORE: Final = 100
MOST_POINTS: Final = 10
"""MaxExtenderPriority of k8s.io/kube-scheduler/extender/v1; kube-scheduler takes 10 of its 100 for each."""


@dataclass(frozen=True, slots=True)
class NodeScore:
    """The GPUs of each container, the points of their pairs, and the most that so many pairs can have.

    ``exact`` is 100 times the ratio of the two, at most 100, and 0 where there are no pairs.
    """

    devices: tuple[tuple[int, ...], ...]
    set_points: int
    most_points: int

    @property
    def exact(self) -> Fraction:
        """The score unrounded: nodes with slow links differ by less than 1."""
        if not self.most_points:
            return Fraction(0)
        return min(Fraction(FULL_SCORE * self.set_points, self.most_points), Fraction(FULL_SCORE))

    @property
    def score(self) -> int:
        """The score as kube-scheduler takes it, 0 to 100: cut off, as in the KEP."""
        return floor(self.exact)


def node_score(matrix: LinkMatrix, requests: Sequence[int], available: frozenset[int] | None = None) -> NodeScore:
    """Return the score of a node for a pod whose containers request so many GPUs each.

    GPUs are given to containers, so each is scored on what those before it leave, and counts by its number of pairs. A
    link counts by its printed word: NVLinks hide PCIe. Raises LinkError where there are too few GPUs.
    """
    left = matrix.indices if available is None else available
    devices, points = [], 0
    for size in requests:
        # KEP-690 knows links alone: without places, numbers decide between equal sets.
        found = allocate(matrix, GpuRequest(size, left, places={}), LinkOptions(mode=LinkMode.MATRIX))
        if found.rejected:
            raise LinkError(0, 0, "request", found.rejected)
        devices.append(found.devices)
        points += found.score
        left = left.difference(found.devices)
    return NodeScore(tuple(devices), points, sum(size * (size - 1) // 2 for size in requests) * BEST_PAIR_POINTS)


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
    # From the best down: points above ten are pushed back, each below those of the better node.
    most = MOST_POINTS
    for i in reversed(range(len(points))):
        points[i] = max(0, min(points[i], most))
        most = points[i] - 1
    by_score: dict[Fraction | None, int] = {None: 0, **dict(zip(known, points, strict=True))}
    return tuple(by_score[score] for score in scores)
