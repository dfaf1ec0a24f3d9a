"""Which sets of nodes are an intersection of one set from each list, and of which sets, without trying combinations.

Sets are masks. Of lists of up to 2^n masks over n nodes there are up to 2^(n * lists) combinations, but at most 2^n
intersections. Two lists are combined by an AND-convolution: superset sums of both, their products, and the sums taken
back. The 2^n sums of a list are lanes of one long integer, so that a step over all of them is a shift and an addition.
"""

import sys
from array import array
from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from itertools import compress
from operator import mul

from policies.errors import PolicyBaseError

LATTICE_NODES = 16
"""The most nodes for which a table of all their sets is made: 65,536 of them."""
MAX_PAIRS = 2_000_000
"""The most pairs that are tried one by one, where there are more nodes: about half a second of work."""
_LANE_BITS = 64  # a sum is at most 2^n and a product 2^2n, for n = 16 below 2^33
_LANE_BYTES = _LANE_BITS // 8
# A pair costs about as much as four lanes.
_LANES_PER_PAIR = 4


class TooManyHintsError(PolicyBaseError):
    """The hints of a machine with many nodes have too many different intersections."""

    def __str__(self) -> str:
        return (
            f"the hints list so many different sets of more than {LATTICE_NODES} NUMA nodes that merging them would "
            f"take over {MAX_PAIRS} steps; list fewer"
        )


class Reach:
    """The intersections of one mask from each of several lists.

    ``masks`` are those of all lists. Raises TooManyHintsError.
    """

    def __init__(self, lists: Sequence[Collection[int]], full: int) -> None:
        """``full`` is the intersection of no mask at all, and holds every mask of the lists."""
        self._full = full
        self._lists = lists
        self._blocks = _blocks(lists, full)
        # Those of the first list, of the first two, ...
        self._prefixes: list[set[int]] = []
        known = {full}
        for masks in lists:
            known = self._intersections(known, masks)
            self._prefixes.append(known)
        self.masks = known

    def combination(self, target: int, rank: Callable[[int, int], tuple[int, ...]]) -> list[int]:
        """Return one mask of each list, whose intersection is ``target``, one of ``masks``.

        From the last list to the first, each gives the mask of the lowest ``rank``, a key of position and mask, with
        which the target can still be reached.
        """
        chosen: list[int] = []
        for i in range(len(self._lists) - 1, 0, -1):
            before = [mask for mask in self._prefixes[i - 1] if mask & target == target]
            can_end = self._can_end(before, target)
            fitting = [mask for mask in self._lists[i] if mask & target == target and can_end(mask)]
            best = min(fitting, key=partial(rank, i))
            chosen.append(best)
            target = min((mask for mask in before if mask & best == target), key=lambda mask: (mask.bit_count(), mask))
        return [target, *reversed(chosen)] if self._lists else []

    def _intersections(self, known: set[int], masks: Collection[int]) -> set[int]:
        if len(known) == 1:
            (only,) = known
            return {only & mask for mask in masks}
        blocks = self._blocks
        if blocks is None or len(known) * len(masks) <= _LANES_PER_PAIR << len(blocks):
            if len(known) * len(masks) > MAX_PAIRS:
                raise TooManyHintsError
            return {one & other for one in known for other in masks}
        coded = _convolved(_coded(known, blocks), _coded(masks, blocks), len(blocks))
        return _decoded(coded, blocks)

    def _can_end(self, before: list[int], target: int) -> Callable[[int], bool]:
        """Return whether a mask, which holds the target, has one in ``before`` with which it intersects in it."""
        blocks = self._blocks
        rests = {mask & ~target for mask in before}
        if blocks is None:
            return lambda mask: any(not mask & rest for rest in rests)
        free = _closure(_coded(rests, blocks), len(blocks))
        full = self._full
        if _is_plain(blocks):
            return lambda mask: free[full & ~mask | target] != 0
        return lambda mask: free[_code(full & ~mask | target, blocks)] != 0


def _blocks(lists: Sequence[Collection[int]], full: int) -> tuple[int, ...] | None:
    """Return disjoint masks of which every mask of the lists is a union; None when more than a table can have.

    Nodes that no mask tells apart are one block.
    """
    if full.bit_length() <= LATTICE_NODES:
        return tuple(1 << node for node in range(full.bit_length()))
    blocks = [full]
    for masks in lists:
        for mask in masks:
            blocks = [part for block in blocks for part in (block & mask, block & ~mask) if part]
            if len(blocks) > LATTICE_NODES:
                return None
    return tuple(blocks)


def _is_plain(blocks: tuple[int, ...]) -> bool:
    """Whether each block is the node of its position, so that a mask is its own code."""
    return all(block == 1 << i for i, block in enumerate(blocks))


def _code(mask: int, blocks: tuple[int, ...]) -> int:
    return sum(1 << i for i, block in enumerate(blocks) if mask & block)


def _coded(masks: Collection[int], blocks: tuple[int, ...]) -> Collection[int]:
    return masks if _is_plain(blocks) else {_code(mask, blocks) for mask in masks}


def _decoded(codes: set[int], blocks: tuple[int, ...]) -> set[int]:
    if _is_plain(blocks):
        return codes
    return {sum(block for i, block in enumerate(blocks) if code >> i & 1) for code in codes}


def _convolved(ones: Collection[int], others: Collection[int], nodes: int) -> set[int]:
    """Return the intersections of all pairs."""
    products = array("Q", map(mul, _superset_sums(ones, nodes), _superset_sums(others, nodes)))
    lanes = _lanes(products)
    for bit, without in enumerate(_lanes_without(nodes, _LANE_BITS)):
        lanes -= lanes >> (_LANE_BITS << bit) & without
    return set(compress(range(1 << nodes), _numbers(lanes, nodes)))


def _superset_sums(codes: Collection[int], nodes: int) -> Sequence[int]:
    """Return for each set how many of these hold it."""
    flags = array("Q", bytes(_LANE_BYTES << nodes))
    for code in codes:
        flags[code] = 1
    lanes = _lanes(flags)
    for bit, without in enumerate(_lanes_without(nodes, _LANE_BITS)):
        lanes += lanes >> (_LANE_BITS << bit) & without
    return _numbers(lanes, nodes)


def _lanes(numbers: "array[int]") -> int:
    if sys.byteorder == "big":
        numbers.byteswap()
    return int.from_bytes(numbers.tobytes(), "little")


def _numbers(lanes: int, nodes: int) -> Sequence[int]:
    numbers = array("Q", lanes.to_bytes(_LANE_BYTES << nodes, "little"))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _closure(codes: Collection[int], nodes: int) -> bytes:
    """Return a byte for each set: whether one of these lies in it."""
    flags = bytearray(1 << nodes)
    for code in codes:
        flags[code] = 1
    lanes = int.from_bytes(flags, "little")
    for bit, without in enumerate(_lanes_without(nodes, 8)):
        lanes |= (lanes & without) << (8 << bit)
    return lanes.to_bytes(1 << nodes, "little")


@cache
def _lanes_without(nodes: int, lane_bits: int) -> tuple[int, ...]:
    """Return for each node all ones in the lanes of the sets without it; 8 MiB in all for 16 nodes."""
    total = lane_bits << nodes
    found = []
    for bit in range(nodes):
        ones = (1 << (lane_bits << bit)) - 1
        period = lane_bits << (bit + 1)
        while period < total:
            ones |= ones << period
            period *= 2
        found.append(ones)
    return tuple(found)
