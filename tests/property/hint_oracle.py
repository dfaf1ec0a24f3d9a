"""The merge policies by their words: every combination of hints, folded pair by pair as the kubelet does.

The rules are those of the kubelet's Topology Manager (v1.36, policy.go) and of its design in 2019. Nothing here is
shared with the product but the values.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from policies.hints import Hint, Nodes, Offers

Result = tuple[int | None, bool, bool] | None
"""Affinity, preferred, admitted; None = no hint, refused."""
Combination = tuple[Hint, ...]


def lists_of(offers: Sequence[Offers]) -> list[list[Hint]]:
    found: list[list[Hint]] = []
    for offered in offers:
        if not offered:
            found.append([Hint(None, True)])
            continue
        for hints in offered.values():
            assert hints is None or isinstance(hints, Sequence)
            found.append([Hint(None, True)] if hints is None else list(hints) or [Hint(None, False)])
    return found


def overlap(combination: Combination, full: int) -> int:
    for hint in combination:
        if hint.nodes is not None:
            full &= hint.nodes
    return full


def narrower(one: int, other: int) -> bool:
    return (one.bit_count(), one) < (other.bit_count(), other)


def average(mask: int, distances: Sequence[Sequence[int]]) -> float:
    members = [i for i in range(mask.bit_length()) if mask >> i & 1]
    return sum(distances[a][b] for a in members for b in members) / len(members) ** 2


def closer(one: int, other: int, distances: Sequence[Sequence[int]]) -> bool:
    if one.bit_count() != other.bit_count():
        return narrower(one, other)
    near, far = average(one, distances), average(other, distances)
    return one < other if near == far else near < far


def replaces(new: tuple[int, bool], old: tuple[int, bool], wanted: int, less: Callable[[int, int], bool]) -> bool:
    """Whether the kubelet's ``compare`` takes the candidate instead of the current best."""
    if new[1] != old[1]:
        return new[1]
    if new[0] == old[0]:
        return False
    size, best = new[0].bit_count(), old[0].bit_count()
    if new[1] or best > wanted:  # also case 1
        return less(new[0], old[0])
    if best == wanted:  # case 2
        return size == wanted and less(new[0], old[0])
    is_fitter = size > best or (size == best and less(new[0], old[0]))
    return size <= wanted and is_fitter  # case 3


def today(lists: Sequence[Sequence[Hint]], nodes: Nodes, *, closest: bool) -> tuple[int, bool]:
    def less(one: int, other: int) -> bool:
        return closer(one, other, nodes.distances or ()) if closest else narrower(one, other)

    sizes = [[h.nodes.bit_count() for h in hints if h.nodes is not None] for hints in lists]
    wanted = max((min(found) for found in sizes if found), default=0)
    best: tuple[int, bool] | None = None
    for combination in product(*lists):
        masks = {h.nodes for h in combination if h.nodes is not None}
        new = overlap(combination, nodes.mask), len(masks) < 2 and all(h.preferred for h in combination)
        if new[0] and (best is None or replaces(new, best, wanted, less)):
            best = new
    return best or (nodes.mask, False)


def single(lists: Sequence[Sequence[Hint]], nodes: Nodes) -> Result:
    kept = [[h for h in hints if h.preferred and (h.nodes is None or h.nodes.bit_count() == 1)] for hints in lists]
    affinity, preferred = today(kept, nodes, closest=False)
    return (None if affinity == nodes.mask else affinity), preferred, preferred


def of_2019(lists: Sequence[Sequence[Hint]], full: int) -> tuple[int | None, bool]:
    """The five steps: better is preferred, then not empty, then fewer bits, then lower ones; first (nil, False)."""
    best: int | None = None
    is_preferred = False

    def key(mask: int | None, flag: bool) -> tuple[int, int, int, int]:
        return (-flag, mask == 0 or mask is None, (mask or 0).bit_count(), mask or 0)

    for combination in product(*lists):
        mask, flag = overlap(combination, full), all(h.preferred for h in combination)
        if key(mask, flag) < key(best, is_preferred):
            best, is_preferred = mask, flag
    return best, is_preferred


def matches(lists: Sequence[Sequence[Hint]], full: int) -> Iterator[tuple[int, bool]]:
    """The combinations of equal masks and equal flags."""
    for combination in product(*lists):
        if (
            len({h.nodes for h in combination if h.nodes is not None}) < 2
            and len({h.preferred for h in combination}) < 2
        ):
            yield overlap(combination, full), all(h.preferred for h in combination)


def equal(lists: Sequence[Sequence[Hint]], full: int, *, loose: bool) -> Result:
    found = [(not flag, mask == 0, mask.bit_count(), mask) for mask, flag in matches(lists, full) if flag or loose]
    if not found:
        return None
    is_other, _, _, mask = min(found)
    return mask, not is_other, True


def expected(offers: Sequence[Offers], nodes: Nodes, policy: str, *, closest: bool = False) -> Result:
    lists = lists_of(offers)

    def best_effort() -> Result:
        return *today(lists, nodes, closest=closest), True

    def of_old() -> Result:
        return *of_2019(lists, nodes.mask), True

    found: dict[str, Callable[[], Result]] = {
        "none": lambda: (None, False, True),
        "best-effort": best_effort,
        "restricted": lambda: if_preferred(best_effort()),
        "single-numa-node": lambda: single(lists, nodes),
        "best-effort-2019": of_old,
        "strict-2019": lambda: if_preferred(of_old()),
        "proposed-strict": lambda: equal(lists, nodes.mask, loose=False),
        "equal-only": lambda: equal(lists, nodes.mask, loose=True),
    }
    return found[policy]()


def if_preferred(result: Result) -> Result:
    """The same hint, admitted only if it is preferred."""
    return result and (*result[:2], result[1])
