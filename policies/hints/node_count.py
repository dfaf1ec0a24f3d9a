"""Find how many nodes a request takes on an idle machine: the size of the hints that are preferred."""

from collections.abc import Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import mul, sub

from policies.hints.model import Amount
from policies.hints.node_sets import MAX_LISTED_NODES, by_size, sums
from sysfs.cpuset import NodeSet

# For several resources this is a covering problem: exact up to 16 nodes, and above as far as a search of about 30 ms
# gets. Nodes that are alike take a few steps; a search that is cut off leaves a size that does suffice.
MAX_SEARCH_STEPS = 2000


def smallest_size(capacities: Sequence[Amount], within: int) -> int:
    """Return how many of these nodes it takes to reach every request; their number where all together do not.

    >>> smallest_size([Amount((4, 8, 4), 10)], 0b111), smallest_size([Amount((4, 8, 4), 10)], 0b101)
    (2, 2)
    """
    nodes = tuple(NodeSet(within))
    asked = [amount for amount in capacities if amount.request > 0]
    columns = [tuple(amount.free[node] for node in nodes) for amount in asked]
    requests = tuple(amount.request for amount in asked)
    if not asked:
        return min(1, len(nodes))
    if len(asked) == 1:
        return _least_count(columns[0], requests[0])
    if len(nodes) <= MAX_LISTED_NODES:
        tables = [sums(column) for column in columns]
        return next((i.bit_count() for i in by_size(len(nodes)) if _reach(tables, requests, i)), len(nodes))
    return _covering_size(list(zip(*columns, strict=True)), requests)


def _reach(tables: Sequence[Sequence[int]], requests: Sequence[int], index: int) -> bool:
    return all(table[index] >= request for table, request in zip(tables, requests, strict=True))


def _least_count(amounts: Sequence[int], request: int) -> int:
    """Return how many of the largest amounts reach the request, at least 1; all of them where they do not."""
    totals = accumulate(sorted(amounts, reverse=True))
    return next((count for count, total in enumerate(totals, 1) if total >= request), len(amounts))


def _covering_size(rows: list[tuple[int, ...]], requests: tuple[int, ...]) -> int:
    """Return how many rows it takes to reach the request of every column; all of them where they do not."""
    # In parts of its request, what a node has of all resources together: most dead ends show there first.
    scales = [prod(requests) // request for request in requests]
    summed = [(sum(map(mul, row, scales)), *row) for row in rows]
    missing = (sum(map(mul, requests, scales)), *requests)
    least = max(_least_count(column, amount) for column, amount in zip(zip(*summed, strict=True), missing, strict=True))
    most = _greedy_count(rows, requests, scales)
    steps = iter(range(MAX_SEARCH_STEPS))
    by_total = sorted(summed, reverse=True)
    return next((count for count in range(least, most) if _is_reached(by_total, missing, count, steps)), most)


def _greedy_count(rows: list[tuple[int, ...]], requests: tuple[int, ...], scales: Sequence[int]) -> int:
    """Return how many rows reach the requests when the one that adds most is taken each time."""
    rest, missing, count = list(rows), requests, 0
    while rest and any(amount > 0 for amount in missing):
        gains = [sum(map(mul, map(min, row, missing), scales)) for row in rest]
        row = rest.pop(gains.index(max(gains)))
        missing, count = tuple(max(amount - given, 0) for amount, given in zip(missing, row, strict=True)), count + 1
    return max(count, 1)


def _is_reached(rows: Sequence[tuple[int, ...]], requests: tuple[int, ...], size: int, steps: Iterator[int]) -> bool:
    """Return whether at most this many rows add up to the requests; False when the steps are used up."""
    ahead = [(requests, size, 0)]  # what is missing, how many rows may be added, and from which on
    for _ in steps:
        if not ahead:
            return False
        missing, left, start = ahead.pop()
        if all(amount <= 0 for amount in missing):
            return True
        columns = zip(*rows[start:], strict=True)
        best = [sum(sorted(column, reverse=True)[:left]) for column in columns]
        if best and all(most >= amount for most, amount in zip(best, missing, strict=True)):
            rest = tuple(map(sub, missing, rows[start]))
            ahead += [(missing, left, start + 1), (rest, left - 1, start + 1)]  # the last one is tried first
    return False
