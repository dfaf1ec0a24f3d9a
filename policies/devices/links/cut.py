"""Cut GPUs into sets of a size, and a smaller remainder, with the greatest total of the sets' scores: exactly.

The set that a request gets is a set of such a cut, so that what stays free goes well together too. Instead of listing
the cuts, of which 16 GPUs have two million, the best total of every set of GPUs that can be left over is found once
(dynamic programming over subsets). GPUs that can stand for each other are taken from the first on, which leaves few
such sets where all links are alike. Questions too large for that are answered by a greedy walk and swaps.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product
from math import comb

from policies.devices.links.matrix import PairPoints, set_points

# Up to so many GPUs the scores of all their sets fit into a table, and the search always ends.
ALWAYS_EXACT = 16
# Of more GPUs so many sets are looked at (up to a second); then the question counts as too large.
STEPS = 300_000
_IMPOSSIBLE = -(1 << 62)


@dataclass(frozen=True, slots=True)
class ChosenSet:
    """A full set of a cut: positions in ascending order, its score, and the total of the cut."""

    members: tuple[int, ...]
    score: int
    total: int


class TooManySets(Exception):
    """More sets than ``STEPS``: no answer, and nothing is wrong."""


def best_set(
    points: PairPoints, size: int, required: frozenset[int] = frozenset(), *, from_all_cuts: bool = False
) -> ChosenSet:
    """Return the highest-scoring full set, with all that is required, of a cut with the greatest total.

    Cuts without a full set that holds ``required`` do not count. Of several cuts the first in lexicographic order is
    taken, a missing member of the remainder coming after all GPUs; ``from_all_cuts`` takes the best set of all of them.
    Ties go to the lowest members. ``size`` is from 1 to the number of GPUs, and ``required`` has no more. Raises
    TooManySets.

    >>> best_set([[0, 1, 9, 0], [1, 0, 0, 9], [9, 0, 0, 1], [0, 9, 1, 0]], 2)
    ChosenSet(members=(0, 2), score=9, total=18)
    """
    search = _CutSearch(points, size, sum(1 << i for i in required))
    everything = (1 << len(points)) - 1
    total = search.total(everything)
    chosen = search.best_of_all_cuts(everything) if from_all_cuts else search.best_of_first_cut(everything)
    members = tuple(_bits(chosen))
    return ChosenSet(members, set_points(points, members), total)


def _bits(mask: int) -> Iterator[int]:
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


@dataclass
class _CutSearch:
    """The search of one question: sets are masks of positions."""

    points: PairPoints
    size: int
    required: int
    steps: int = 0
    totals: dict[int, int] = field(default_factory=dict)
    tops: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.is_bounded = len(self.points) > ALWAYS_EXACT
        self.scores = _LazyScores(self.points) if self.is_bounded else _all_scores(self.points)
        self.groups = _interchangeable(self.points, self.required)
        self.alike = sum(group for group in self.groups if group.bit_count() > 1)

    def total(self, left: int) -> int:
        """Return the greatest total of the cuts of what is left; negative: there is none."""
        known = self.totals.get(left)
        if known is not None:
            return known
        if left.bit_count() < self.size:
            # The remainder of a cut is never given.
            best = _IMPOSSIBLE if left & self.required else self.scores[left]
        elif left.bit_count() == self.size:
            best = self.scores[left]
        else:
            best, scores, totals = _IMPOSSIBLE, self.scores, self.totals
            for first in self.first_sets(left):
                rest = left ^ first
                value = totals.get(rest)
                value = scores[first] + (self.total(rest) if value is None else value)
                if value > best:  # noqa: PLR1730 - the inner loop: a call of max() costs a quarter more
                    best = value
        self.totals[left] = best
        return best

    def first_sets(self, left: int) -> Sequence[int]:
        """Return the sets that may hold the lowest of what is left, full ones and the remainder.

        All that is required is left, or nothing of it: a set has all of it or nothing.
        """
        found = self._sets(left, self.size)
        remainder = left.bit_count() % self.size
        required = self.required & left
        if required:
            found = [mask for mask in found if mask & required in (0, required)]
        if remainder:
            found = [*found, *(mask for mask in self._sets(left, remainder) if not mask & required)]
        return found

    def _count(self, sets: int) -> None:
        if self.is_bounded:
            self.steps += sets
            if self.steps > STEPS:
                raise TooManySets

    def _sets(self, left: int, count: int) -> Sequence[int]:
        """Return the sets of so many with the lowest of what is left; of GPUs that are alike, the first ones."""
        low = left & -left
        if not left & self.alike:
            others = [1 << i for i in _bits(left ^ low)]
            self._count(comb(len(others), count - 1))
            return [low + sum(chosen) for chosen in combinations(others, count - 1)]
        found, behind = [(0, 0)], left.bit_count()
        for group in self.groups:
            members = [1 << i for i in _bits(group & left)]
            behind -= len(members)
            least = 1 if low in members else 0
            firsts = [sum(members[:taken]) for taken in range(len(members) + 1)]
            found = [
                (mask | firsts[taken], have + taken)
                for mask, have in found
                for taken in range(max(least, count - have - behind), min(len(members), count - have) + 1)
            ]
            self._count(len(found))
        return [mask for mask, _ in found]

    def best_of_first_cut(self, left: int) -> int:
        """Return the best set of the first of the best cuts."""
        sets = []
        while left:
            sets.append(min(self._of_best_cuts(left), key=self._order))
            left ^= sets[-1]
        return max(filter(self._is_eligible, sets), key=lambda mask: self.scores[mask])

    def best_of_all_cuts(self, left: int) -> int:
        """Return the best set of all the best cuts of what is left; 0 where none may be given."""
        if left not in self.tops:
            found = []
            for first in self._of_best_cuts(left) if left else ():
                if self._is_eligible(first):
                    found.append(self._lowest(first))
                # Also behind a set that may not be given: the better one of a cut may come later.
                found.append(self.best_of_all_cuts(left ^ first))
            given = filter(None, found)
            self.tops[left] = min(given, key=lambda mask: (-self.scores[mask], tuple(_bits(mask))), default=0)
        return self.tops[left]

    def _of_best_cuts(self, left: int) -> Iterator[int]:
        """Yield the first sets of the cuts with the greatest total of what is left."""
        best = self.total(left)
        for first in self.first_sets(left) if left.bit_count() > self.size else (left,):
            rest = left ^ first
            if self.scores[first] + (self.total(rest) if rest else 0) == best:
                yield first

    def _is_eligible(self, mask: int) -> bool:
        return mask.bit_count() == self.size and mask & self.required == self.required

    def _order(self, mask: int) -> tuple[int, ...]:
        """Return the place among the sets with the same lowest member: a missing member comes last."""
        return (*_bits(mask), *(len(self.points),) * (self.size - mask.bit_count()))

    def _lowest(self, mask: int) -> int:
        """Return the first set that is like this one: of the GPUs that are alike, those that come first."""
        return sum(1 << i for group in self.groups for i in list(_bits(group))[: (mask & group).bit_count()])


def _all_scores(points: PairPoints) -> list[int]:
    """Return the score of every set by its mask; each GPU doubles the table."""
    scores = [0]
    for i in range(len(points)):
        gains = [0]
        for j in range(i):
            more = points[i][j]
            gains += [gain + more for gain in gains]
        scores += [score + gain for score, gain in zip(scores, gains, strict=True)]
    return scores


class _LazyScores(dict[int, int]):
    """The scores of the sets that were asked for."""

    def __init__(self, points: PairPoints) -> None:
        super().__init__()
        self._points = points

    def __missing__(self, mask: int) -> int:
        score = self[mask] = set_points(self._points, list(_bits(mask)))
        return score


def _interchangeable(points: PairPoints, required: int) -> Sequence[int]:
    """Return the groups of GPUs of which any may stand for any other: the same points to all others."""
    groups: list[int] = []
    for i, row in enumerate(points):
        for at, group in enumerate(groups):
            j = (group & -group).bit_length() - 1
            same = all(row[k] == points[j][k] for k in range(len(points)) if k not in (i, j))
            # A required GPU cannot stand for another one: it has to be in the set that is granted.
            if same and (required >> i & 1) == (required >> j & 1):
                groups[at] |= 1 << i
                break
        else:
            groups.append(1 << i)
    return groups


# Swaps end by themselves, as each makes the cut better; this bounds the time where each does so by little.
PASSES = 20


def swapped_set(points: PairPoints, size: int, required: frozenset[int] = frozenset()) -> ChosenSet:
    """Return the highest-scoring full set, with all that is required, of a cut that no single swap makes better.

    Ties go to the lowest members. ``size`` is from 1 to the number of GPUs, and ``required`` has no more.
    """
    cut = _swapped(points, _greedy(points, size, required), required)
    eligible = [tuple(sorted(members)) for members in cut if len(members) == size and required <= set(members)]
    best = min(eligible, key=lambda members: (-set_points(points, members), members))
    return ChosenSet(best, set_points(points, best), sum(set_points(points, members) for members in cut))


def _greedy(points: PairPoints, size: int, required: Iterable[int]) -> list[list[int]]:
    """Return a cut whose sets grow one after the other, always by the GPU with the most points to the set."""
    left = sorted(set(range(len(points))).difference(required))
    cut, members = [], list(required)
    while left or members:
        while left and len(members) < size:
            found = max(left, key=lambda gpu: (sum(points[gpu][other] for other in members), -gpu))
            left.remove(found)
            members.append(found)
        cut.append(members)
        members = []
    return cut


def _swapped(points: PairPoints, cut: list[list[int]], required: frozenset[int]) -> Sequence[Sequence[int]]:
    """Swap GPUs of two sets while that makes the total greater; what is required stays together."""
    for _ in range(PASSES):
        is_better = False
        for one, other in combinations(cut, 2):
            for i, j in product(range(len(one)), range(len(other))):
                mine, theirs = one[i], other[j]
                if mine in required:  # and theirs never is: what is required is in the first set
                    continue
                gain = _gain(points, one, mine, theirs) + _gain(points, other, theirs, mine)
                if gain > 0:
                    one[i], other[j], is_better = theirs, mine, True
        if not is_better:
            break
    return cut


def _gain(points: PairPoints, members: Sequence[int], leaves: int, comes: int) -> int:
    """Return what a set gains when one member is replaced."""
    return sum(points[comes][member] - points[leaves][member] for member in members if member != leaves)
