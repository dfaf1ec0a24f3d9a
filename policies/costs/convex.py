"""Lower bounds for sets of single instances: the cost of a set as a convex function of shares between 0 and 1.

A set is a share of 0 or 1 of each vertex. Its cost is half the sum of share times share times cost over all ordered
pairs. To that ``lift * (share * share - share) / 2`` is added for each vertex, which is 0 for every set. With lifts
large enough the sum is convex wherever the counts of the layers are kept, and a convex function lies above each of its
tangents: the cheapest set under a tangent costs no more than the cheapest set. (Hammer and Rubin 1970; Billionnet,
Elloumi and Plateau 2009 call it quadratic convex reformulation.)
"""

from collections.abc import Sequence
from math import sqrt
from operator import itemgetter, mul

# Pivots smaller than this part of their diagonal count as none: far above what rounding does to small matrices.
LEAST_PIVOT = 1e-9
# Halvings of the range of the lift; more of them tighten the bound by less than a thousandth.
HALVINGS = 12


def is_positive_definite(rows: Sequence[Sequence[float]]) -> bool:
    """Return whether a symmetric matrix is positive definite, by Cholesky's decomposition."""
    lower: list[list[float]] = []
    for i, costs in enumerate(rows):
        row: list[float] = []
        for costs_j, other in zip(costs, lower, strict=False):
            row.append((costs_j - sum(map(mul, row, other))) / other[-1])
        pivot = costs[i] - sum(map(mul, row, row))
        if pivot <= LEAST_PIVOT * abs(costs[i]):
            return False
        row.append(sqrt(pivot))
        lower.append(row)
    return True


class Curvature:
    """The costs between single instances, and which lifts make them convex."""

    def __init__(self, costs: Sequence[Sequence[float]], layers: Sequence[int]) -> None:
        """``costs`` is symmetric and 0 on the diagonal; ``layers[v]`` is the layer of a vertex."""
        self._costs = costs
        # Counts of layers do not change, so that a large cost between all pairs of a layer changes no comparison.
        stiff = len(costs) * max((max(map(abs, row)) for row in costs), default=0.0)
        self._rows = [
            [cost + stiff * (layer == mine) for cost, layer in zip(row, layers, strict=True)]
            for row, mine in zip(costs, layers, strict=True)
        ]

    def is_convex(self, vertices: Sequence[int], lifts: Sequence[float]) -> bool:
        """Return whether the lifted cost is convex in the shares of these vertices."""
        if len(vertices) < 2:
            return True
        of_these = itemgetter(*vertices)
        rows = [list(of_these(self._rows[v])) for v in vertices]
        for i, v in enumerate(vertices):
            rows[i][i] += lifts[v]
        return is_positive_definite(rows)

    def least_lifts(self, vertices: Sequence[int], weights: Sequence[float]) -> list[float]:
        """Return the weights times the least common factor, nearly, with which the cost is convex."""
        low, high = 0.0, max(map(sum, self._costs)) + LEAST_PIVOT
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            if self.is_convex(vertices, [middle * weight for weight in weights]):
                high = middle
            else:
                low = middle
        return [high * weight for weight in weights]
