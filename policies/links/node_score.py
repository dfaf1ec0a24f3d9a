"""How well a node's GPUs fit a pod, for the scheduler: the score of KEP-690, exact and as an integer."""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from policies.links.allocate import GpuRequest, LinkOptions, allocate
from policies.links.matrix import LinkError, LinkMatrix
from policies.links.score import BEST_PAIR_POINTS, LinkMode

FULL_SCORE = 100


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
        found = allocate(matrix, GpuRequest(size, left), LinkOptions(mode=LinkMode.MATRIX))
        if found.rejected:
            raise LinkError(0, 0, "request", found.rejected)
        devices.append(found.devices)
        points += found.score
        left = left.difference(found.devices)
    return NodeScore(tuple(devices), points, sum(size * (size - 1) // 2 for size in requests) * BEST_PAIR_POINTS)
