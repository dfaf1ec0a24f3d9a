"""Cut many GPUs into sets of a size by a greedy walk and swaps, for questions too large for the exact search."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product

from policies.devices.links.cut import ChosenSet
from policies.devices.links.score import PairPoints, set_points

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
    cut, members = [], sorted(required)
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
        gained = 0
        for one, other in combinations(cut, 2):
            for i, j in product(range(len(one)), range(len(other))):
                mine, theirs = one[i], other[j]
                if mine in required:  # and theirs never is: what is required is in the first set
                    continue
                gain = _gain(points, one, mine, theirs) + _gain(points, other, theirs, mine)
                if gain > 0:
                    one[i], other[j], gained = theirs, mine, gained + gain
        if not gained:
            break
    return cut


def _gain(points: PairPoints, members: Sequence[int], leaves: int, comes: int) -> int:
    """Return what a set gains when one member is replaced."""
    return sum(points[comes][member] - points[leaves][member] for member in members if member != leaves)
