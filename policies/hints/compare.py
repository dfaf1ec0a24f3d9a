"""Compare the policies over every pair of hint lists that two providers can offer on a small machine.

The table is that of the topology manager's design of 2019. A list has every non-empty choice of masks, each at most
once, preferred or not; or it has a single hint for any node.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product
from typing import Final

from policies.hints.model import Hint, Merged, Nodes
from policies.hints.policies import POLICIES, merge
from policies.hints.reach import Reach

MAX_NODES: Final = 3
"""The most nodes of a comparison: 3 have 2188 lists and 4.8 million pairs, 4 would have 2 * 10^14."""

Signature = tuple[int, int, int, int, int]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The answer of one policy to a pair, as the table shows it.

    ``affinity`` is a mask with the highest node left, ``nil`` for no affinity, ``none`` for no hint at all;
    ``preferred`` is T or F, empty without a hint; ``admit`` is yes or no.
    """

    affinity: str
    preferred: str
    admit: str


@dataclass(frozen=True, slots=True)
class ComparedPair:
    """A row: the lists of both providers, and a verdict for each of ``POLICIES``."""

    providers: tuple[str, str]
    verdicts: tuple[Verdict, ...]


@dataclass(frozen=True, slots=True)
class HintList:
    """A list of hints with what a merge of two depends on; the sets of masks are integers, bit m is mask m.

    ``preferred`` and ``others`` are what agrees with its hints of that flag, ``overlaps`` and ``preferred_overlaps``
    what its hints leave of the machine.
    """

    text: str
    hints: tuple[Hint, ...]
    preferred: int
    others: int
    overlaps: int
    preferred_overlaps: int
    narrowest: int


def compared_pairs(node_count: int, lists: Sequence[HintList] = ()) -> Iterator[ComparedPair]:
    """Yield a row for every ordered pair of these lists, or of all on a machine of this many nodes."""
    nodes = Nodes((1 << node_count) - 1)
    lists = lists or hint_lists(node_count)
    known: dict[Signature, tuple[Verdict, ...]] = {}
    overlaps = cache(_overlaps)
    for one, other in product(lists, repeat=2):
        # The verdicts follow from these five. Most pairs share them with an earlier one.
        signature = (
            one.preferred & other.preferred,
            one.others & other.others,
            overlaps(one.overlaps, other.overlaps, node_count),
            overlaps(one.preferred_overlaps, other.preferred_overlaps, node_count),
            max(one.narrowest, other.narrowest),
        )
        verdicts = known.get(signature)
        if verdicts is None:
            offers = ({"0": one.hints}, {"1": other.hints})
            verdicts = tuple(verdict(merge(offers, nodes, policy), node_count) for policy in POLICIES)
            known[signature] = verdicts
        yield ComparedPair((one.text, other.text), verdicts)


def hint_lists(node_count: int) -> tuple[HintList, ...]:
    """Return all lists on a machine of this many nodes: few masks first, low ones first, then those for any node."""
    masks = range(1, 1 << node_count)
    found = []
    for size in range(1, len(masks) + 1):
        for chosen in combinations(masks, size):
            for flags in product((True, False), repeat=size):
                hints = tuple(Hint(mask, flag) for mask, flag in zip(chosen, flags, strict=True))
                found.append(_hint_list(hints, node_count))
    return (*found, *(_hint_list((Hint(None, flag),), node_count) for flag in (True, False)))


def verdict(merged: Merged, node_count: int) -> Verdict:
    """Return a result as the table shows it."""
    admit = "yes" if merged.admit else "no"
    if not merged.has_hint:
        return Verdict("none", "", admit)
    affinity = "nil" if merged.affinity is None else f"{merged.affinity:0{node_count}b}"
    return Verdict(affinity, _flag(merged.preferred), admit)


def _hint_list(hints: tuple[Hint, ...], node_count: int) -> HintList:
    full = (1 << node_count) - 1
    every_mask = (2 << full) - 1
    of_flag = {
        flag: sum(every_mask if h.nodes is None else 1 << h.nodes for h in hints if h.preferred is flag)
        for flag in (True, False)
    }
    left = {h: 1 << (full if h.nodes is None else h.nodes) for h in hints}
    words = [f"{'any' if h.nodes is None else f'{h.nodes:0{node_count}b}'}:{_flag(h.preferred)}" for h in hints]
    all_left, preferred_left = sum(left.values()), sum(bit for hint, bit in left.items() if hint.preferred)
    narrowest = min((h.nodes.bit_count() for h in hints if h.nodes is not None), default=0)
    return HintList(" ".join(words), hints, of_flag[True], of_flag[False], all_left, preferred_left, narrowest)


def _overlaps(one: int, other: int, node_count: int) -> int:
    """Return the set of the overlaps of one mask of each set."""
    lists = [[mask for mask in range(1 << node_count) if masks >> mask & 1] for masks in (one, other)]
    return sum(1 << mask for mask in Reach(lists, (1 << node_count) - 1).masks)


def _flag(preferred: bool) -> str:
    return "T" if preferred else "F"
