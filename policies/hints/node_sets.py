"""List the node sets that can serve a request, as the kubelet does: by size, then by their lowest nodes.

A table holds one number for each subset of n nodes: bit j of its index is the j-th node. It is built by doubling, so
that a subset costs one addition.
"""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations

from policies.hints.model import Hint, Unlisted
from sysfs.cpuset import NodeSet

# More would be over 65,535 hints for each resource; without max-allowable-numa-nodes the kubelet stops at 8 nodes.
MAX_LISTED_NODES = 16
# A machine has one number of nodes with CPUs, one with memory and few with devices; 16 nodes take half a megabyte.
_KEPT_ORDERS = 4


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


@lru_cache(_KEPT_ORDERS)
def by_size(count: int) -> tuple[int, ...]:
    """Return the indexes of all subsets but the empty one: by size, then by their lowest members.

    >>> [f"{index:03b}" for index in by_size(3)]
    ['001', '010', '100', '011', '101', '110', '111']
    """
    bits = [1 << position for position in range(count)]
    return tuple(sum(members) for size in range(1, count + 1) for members in combinations(bits, size))


def offered(family: Unlisted) -> Sequence[Hint] | Unlisted:
    """Return the hints of a family as a list, by size and lowest nodes; the family itself where that is too long."""
    return unlisted(family) if family.within.bit_count() > MAX_LISTED_NODES else listed(family)


def listed(family: Unlisted) -> Sequence[Hint]:
    """Return all hints of a family of at most ``MAX_LISTED_NODES`` nodes, by size and lowest nodes."""
    nodes = tuple(NodeSet(family.within))
    fitting = _fitting(family, nodes)
    masks = sums(1 << node for node in nodes)
    is_preferred = _preference(family, nodes)
    hints = tuple(Hint(masks[index], is_preferred[index]) for index in fitting)
    return tuple(sorted((*hints, *family.listed), key=_rank)) if family.listed else hints


def unlisted(family: Unlisted) -> Sequence[Hint] | Unlisted:
    """Return the family, or where no set of it has enough its listed hints."""
    nodes = tuple(NodeSet(family.within))
    has_any = all(sum(amount.free[node] for node in nodes) >= amount.request for amount in family.amounts)
    return family if has_any else family.listed


def _fitting(family: Unlisted, nodes: Sequence[int]) -> list[int]:
    """Return the subsets that hold the required nodes and reach every request."""
    required = sum(1 << position for position, node in enumerate(nodes) if family.required >> node & 1)
    fitting = [index for index in by_size(len(nodes)) if index & required == required]
    for amount in family.amounts:
        totals = sums(amount.free[node] for node in nodes)
        fitting = [index for index in fitting if totals[index] >= amount.request]
    return fitting


def _preference(family: Unlisted, nodes: Sequence[int]) -> list[bool]:
    """Return for every subset whether it is preferred."""
    wanted = family.preferred_size
    if not family.preferred_sockets:
        return [size == wanted for size in sums(1 for _ in nodes)]
    of_node = (sum(1 << i for i, socket in enumerate(family.sockets) if socket >> node & 1) for node in nodes)
    return [
        size == wanted or touched.bit_count() == family.preferred_sockets
        for size, touched in zip(sums(1 for _ in nodes), unions(of_node), strict=True)
    ]


def _rank(hint: Hint) -> tuple[int, tuple[int, ...]]:
    nodes = tuple(NodeSet(hint.nodes or 0))
    return len(nodes), nodes
