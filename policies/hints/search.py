"""Find the first set of NUMA nodes that has a property, without listing the sets.

The searches decide on one node after the other from the highest down, and leave it out first: the first set found is
the one of the lowest mask. A branch ends as soon as a bound says that nothing can come of it.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate

from policies.errors import PolicyBaseError
from policies.hints.model import Amount

MAX_STEPS = 100_000
"""The most nodes that the searches of a merge decide on, over all their branches: a few tenths of a second of work."""
MAX_SEARCH_NODES = 256
"""The most nodes of a search: each is a call within a call. Machines have at most 64 or so."""

Distances = Sequence[Sequence[int]]
_Slack = tuple[tuple[int, ...], ...]  # by giver, of each of its amounts
_State = tuple[int, int, _Slack]


class SearchTooLongError(PolicyBaseError):
    """Amounts or distances for which the bounds of a search say too little."""

    def __str__(self) -> str:
        return "merging the hints of these NUMA nodes would take too long; ask for fewer resources at once"


@dataclass(slots=True)
class Steps:
    """What is left of the steps that searches may take together."""

    left: int = MAX_STEPS

    def take(self, count: int = 1) -> None:
        """Count one, or several. Raises SearchTooLongError."""
        self.left -= count
        if self.left < 0:
            raise SearchTooLongError


def members(mask: int) -> list[int]:
    """Return the nodes of a mask, ascending.

    >>> members(0b1010)
    [1, 3]
    """
    return [node for node in range(mask.bit_length()) if mask >> node & 1]


def reaches(amount: Amount, mask: int) -> bool:
    """Return whether these nodes together have what is asked."""
    return sum(amount.free[node] for node in members(mask)) >= amount.request


def distance_within(mask: int, distances: Distances) -> int:
    """Return the sum over all ordered pairs of nodes in the set, each node with itself included.

    For sets of the same size it has the order of the kubelet's average.
    """
    nodes = members(mask)
    return sum(distances[a][b] for a in nodes for b in nodes)


def lowest_set(
    amounts: Sequence[Amount],
    size: int,
    within: int,
    required: int = 0,
    accept: Callable[[int], bool] | None = None,
    steps: Steps | None = None,
) -> int:
    """Return the lowest mask of this many nodes that reaches all amounts, and is accepted; 0 = there is none.

    It is part of ``within`` and holds ``required``. Raises SearchTooLongError.
    """
    if required & ~within or not required.bit_count() <= size <= within.bit_count() or not size:
        return 0
    nodes = members(within & ~required)
    if len(nodes) > MAX_SEARCH_NODES:
        raise SearchTooLongError
    missing = tuple(a.request - sum(a.free[node] for node in members(required)) for a in amounts)
    tops = [top_sums([amount.free[node] for node in nodes], size) for amount in amounts]
    failed: set[tuple[int, int, tuple[int, ...]]] = set()
    steps = steps or Steps()

    def visit(position: int, mask: int, left: int, missing: tuple[int, ...]) -> int:
        """Decide on the nodes below the position, of which as many as are left have to bring what is missing."""
        steps.take()
        if position < left or any(part > top[position][left] for part, top in zip(missing, tops, strict=True)):
            return 0
        if not left:
            return mask if accept is None or accept(mask) else 0
        state = (position, left, missing)
        if state in failed:
            return 0
        node = nodes[position - 1]
        less = tuple(max(part - a.free[node], 0) for part, a in zip(missing, amounts, strict=True))
        found = visit(position - 1, mask, left, missing) or visit(position - 1, mask | 1 << node, left - 1, less)
        if not found and accept is None:
            failed.add(state)
        return found

    return visit(len(nodes), required, size - required.bit_count(), tuple(max(part, 0) for part in missing))


def fewest_nodes(amounts: Sequence[Amount], within: int, required: int = 0, steps: Steps | None = None) -> int:
    """Return the number of nodes of the smallest set that reaches all amounts; 0 = there is none.

    Raises SearchTooLongError.
    """
    if required & ~within or not all(reaches(amount, within) for amount in amounts):
        return 0
    least = max((1, *(_fewest_of_one(amount, within, required) for amount in amounts)))
    if len(amounts) == 1:
        return least
    sizes = range(max(least, required.bit_count()), within.bit_count() + 1)
    steps = steps or Steps()
    return next((size for size in sizes if lowest_set(amounts, size, within, required, steps=steps)), 0)


def _fewest_of_one(amount: Amount, within: int, required: int) -> int:
    """Return the number of nodes of the smallest set that reaches this amount alone."""
    certain = [amount.free[node] for node in members(required)]
    largest = sorted((amount.free[node] for node in members(within & ~required)), reverse=True)
    sums = accumulate(largest, initial=sum(certain))
    return len(certain) + next((count for count, total in enumerate(sums) if total >= amount.request), len(largest))


def top_sums(amounts: Sequence[int], most: int) -> list[list[int]]:
    """Return, for the first 0, 1, ... amounts, the sums of their 0, 1, ... largest."""
    largest: list[int] = []  # negated, so that they ascend
    sums = [[0] * (most + 1)]
    for amount in amounts:
        insort(largest, -amount)
        del largest[most:]
        found = [0, *(-total for total in accumulate(largest))]
        sums.append(found + found[-1:] * (most + 1 - len(found)))
    return sums


@dataclass(frozen=True, slots=True)
class Giver:
    """A resource whose hints are all sets of ``within`` that hold ``required`` and reach the amounts.

    Each hint is ``within`` without the nodes that it gives up.
    """

    amounts: tuple[Amount, ...]
    within: int
    required: int

    def slack(self) -> tuple[int, ...]:
        """Return how much of each amount it can give up."""
        return tuple(sum(a.free[node] for node in members(self.within)) - a.request for a in self.amounts)


@dataclass(slots=True)
class OverlapSearch:
    """Sets of nodes that are the overlap of one hint of each giver, within a set of nodes that all of them have."""

    givers: Sequence[Giver]
    within: int
    steps: Steps = field(default_factory=Steps)
    _nodes: list[int] = field(init=False)
    _slack: tuple[tuple[int, ...], ...] = field(init=False)

    def __post_init__(self) -> None:
        """Work out what each giver can give up. Raises SearchTooLongError for too many nodes."""
        self._nodes = members(self.within)
        if len(self._nodes) > MAX_SEARCH_NODES:
            raise SearchTooLongError
        self._slack = tuple(giver.slack() for giver in self.givers)

    def lowest(self, size: int, only: int | None = None) -> tuple[int, tuple[int, ...]] | None:
        """Return the lowest overlap of this many nodes, and what each giver gives up for it; None = there is none.

        ``only``: no other set counts. Raises SearchTooLongError.
        """
        if not 0 < size <= len(self._nodes) or any(part < 0 for parts in self._slack for part in parts):
            return None
        sums = cache(self._sums)
        lowest = [sum(1 << node for node in self._nodes[:count]) for count in range(size + 1)]
        # By what is to be decided: the lowest mask (-1: there is none), who gives the node up (-1: it stays), the rest.
        known: dict[_State, tuple[int, int, _Slack]] = {}

        def visit(position: int, left: int, slack: _Slack) -> int:
            """Decide on the nodes below the position, of which as many as are left stay in; return these."""
            self.steps.take()
            surplus = position - left
            if surplus < 0 or left < 0 or (surplus and surplus > _most_given(sums(position), slack)):
                return -1
            state = (position, left, slack)
            if not position or state in known:
                return known[state][0] if position else 0
            node, best = self._nodes[position - 1], (-1, -1, slack)
            for giver, less in self._ways_out(node, slack) if surplus and not (only or 0) >> node & 1 else ():
                # Who gives the node up decides what can be given up below, so that a second way may be a lower mask.
                found = visit(position - 1, left, less)
                best = (found, giver, less) if found >= 0 and (best[0] < 0 or found < best[0]) else best
                if best[0] == lowest[left] or (only is not None and best[0] >= 0):
                    break
            if best[0] < 0 and (only is None or only >> node & 1):
                found = visit(position - 1, left - 1, slack)
                best = (found | 1 << node, -1, slack) if found >= 0 else best
            known[state] = best
            return best[0]

        found = visit(len(self._nodes), size, self._slack)
        return (found, self._given(size, known)) if found >= 0 else None

    def _given(self, left: int, known: Mapping[_State, tuple[int, int, _Slack]]) -> tuple[int, ...]:
        """Return what each giver gives up in the result of a search."""
        given, slack = [0] * len(self.givers), self._slack
        for position in range(len(self._nodes), 0, -1):
            _, giver, less = known[position, left, slack]
            if giver < 0:
                left -= 1
            else:
                given[giver] |= 1 << self._nodes[position - 1]
            slack = less
        return tuple(given)

    def _ways_out(self, node: int, slack: _Slack) -> Iterable[tuple[int, _Slack]]:
        """Return who can give the node up, each with the slack that is then left; only one where it loses nothing."""
        ways = []
        for i, (giver, parts) in enumerate(zip(self.givers, slack, strict=True)):
            if giver.required >> node & 1:
                continue
            less = tuple(part - a.free[node] for part, a in zip(parts, giver.amounts, strict=True))
            if less == parts:
                return ((i, slack),)
            if min(less) >= 0:
                ways.append((i, (*slack[:i], less, *slack[i + 1 :])))
        return ways

    def _sums(self, position: int) -> list[tuple[int, list[list[int]]]]:
        """Return for each giver how many nodes below the position it may give up, and sums of the smallest amounts."""
        found = []
        for giver in self.givers:
            nodes = [node for node in self._nodes[:position] if not giver.required >> node & 1]
            sums = [list(accumulate(sorted(amount.free[node] for node in nodes))) for amount in giver.amounts]
            found.append((len(nodes), sums))
        return found


def _most_given(sums: list[tuple[int, list[list[int]]]], slack: _Slack) -> int:
    """Return a bound on how many nodes the givers can give up together."""
    return sum(
        min((count, *(bisect_right(smallest, part) for smallest, part in zip(of_giver, parts, strict=True))))
        for (count, of_giver), parts in zip(sums, slack, strict=True)
    )
