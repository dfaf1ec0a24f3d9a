"""Find the set of NUMA nodes with the least distances within it, among those of the same size that will do.

To find it is to find a clique of least weight, which is NP-hard. The bound that is used proves the answer for up to
three nodes of 64, or all but three, whatever the distances, and for any number where nodes are near in groups, as in
sockets. Where that takes too many steps, the answer is the best of exchanges of two nodes and of what was seen.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from heapq import nsmallest
from itertools import accumulate
from typing import Final

from policies.hints.model import Amount
from policies.hints.search import Distances, SearchTooLongError, Steps, distance_within, members, reaches, top_sums

# A step is to look at one node: what it adds to the distance.
FIRST_STEPS: Final = 6_000
"""The steps of a first try: on machines with few distances it is enough."""
MAX_CLOSEST_STEPS: Final = 42_000
"""The steps of the second where few nodes are picked: some 15 milliseconds, and enough for three of 64 nodes."""
_FEW_PICKS: Final = 5
_SHARE_OF_MANY: Final = 8  # of the steps, where more are picked: the bound would need far more than there are
EXCHANGE_STEPS: Final = 5_000
"""The steps of exchanges before it. They take longer."""
STEPS_TO_ACCEPT: Final = 1_500
"""What it counts to ask whether a set will do: that is a search."""
_STARTS: Final = 2
_EXCHANGES: Final = 6  # of those that gain most, as many are asked for whether they will do

Accept = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a set has to be; ``size`` is without the required nodes."""

    accept: Accept
    amounts: Sequence[Amount]
    size: int

    def accepts(self, mask: int, steps: Steps) -> bool:
        """Ask, and count the steps of that. Raises SearchTooLongError."""
        steps.take(STEPS_TO_ACCEPT)
        return self.accept(mask)


@dataclass(slots=True)
class _Found:
    """The best set so far. ``is_lowest``: no lower one has the same distance."""

    distance: int
    mask: int
    is_lowest: bool

    @property
    def limit(self) -> int:
        """What the distance of a better set is below, where sets are visited the lowest first."""
        return self.distance if self.is_lowest else self.distance + 1

    def note(self, mask: int, distances: Distances) -> None:
        """Take a set that is closer; lower ones of the same distance may be left."""
        distance = distance_within(mask, distances)
        if distance < self.distance:
            self.distance, self.mask, self.is_lowest = distance, mask, False

    def take(self, distance: int, mask: int) -> None:
        """Take a better one, which a visit has come to."""
        self.distance, self.mask, self.is_lowest = distance, mask, True


class ClosestSearch:
    """Sets of nodes, part of ``within`` and with all of ``required``, that have the least distance within them."""

    def __init__(self, distances: Distances, within: int, required: int = 0) -> None:
        """Sort the distances, for the bound."""
        self._distances = distances
        self._within = within
        self._required = required
        self._nodes = members(within & ~required)
        # Both directions between two nodes, by position; and the sums of the 0, 1, ... smallest of each node.
        nodes = self._nodes
        self._pairs = [[distances[a][b] + distances[b][a] if a != b else 0 for b in nodes] for a in nodes]
        self._least = [list(accumulate(sorted(row[:i] + row[i + 1 :]), initial=0)) for i, row in enumerate(self._pairs)]

    def best(self, known: int, accept: Accept, amounts: Sequence[Amount] = (), most: int = MAX_CLOSEST_STEPS) -> int:
        """Return the accepted set of as many nodes as ``known`` that is closest, then lowest, and reaches all amounts.

        ``known`` is the lowest such set. After ``most`` steps the result is the closest of those seen.
        """
        wanted = _Wanted(accept, amounts, known.bit_count() - self._required.bit_count())
        found = _Found(distance_within(known, self._distances), known, is_lowest=True)
        with suppress(SearchTooLongError):
            self._visit_all(found, wanted, Steps(min(most, FIRST_STEPS)))
            return found.mask
        with suppress(SearchTooLongError):
            self._exchange(found, wanted, Steps(min(most, EXCHANGE_STEPS)))
        with suppress(SearchTooLongError):
            picks = min(wanted.size, len(self._nodes) - wanted.size)
            self._visit_all(found, wanted, Steps(most if picks <= _FEW_PICKS else most // _SHARE_OF_MANY))
        return found.mask

    def _visit_all(self, found: _Found, wanted: _Wanted, steps: Steps) -> None:
        """Look at every set that may be better, the lowest first: pick what is in, or what is out if that is less."""
        nodes, pairs, least = self._nodes, self._pairs, self._least
        is_out = wanted.size > len(nodes) // 2
        below = [sum(1 << node for node in nodes[:position]) for position in range(len(nodes) + 1)]
        tops = [top_sums([amount.free[node] for node in nodes], wanted.size) for amount in wanted.amounts]

        def visit(position: int, mask: int, left: int, missing: tuple[int, ...], costs: list[int], so_far: int) -> None:
            """Pick as many as are left of the nodes below the position; ``costs``: twice what each would add."""
            steps.take(position)
            kept = position - left if is_out else left
            if position < left or any(part > top[position][kept] for part, top in zip(missing, tops, strict=True)):
                return
            if not left:
                whole = mask | below[position] if is_out else mask
                if so_far < found.limit and wanted.accepts(whole, steps):
                    found.take(so_far, whole)
                return
            bounds = sorted([cost + sums[left - 1] for cost, sums in zip(costs, least, strict=False)])
            if 2 * so_far + sum(bounds[:left]) >= 2 * found.limit:
                return
            i = position - 1
            picked = [cost + 2 * pair for cost, pair in zip(costs[:i], pairs[i], strict=False)]
            less = tuple(part - amount.free[nodes[i]] for part, amount in zip(missing, wanted.amounts, strict=True))
            bit, then = 1 << nodes[i], so_far + costs[i] // 2
            if is_out:
                visit(i, mask, left - 1, missing, picked, then)
                visit(i, mask | bit, left, less, costs[:i], so_far)
            else:
                visit(i, mask, left, missing, costs[:i], so_far)
                visit(i, mask | bit, left - 1, less, picked, then)

        fixed = members(self._required)
        missing = tuple(amount.request - sum(amount.free[node] for node in fixed) for amount in wanted.amounts)
        costs, so_far = self._alone(), distance_within(self._required, self._distances)
        if is_out:  # all are in at first
            so_far = distance_within(self._within, self._distances)
            costs = [-cost - sum(row) for cost, row in zip(costs, pairs, strict=True)]
        picks = len(nodes) - wanted.size if is_out else wanted.size
        visit(len(nodes), self._required, picks, missing, [2 * cost for cost in costs], so_far)

    def _alone(self) -> list[int]:
        """Return what each node adds beside the required ones alone."""
        fixed, distances = members(self._required), self._distances
        return [distances[a][a] + sum(distances[a][b] + distances[b][a] for b in fixed) for a in self._nodes]

    def _exchange(self, found: _Found, wanted: _Wanted, steps: Steps) -> None:
        """Exchange a node for another as long as that brings the nodes closer: from what is known, and greedy sets."""
        alone, count = self._alone(), len(self._nodes)
        known = [i for i, node in enumerate(self._nodes) if found.mask >> node & 1]
        firsts = sorted(range(count), key=lambda i: self._least[i][max(wanted.size - 1, 0)])[:_STARTS]
        for start in (*(self._greedy(first, wanted.size, alone) for first in firsts), known):
            if start is known or self._will_do(start, wanted, steps):
                self._descend(set(start), found, wanted, steps)

    def _greedy(self, first: int, size: int, alone: list[int]) -> list[int]:
        """Return nodes, by position: the first, then always the one that adds least."""
        chosen, left = [first], set(range(len(alone))) - {first}
        costs = [a + b for a, b in zip(alone, self._pairs[first], strict=True)]
        while len(chosen) < size:
            nearest = min(left, key=lambda i: (costs[i], i))
            chosen.append(nearest)
            left.remove(nearest)
            costs = [a + b for a, b in zip(costs, self._pairs[nearest], strict=True)]
        return chosen

    def _descend(self, inside: set[int], found: _Found, wanted: _Wanted, steps: Steps) -> None:
        """Exchange nodes of a set that will do."""
        pairs = self._pairs
        costs = [cost + sum(pairs[i][j] for j in inside) for i, cost in enumerate(self._alone())]
        is_better = True
        while is_better:
            found.note(self._mask(inside), self._distances)
            steps.take(len(inside) * (len(costs) - len(inside)))
            outside = [j for j in range(len(costs)) if j not in inside]
            gains = [(costs[j] - pairs[j][i] - costs[i], i, j) for i in inside for j in outside]
            is_better = False
            for gain, i, j in nsmallest(_EXCHANGES, gains):
                if gain < 0 and self._will_do(inside - {i} | {j}, wanted, steps):
                    inside = inside - {i} | {j}
                    costs = [cost + near - far for cost, near, far in zip(costs, pairs[j], pairs[i], strict=True)]
                    is_better = True
                    break

    def _will_do(self, inside: Iterable[int], wanted: _Wanted, steps: Steps) -> bool:
        mask = self._mask(inside)
        return all(reaches(amount, mask) for amount in wanted.amounts) and wanted.accepts(mask, steps)

    def _mask(self, inside: Iterable[int]) -> int:
        return self._required | sum(1 << self._nodes[i] for i in inside)
