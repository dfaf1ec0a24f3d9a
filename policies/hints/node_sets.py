"""List the node sets that can serve a request, as the kubelet does: by size, then by their lowest nodes.

A table holds one number for each subset of n nodes: bit j of its index is the j-th node. It is built by doubling, so
that a subset costs one addition.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from policies.errors import PolicyBaseError
from policies.hints.model import Amount, Hint
from sysfs.cpuset import NodeSet

# More would be over 65,535 hints for each resource; without max-allowable-numa-nodes the kubelet stops at 8 nodes.
MAX_LISTED_NODES = 16
# A machine has one set of nodes with CPUs, one with memory and few with devices; 16 nodes take ten megabytes.
_KEPT_TABLES = 4


@dataclass(eq=False)
class TooManyNodesError(PolicyBaseError):
    """The sets of so many nodes cannot be listed."""

    count: int

    def __str__(self) -> str:
        return f"hints list the sets of at most {MAX_LISTED_NODES} NUMA nodes, and there are {self.count}"


def listed_nodes(mask: int) -> tuple[int, ...]:
    """Return the nodes of a mask whose sets are to be listed, ascending. Raises TooManyNodesError."""
    if mask.bit_count() > MAX_LISTED_NODES:
        raise TooManyNodesError(mask.bit_count())
    return tuple(NodeSet(mask))


def sums(amounts: Iterable[int]) -> list[int]:
    """Return the total of every subset of these amounts.

    >>> sums([1, 10, 100])
    [0, 1, 10, 11, 100, 101, 110, 111]
    """
    table = [0]
    for amount in amounts:
        table += [total + amount for total in table]
    return table


def unions(masks: Iterable[int]) -> list[int]:
    """Return the union of every subset of these masks.

    >>> unions([0b01, 0b11])
    [0, 1, 3, 3]
    """
    table = [0]
    for mask in masks:
        table += [union | mask for union in table]
    return table


def touching(nodes: Sequence[int], masks: Iterable[int]) -> list[int]:
    """Return for every subset of the nodes how many of these masks it has a node of.

    >>> touching([0, 1], [0b01, 0b11, 0b100])
    [0, 2, 1, 2]
    """
    counts: dict[int, int] = {}
    for mask in masks:
        counts[mask] = counts.get(mask, 0) + 1
    table = sums(counts.pop(1 << node, 0) for node in nodes)
    for mask, count in counts.items():
        touched = unions(mask >> node & 1 for node in nodes)
        table = [total + count * bit for total, bit in zip(table, touched, strict=True)]
    return table


@lru_cache(_KEPT_TABLES)
def by_size(count: int) -> tuple[int, ...]:
    """Return the indexes of all subsets but the empty one: by size, then by their lowest members.

    >>> [f"{index:03b}" for index in by_size(3)]
    ['001', '010', '100', '011', '101', '110', '111']
    """
    bits = [1 << position for position in range(count)]
    return tuple(sum(members) for size in range(1, count + 1) for members in combinations(bits, size))


def enough(count: int, amounts: Iterable[Amount]) -> Sequence[int]:
    """Return the subsets of so many nodes that reach every request: by size, then by their lowest nodes.

    >>> [f"{index:03b}" for index in enough(3, [Amount((1, 0, 2), 3)])]
    ['101', '111']
    """
    fitting: Sequence[int] = by_size(count)
    for amount in amounts:
        totals = sums(amount.has)
        fitting = [index for index in fitting if totals[index] >= amount.request]
    return fitting


def served(count: int, can_serve: Callable[[int], bool]) -> list[int]:
    """Return the subsets of so many nodes that can serve, in the same order.

    What a part of a subset can serve, all of it can: only the others are asked for.

    >>> [f"{index:03b}" for index in served(3, lambda index: index in (0b001, 0b110))]
    ['001', '011', '101', '110', '111']
    """
    found = [False] * (1 << count)
    for index in by_size(count):
        has_part = any(found[index & ~(1 << node)] for node in range(count) if index >> node & 1)
        found[index] = has_part or can_serve(index)
    return [index for index in by_size(count) if found[index]]


def fewest_nodes(count: int, amounts: Iterable[Amount]) -> int:
    """Return the number of nodes of the smallest subset that reaches every request; 0 = there is none."""
    return next(iter(enough(count, amounts)), 0).bit_count()


def hints_of(nodes: Sequence[int], subsets: Iterable[int], size: int) -> tuple[Hint, ...]:
    """Return a hint for each of these subsets of the nodes; those of ``size`` nodes are preferred."""
    plain, preferred = _every_hint(tuple(nodes))
    return tuple([preferred[index] if index.bit_count() == size else plain[index] for index in subsets])


@lru_cache(_KEPT_TABLES)
def _every_hint(nodes: tuple[int, ...]) -> tuple[tuple[Hint, ...], tuple[Hint, ...]]:
    """Return a hint of each subset, not preferred and preferred. To make them takes longer than to find what fits."""
    masks = sums(1 << node for node in nodes)
    return tuple(Hint(mask, preferred=False) for mask in masks), tuple(Hint(mask, preferred=True) for mask in masks)
