"""Find the cheapest set of single instances by branch and bound with convex bounds, within a budget of steps.

Where no two instances are alike, half of the cheapest links of each, the bound of ``exact``, says little: a cheap link
of one is seldom a cheap one of the other. Bounds of ``convex`` see all costs together; of 32 instances they leave a
hundredth of the parts to look at. Each takes a hundred times as long, and the first one some milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import mul

from policies.costs.anneal import settled
from policies.costs.convex import Curvature
from policies.costs.exact import STEPS, Clock, Found
from policies.costs.graph import CostGraph

# Fewer are proved sooner by the other search. More have lifts that take too long, 30 ms for these.
MIN_SINGLES, MAX_SINGLES = 28, 48
# Moves of the relaxed set before a part is looked at: the first part begins anywhere, others near their parent's end.
FIRST_MOVES, MOVES = 200, 10
# Slopes that differ by less, in parts of the largest cost, are alike.
ALIKE = 0.03
# How much more the lifts of vertices count that the relaxed set has wholly or not at all: there they cost nothing.
MORE_LIFT = 0.15
# Smaller lifts are tried each time when so many of the vertices are left, down to a few.
LEFT, FEW = 0.95, 5
# Sets of vertices with known lifts that are kept.
KNOWN_LIFTS = 10_000
# How far a bound may be off by rounding, in parts of the sum of all costs; 64-bit numbers keep 1e-15 of each.
ROUNDING = 1e-9

_ENDLESS = float("inf")


@dataclass(slots=True)
class _Part:
    """A part of the search: the open vertices of each layer, how many of them it needs, and a relaxed set of shares.

    A vertex that is not open has a share of 0 or 1. ``slopes[v]`` is how much the lifted cost grows with the share of a
    vertex, ``lifted`` how many vertices were open when the lifts were chosen.
    """

    open: list[list[int]]
    need: list[int]
    shares: list[float]
    slopes: list[float]
    lifts: list[float]
    lifted: int


def are_for_convex_bounds(graph: CostGraph) -> bool:
    """Return whether this search ends before the other: no two instances are alike, and they are not too many."""
    return MIN_SINGLES <= len(graph.vertices) <= MAX_SINGLES and all(len(v.members) == 1 for v in graph.vertices)


class SinglesSearch:
    """Depth first, the promising branch first; a branch ends where its bound reaches the cheapest set met."""

    def __init__(self, graph: CostGraph, incumbent: Sequence[int]) -> None:
        """All vertices are single instances. ``incumbent`` is a set that meets the request: no answer costs more."""
        self._graph, self._layer = graph, [vertex.layer for vertex in graph.vertices]
        self._best, self._best_cost = tuple(incumbent), graph.cost(incumbent)
        # Bounds are in parts of the largest cost: costs are whole numbers of any size.
        self._unit = max(1, *map(max, graph.pair))
        self._costs = [[cost / self._unit * (v != w) for w, cost in enumerate(row)] for v, row in enumerate(graph.pair)]
        self._rounding = ROUNDING * len(self._costs) ** 2
        self._curvature = Curvature(self._costs, self._layer)
        self._smaller: dict[tuple[int, ...], list[float] | None] = {}
        self._steps = self._parts = 0
        self._left = [self._first()]

    def run(self, steps: int | None = STEPS, is_over: Clock | None = None) -> Found:
        """Go on until the search ends, or has taken so many steps since it began; None = no such end.

        A step takes about as long as one of the search in ``exact``. ``is_over`` is asked at each part.
        """
        while self._left and (steps is None or self._steps < steps) and not (is_over is not None and is_over()):
            self._descend(self._left.pop())
        return Found(self._best, not self._left, self._steps)

    def _first(self) -> _Part:
        """Return the whole search, with a relaxed set that suits its lifts."""
        graph = self._graph
        musts = [vertex.must for vertex in graph.vertices]
        open_vertices = [[v for v in layer.vertices if not musts[v]] for layer in graph.layers]
        need = [layer.count - sum(musts[v] for v in layer.vertices) for layer in graph.layers]
        shares = [float(must) for must in musts]
        for vertices, count in zip(open_vertices, need, strict=True):
            for v in vertices:
                shares[v] = count / len(vertices)
        left = [v for vertices in open_vertices for v in vertices]
        part = _Part(open_vertices, need, shares, [], [], len(left))
        weights = [1.0] * len(shares)
        for _ in range(2):
            part.lifts = self._curvature.least_lifts(left, weights)
            part.slopes = self._slopes(part)
            self._relax(part, FIRST_MOVES)
            weights = [1 + MORE_LIFT * (1 - 4 * share * (1 - share)) for share in part.shares]
        self._steps += len(left) ** 3 // 8
        return part

    def _descend(self, part: _Part) -> None:
        """Look at one part: drop it, or leave its two halves to be looked at, the promising one last."""
        self._parts += 1
        while any(part.open):
            self._lift_less(part)
            self._relax(part, MOVES)
            slack, ranked = self._slack(part)
            if slack < 0:
                return
            if not self._parts & (self._parts - 1):
                self._round(part, ranked)
            if not self._close(part, ranked, slack):
                self._branch(part)
                return
        self._offer([round(share) for share in part.shares])

    def _offer(self, counts: Sequence[int]) -> None:
        cost = self._graph.cost(counts)
        if cost < self._best_cost:
            self._best, self._best_cost = tuple(counts), cost

    def _slopes(self, part: _Part) -> list[float]:
        lifted = zip(self._costs, part.lifts, part.shares, strict=True)
        return [sum(map(mul, row, part.shares)) + lift * (share - 0.5) for row, lift, share in lifted]

    def _lift_less(self, part: _Part) -> None:
        """Take smaller lifts where fewer vertices are open: their costs bend less."""
        left = tuple(v for vertices in part.open for v in vertices)
        if not FEW < len(left) <= LEFT * part.lifted:
            return
        if len(self._smaller) > KNOWN_LIFTS:
            self._smaller.clear()
        # The two halves of a part have the same open vertices.
        if left not in self._smaller:
            # The bend of random costs goes with the root of how many they are.
            factor = (len(left) / part.lifted) ** 0.5
            lifts = [factor * lift for lift in part.lifts]
            self._smaller[left] = lifts if self._curvature.is_convex(left, lifts) else None
            self._steps += len(left) ** 2 // 8
        part.lifted = len(left)
        smaller = self._smaller[left]
        if smaller is not None:
            part.lifts = smaller
            part.slopes = self._slopes(part)

    def _relax(self, part: _Part, moves: int) -> None:
        """Make the lifted cost smaller by so many moves, each between the two vertices whose slopes differ most."""
        shares = part.shares
        for _ in range(moves):
            slopes, widest, up, down = part.slopes, ALIKE, -1, -1
            for vertices in part.open:
                least, most, i, j = _ENDLESS, -_ENDLESS, -1, -1
                for v in vertices:
                    slope, share = slopes[v], shares[v]
                    if slope < least and share < 1:
                        least, i = slope, v
                    if slope > most and share > 0:
                        most, j = slope, v
                if most - least > widest:
                    widest, up, down = most - least, i, j
            if up < 0:
                return
            bend = part.lifts[up] + part.lifts[down] - 2 * self._costs[up][down]
            self._move(part, up, down, widest / bend)

    def _move(self, part: _Part, up: int, down: int, amount: float) -> None:
        """Move an amount, or what there is and has room, from the share of one vertex to that of another."""
        shares = part.shares
        room, rest = 1 - shares[up], shares[down]
        amount = min(amount, room, rest)
        shares[up] = 1.0 if amount == room else shares[up] + amount
        shares[down] = 0.0 if amount == rest else shares[down] - amount
        changed = zip(part.slopes, self._costs[up], self._costs[down], strict=True)
        part.slopes = [slope + amount * (more - less) for slope, more, less in changed]
        part.slopes[up] += amount * part.lifts[up]
        part.slopes[down] -= amount * part.lifts[down]
        self._steps += 3

    def _slack(self, part: _Part) -> tuple[float, list[list[tuple[float, int]]]]:
        """Return how far the bound is below the cheapest set met, and the open vertices by slope, ascending.

        The bound is the cost of the cheapest set under the tangent at the relaxed set.
        """
        shares, slopes = part.shares, part.slopes
        bound = (sum(map(mul, shares, slopes)) - sum(map(mul, shares, part.lifts)) / 2) / 2
        ranked = []
        for vertices, count in zip(part.open, part.need, strict=True):
            ranked.append(sorted([(slopes[v], v) for v in vertices]))
            bound += sum([slope for slope, _ in ranked[-1][:count]]) - sum([shares[v] * slopes[v] for v in vertices])
            self._steps += len(vertices)
        return (self._best_cost - 1) / self._unit + self._rounding - bound, ranked

    def _close(self, part: _Part, ranked: list[list[tuple[float, int]]], slack: float) -> bool:
        """Decide on vertices that every set within the slack has, or none; whether there was one."""
        decided = []
        for order, count in zip(ranked, part.need, strict=True):
            last = order[count - 1][0] if count else -_ENDLESS
            beyond = order[count][0] if count < len(order) else _ENDLESS
            decided += [(v, True) for slope, v in order[:count] if beyond - slope > slack]
            decided += [(v, False) for slope, v in order[count:] if slope - last > slack]
        for v, is_inside in decided:
            self._decide(part, v, is_inside)
        return bool(decided)

    def _decide(self, part: _Part, v: int, is_inside: bool) -> None:
        """Take a vertex into all sets of a part, or out of them, and let others of its layer make up for it."""
        layer, shares = self._layer[v], part.shares
        others = [w for w in part.open[layer] if w != v]
        part.open = [others if k == layer else vertices for k, vertices in enumerate(part.open)]
        part.need = [count - (is_inside and k == layer) for k, count in enumerate(part.need)]
        while shares[v] != is_inside:
            partners = [(part.slopes[w], w) for w in others if shares[w] != (0 if is_inside else 1)]
            if not partners:
                break
            if is_inside:
                self._move(part, v, max(partners)[1], 1.0)
            else:
                self._move(part, min(partners)[1], v, 1.0)
        # What is left is rounding, or the last vertex of its layer.
        if shares[v] != is_inside:
            shares[v] = float(is_inside)
            part.slopes = self._slopes(part)

    def _branch(self, part: _Part) -> None:
        """Leave the sets with the vertex of the most undecided share, and those without it."""
        shares = part.shares
        pick = min((v for vertices in part.open for v in vertices), key=lambda v: abs(shares[v] - 0.5))
        is_promising = shares[pick] >= 0.5
        for is_inside in (not is_promising, is_promising):
            half = replace(part, shares=shares[:])
            self._decide(half, pick, is_inside)
            self._left.append(half)

    def _round(self, part: _Part, ranked: list[list[tuple[float, int]]]) -> None:
        """Try the set that has the largest shares, settled."""
        counts = [round(share) for share in part.shares]
        for order, count in zip(ranked, part.need, strict=True):
            by_share = sorted((v for _, v in order), key=lambda v: -part.shares[v])
            for at, v in enumerate(by_share):
                counts[v] = int(at < count)
        self._offer(settled(self._graph, counts))
