"""Merge hints that are not listed, on machines whose NUMA nodes have too many sets to list them.

The answers are those that the policies have for the listed form. A resource offers the family of all sets that have
enough, and perhaps listed ones beside it, as sets of nodes that share memory already.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from policies.errors import PolicyOptionsError
from policies.hints.choices import ANY_OTHER, Choices, Offered, listed_choices
from policies.hints.distance import ClosestSearch
from policies.hints.model import Hint, HintOrigin, Merged, Unlisted
from policies.hints.order import MaskOrder, by_wanted_size
from policies.hints.reach import MAX_PAIRS, TooManyHintsError
from policies.hints.search import Giver, OverlapSearch, Steps, fewest_nodes, lowest_set, members, reaches

UNLISTED_POLICIES: Final = ("best-effort", "restricted", "proposed-strict")
"""The policies that need no list; ``single-numa-node`` lists the few hints that it looks at."""
_LISTS_NEEDED: Final = (
    "hints that are not listed can be merged by none, best-effort, restricted, single-numa-node and proposed-strict"
)
MAX_BRANCHES: Final = 4096
"""The most combinations of listed hints and families that are searched; those of memory groups are a few dozen."""


@dataclass(frozen=True, slots=True)
class Family:
    """What one resource offers: its listed hints, and all sets of ``unlisted`` unless that is None."""

    choices: Choices
    unlisted: Unlisted | None

    def holds_preferred(self, mask: int) -> bool:
        """Return whether one of its preferred hints has this mask."""
        family = self.unlisted
        if mask in self.choices.preferred:
            return True
        return family is not None and is_offered(family, mask) and is_preferred(family, mask)

    def narrowest(self, steps: Steps) -> int:
        """Return the number of nodes of the smallest mask; 0 where there is none."""
        family = self.unlisted
        fewest = 0 if family is None else fewest_nodes(family.amounts, family.within, family.required, steps)
        return min((size for size in (self.choices.narrowest(), fewest) if size), default=0)


def is_offered(family: Unlisted, mask: int) -> bool:
    """Return whether the set is in the family, listed hints apart."""
    is_part = mask != 0 and not mask & ~family.within and not family.required & ~mask
    return is_part and all(reaches(amount, mask) for amount in family.amounts)


def is_preferred(family: Unlisted, mask: int) -> bool:
    """Return whether a set of the family is preferred."""
    if mask.bit_count() == family.preferred_size:
        return True
    touched = sum(1 for socket in family.sockets if socket & mask)
    return touched > 0 and touched == family.preferred_sockets


def single_node_hints(hints: Sequence[Hint] | Unlisted) -> Sequence[Hint]:
    """Return hints that are listed as they are; of a family those for one node, beside its listed ones."""
    if not isinstance(hints, Unlisted):
        return hints
    nodes = (1 << node for node in members(hints.within))
    found = (Hint(mask, is_preferred(hints, mask)) for mask in nodes if is_offered(hints, mask))
    return (*found, *hints.listed) or (ANY_OTHER,)


def merge_families(offered: Sequence[Offered], order: MaskOrder, policy: str, steps: Steps | None = None) -> Merged:
    """Return what one of ``UNLISTED_POLICIES`` makes of these hints. Raises what ``merge`` does.

    ``steps``: what all searches of the merge may take together.
    """
    if policy not in UNLISTED_POLICIES:
        raise PolicyOptionsError("policy", policy, _LISTS_NEEDED)
    families = [_family(found) for found in offered]
    steps = steps or Steps()
    agreed = _agreed(families, order, steps)
    if agreed:
        affinity, mask = agreed
        rests_on = tuple(_origin(family, mask) for family in families)
        return Merged(affinity, preferred=True, admit=True, rests_on=rests_on)
    if policy == "proposed-strict":
        return Merged(None, preferred=False, admit=False, has_hint=False)
    found = _overlap(families, order, steps)
    affinity, rests_on = found or (order.full, ())
    return Merged(affinity, preferred=False, admit=policy == "best-effort", rests_on=rests_on)


def _family(offered: Offered) -> Family:
    family = offered.hints
    if not isinstance(family, Unlisted):
        return Family(listed_choices(offered.provider, offered.resource, family), None)
    is_possible = is_offered(family, family.within)
    listed = family.listed if is_possible else family.listed or (ANY_OTHER,)
    return Family(listed_choices(offered.provider, offered.resource, listed), family if is_possible else None)


def _origin(family: Family, mask: int) -> HintOrigin:
    """Return the preferred hint with this mask, or the one for any node."""
    choices = family.choices
    is_any = not family.holds_preferred(mask)
    return HintOrigin(choices.provider, choices.resource, Hint(None if is_any else mask, preferred=True))


def _agreed(families: Sequence[Family], order: MaskOrder, steps: Steps) -> tuple[int, int] | None:
    """Return the best mask that preferred hints of all resources have, on the machine and as offered."""
    bound = [family for family in families if True not in family.choices.any_flags]
    if bound:
        listed = frozenset[int]().union(*(family.choices.preferred for family in bound))
        masks = {mask for mask in listed if all(family.holds_preferred(mask) for family in bound)}
        groups = [[family.unlisted for family in bound if family.unlisted is not None]]
        groups = groups if len(groups[0]) == len(bound) else []
    else:
        masks = set().union({order.full}, *(family.choices.preferred for family in families))
        groups = [[family.unlisted] for family in families if family.unlisted is not None]
    masks.update(_common(group, order, steps) for group in groups)
    offered = {mask & order.full: mask for mask in sorted(masks, reverse=True)}
    best = order.best(mask for mask in offered if mask)
    return (best, offered[best]) if best else None


def _common(group: Sequence[Unlisted], order: MaskOrder, steps: Steps) -> int:
    """Return the best mask that is preferred in each of these families; 0 = there is none."""
    within, required = order.full, 0
    for family in group:
        within &= family.within
        required |= family.required
    amounts = [amount for family in group for amount in family.amounts]
    sizes = set(range(1, within.bit_count() + 1)).intersection(*map(_preferred_sizes, group))

    def accept(mask: int) -> bool:
        return all(is_preferred(family, mask) for family in group)

    for size in sorted(sizes):
        is_by_size = all(family.preferred_size == size for family in group)
        found = lowest_set(amounts, size, within, required, None if is_by_size else accept, steps)
        if found and order.distances is not None:
            found = ClosestSearch(order.distances, within, required).best(found, accept, amounts)
        if found:
            return found
    return 0


def _preferred_sizes(family: Unlisted) -> set[int]:
    """Return the numbers of nodes that a preferred set of the family can have."""
    widest = sorted((socket.bit_count() for socket in family.sockets), reverse=True)[: family.preferred_sockets]
    return {family.preferred_size, *range(max(family.preferred_sockets, 1), sum(widest) + 1)}


@dataclass(frozen=True, slots=True)
class _Branch:
    """One way to give each resource a listed mask, or its family.

    ``within`` is the overlap of the listed masks and of the widest sets of the families. ``parts`` has the listed mask
    of each resource, None for a family.
    """

    within: int
    parts: tuple[int | None, ...] = ()


def _branches(families: Sequence[Family], full: int) -> Iterator[_Branch]:
    """Yield the branches whose overlap is not empty; of those alike the first. Raises TooManyHintsError."""
    branches: dict[tuple[int, tuple[int, ...]], _Branch] = {(full, ()): _Branch(full)}
    for position, family in enumerate(families):
        preferred = family.choices.preferred
        listed = sorted(family.choices.within(full), key=lambda mask: (mask not in preferred, mask.bit_count(), mask))
        if len(branches) * (len(listed) + 1) > MAX_PAIRS:
            raise TooManyHintsError
        following: dict[tuple[int, tuple[int, ...]], _Branch] = {}
        for (within, givers), branch in branches.items():
            if family.unlisted is not None:
                key = (within & family.unlisted.within, (*givers, position))
                following.setdefault(key, _Branch(key[0], (*branch.parts, None)))
            for mask in listed:
                following.setdefault((within & mask, givers), _Branch(within & mask, (*branch.parts, mask)))
        branches = {key: branch for key, branch in following.items() if branch.within}
        if len(branches) > MAX_BRANCHES:
            raise TooManyHintsError
    yield from branches.values()


def _overlap(families: Sequence[Family], order: MaskOrder, steps: Steps) -> tuple[int, tuple[HintOrigin, ...]] | None:
    """Return the best overlap of one hint of each resource, with those hints; None = every overlap is empty."""
    branches = [(branch, _search(branch, families, steps)) for branch in _branches(families, order.full)]
    wanted = max((family.narrowest(steps) for family in families), default=0)
    widest = max((branch.within.bit_count() for branch, _ in branches), default=0)
    for size in sorted(range(1, widest + 1), key=lambda size: by_wanted_size(size, wanted)):
        found = {_best_overlap(search, size, order): (branch, search) for branch, search in reversed(branches)}
        best = order.best(mask for mask in found if mask)
        if best:
            branch, _ = found[best]
            given = _search(branch, families, Steps()).lowest(size, best)
            return best, tuple(_origins(branch, families, order.full, given[1] if given else ()))
    return None


def _search(branch: _Branch, families: Sequence[Family], steps: Steps) -> OverlapSearch:
    givers = []
    for family, part in zip(families, branch.parts, strict=True):
        if part is None and family.unlisted is not None:
            givers.append(Giver(family.unlisted.amounts, family.unlisted.within, family.unlisted.required))
    return OverlapSearch(givers, branch.within, steps)


def _best_overlap(search: OverlapSearch, size: int, order: MaskOrder) -> int:
    """Return the best overlap of this many nodes; 0 = there is none."""
    found = search.lowest(size)
    if found is None or order.distances is None:
        return found[0] if found else 0
    closest = ClosestSearch(order.distances, search.within)
    return closest.best(found[0], lambda mask: search.lowest(size, mask) is not None)


def _origins(branch: _Branch, families: Sequence[Family], full: int, given: Sequence[int]) -> Iterator[HintOrigin]:
    """Yield the hint of each resource in a branch, where each family gives up these nodes."""
    left = iter(given)
    for family, part in zip(families, branch.parts, strict=True):
        choices = family.choices
        if part is not None:
            yield choices.origin_within(part, full)
        elif family.unlisted is not None:
            mask = family.unlisted.within & ~next(left)
            hint = Hint(mask, is_preferred(family.unlisted, mask))
            yield HintOrigin(choices.provider, choices.resource, hint)
