"""Merge the hints of all resources into one affinity, as a policy of the Topology Manager has it.

The policies of today's kubelet give exactly its answers (pkg/kubelet/cm/topologymanager, v1.36); those of 2019 are the
ones it had before, and two that were proposed. The kubelet visits every combination of hints. Here the result comes
from set intersections where hints have to be equal, and from ``Reach`` where they only have to overlap.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from policies.errors import PolicyOptionsError, UnknownPolicyError
from policies.hints.model import KUBELET_NODES, NO_RESOURCE, Hint, HintOrigin, Merged, MergeOptions, Nodes, Offers
from policies.hints.reach import Reach
from sysfs.cpuset import NodeSet

ANY_PREFERRED = Hint(None, preferred=True)
"""The hints of a resource, or a provider, without a preference (KEP-693, and the kubelet's filterProvidersHints)."""
ANY_OTHER = Hint(None, preferred=False)
"""The hints of a resource whose request cannot be satisfied."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The hints of one resource; duplicates are gone.

    ``preferred`` and ``others`` are masks as offered, nodes beyond the machine included; ``any_flags`` are the
    preferred flags of hints for any node.
    """

    provider: int
    resource: str
    preferred: frozenset[int]
    others: frozenset[int]
    any_flags: frozenset[bool]

    def flagged(self, preferred: bool) -> frozenset[int]:
        """Return the masks of the hints with this flag."""
        return self.preferred if preferred else self.others

    def only_preferred(self) -> "Choices":
        """Return the choices without the hints that are not preferred."""
        return replace(self, others=frozenset(), any_flags=self.any_flags & {True})

    def within(self, full: int) -> set[int]:
        """Return the nodes of the machine that each hint leaves."""
        masks = {mask & full for mask in self.preferred}
        masks.update(mask & full for mask in self.others)
        if self.any_flags:
            masks.add(full)
        return masks

    def narrowest(self) -> int:
        """Return the number of nodes of the smallest mask; 0 where there is none."""
        return min(map(int.bit_count, (*self.preferred, *self.others)), default=0)

    def origin(self, mask: int, *, preferred: bool) -> HintOrigin:
        """Return the hint with this flag that has this mask; where there is none, the one for any node."""
        nodes = mask if mask in self.flagged(preferred) else None
        return HintOrigin(self.provider, self.resource, Hint(nodes, preferred))

    def origin_within(self, mask: int, full: int) -> HintOrigin:
        """Return a hint that leaves this mask of the machine's nodes: a preferred one, without others if there is one.

        ``mask`` is one of ``within(full)``.
        """
        for flag in (True, False):
            fitting = {offered for offered in self.flagged(flag) if offered & full == mask}
            if fitting:
                return HintOrigin(self.provider, self.resource, Hint(min(fitting), flag))
            if mask == full and flag in self.any_flags:
                return HintOrigin(self.provider, self.resource, Hint(None, flag))
        raise AssertionError(f"{mask:b} is none of the masks of {self.resource}")


def choices_of(offers: Sequence[Offers]) -> Iterator[Choices]:
    """Yield the choices of every resource of every provider."""
    for provider, offered in enumerate(offers):
        for resource, hints in (offered or {NO_RESOURCE: None}).items():
            known = (ANY_PREFERRED,) if hints is None else hints or (ANY_OTHER,)
            some = [hint for hint in known if hint.nodes is not None]
            preferred = frozenset([hint.nodes or 0 for hint in some if hint.preferred])
            others = frozenset([hint.nodes or 0 for hint in some if not hint.preferred])
            any_flags = frozenset([hint.preferred for hint in known if hint.nodes is None])
            yield Choices(provider, resource, preferred, others, any_flags)


CLOSEST_POLICIES: Final = ("best-effort", "restricted")
"""The policies that ``prefer-closest-numa-nodes`` changes."""

Distances = Sequence[Sequence[int]]


@dataclass(frozen=True, slots=True)
class MaskOrder:
    """The order on a machine whose nodes are ``full``; ``distances`` where closer nodes go first, else None."""

    full: int
    distances: Distances | None = None

    def rank(self, mask: int) -> tuple[int, int]:
        """Return the key among masks of the same number of nodes, least first."""
        return (0 if self.distances is None else distance_within(mask, self.distances)), mask

    def best(self, masks: Iterable[int]) -> int:
        """Return the one of fewest nodes, then of the lowest rank; 0 for no masks."""
        known = set(masks)
        size = min(map(int.bit_count, known), default=0)
        return self.best_of_size(known, size)

    def best_of_size(self, masks: Iterable[int], size: int) -> int:
        """Return the one of the lowest rank among those of this number of nodes; 0 where there is none."""
        fitting = [mask for mask in masks if mask.bit_count() == size]
        return min(fitting, default=0) if self.distances is None else min(fitting, key=self.rank, default=0)


Rule = Callable[[Sequence[Choices], MaskOrder], Merged]


def by_wanted_size(size: int, wanted: int) -> tuple[bool, int]:
    """Return the order of sizes where nothing is preferred: the wanted one, then smaller ones, then larger ones.

    >>> sorted(range(1, 6), key=lambda size: by_wanted_size(size, 3))
    [3, 2, 1, 4, 5]
    """
    return size > wanted, abs(size - wanted)


def distance_within(mask: int, distances: Distances) -> int:
    """Return the sum over all ordered pairs of nodes in the set, each node with itself included.

    For sets of the same size it has the order of the kubelet's average.
    """
    nodes = tuple(NodeSet(mask))
    return sum(distances[a][b] for a in nodes for b in nodes)


def merge(offers: Sequence[Offers], nodes: Nodes, policy: str, options: MergeOptions | None = None) -> Merged:
    """Return what a policy makes of the hints of all providers.

    Raises UnknownPolicyError and PolicyOptionsError; on machines of more than 16 nodes TooManyHintsError.
    """
    if policy not in POLICIES:
        raise UnknownPolicyError(policy, POLICIES)
    options = options or MergeOptions()
    _check(options, nodes, policy)
    if policy == "none":
        return Merged(None, preferred=False, admit=True)
    # The kubelet leaves prefer-closest-numa-nodes out of single-numa-node, and 2019 had no such option.
    is_by_distance = options.prefer_closest_numa_nodes and policy in CLOSEST_POLICIES
    order = MaskOrder(nodes.mask, nodes.distances if is_by_distance else None)
    return _RULES[policy](tuple(choices_of(offers)), order)


def _check(options: MergeOptions, nodes: Nodes, policy: str) -> None:
    count, most = nodes.mask.bit_count(), options.max_allowable_numa_nodes
    if most is not None and most < KUBELET_NODES:
        raise PolicyOptionsError("max-allowable-numa-nodes", str(most), f"give a number from {KUBELET_NODES}")
    if most is not None and count > most and policy != "none":
        raise PolicyOptionsError("max-allowable-numa-nodes", str(most), f"the machine has {count} NUMA nodes")
    if not options.prefer_closest_numa_nodes or policy not in CLOSEST_POLICIES:
        return
    side = nodes.mask.bit_length()
    if nodes.distances is None:
        raise PolicyOptionsError("prefer-closest-numa-nodes", "true", "the distances between nodes are not known")
    if len(nodes.distances) < side or any(len(row) < side for row in nodes.distances):
        raise PolicyOptionsError("distances", f"{len(nodes.distances)} rows", f"give {side} rows of {side} numbers")


def _equal(choices: Sequence[Choices], full: int, *, preferred: bool) -> dict[int, int]:
    """Return the masks that hints with this flag of all resources agree on; a hint for any node agrees with each.

    The keys are without nodes beyond the machine, the values with them.
    """
    bound = [c.flagged(preferred) for c in choices if preferred not in c.any_flags]
    if bound:
        common: frozenset[int] = frozenset.intersection(*sorted(bound, key=len))
    else:
        common = frozenset((full,)).union(*(c.flagged(preferred) for c in choices))
    return {mask & full: mask for mask in sorted(common, reverse=True)}


def _agreed(choices: Sequence[Choices], affinity: int, offered: int, *, preferred: bool) -> Merged:
    """Return the result in which every resource has a hint of this offered mask, or one for any node."""
    rests_on = tuple(c.origin(offered, preferred=preferred) for c in choices)
    return Merged(affinity, preferred, admit=True, rests_on=rests_on)


def _best_effort(choices: Sequence[Choices], order: MaskOrder) -> Merged:
    """Prefer what all agree on, on the fewest nodes; else take an overlap as wide as the widest resource needs."""
    full = order.full
    equal = _equal(choices, full, preferred=True)
    equal.pop(0, None)
    if equal:
        best = order.best(equal)
        return _agreed(choices, best, equal[best], preferred=True)
    reach = Reach([c.within(full) for c in choices], full)
    overlaps = reach.masks - {0}
    if not overlaps:
        return Merged(full, preferred=False, admit=True)
    wanted = max(c.narrowest() for c in choices)
    size = min(set(map(int.bit_count, overlaps)), key=lambda size: by_wanted_size(size, wanted))
    best = order.best_of_size(overlaps, size)
    return Merged(best, preferred=False, admit=True, rests_on=_parts(reach, choices, best, full))


def _parts(reach: Reach, choices: Sequence[Choices], target: int, full: int) -> tuple[HintOrigin, ...]:
    """Return hints of each resource whose overlap is the target."""
    parts = reach.combination(target, lambda i, mask: (mask not in choices[i].preferred, mask.bit_count(), mask))
    return tuple(c.origin_within(mask, full) for c, mask in zip(choices, parts, strict=True))


def _single_numa_node(choices: Sequence[Choices], order: MaskOrder) -> Merged:
    """Keep the preferred hints for a single node or for any; the full mask becomes no affinity, as in the kubelet."""
    on_one = [frozenset(mask for mask in c.preferred if mask.bit_count() == 1) for c in choices]
    single = [replace(c.only_preferred(), preferred=masks) for c, masks in zip(choices, on_one, strict=True)]
    equal = _equal(single, order.full, preferred=True)
    equal.pop(0, None)
    if not equal:
        return Merged(None, preferred=False, admit=False)
    best = order.best(equal)
    merged = _agreed(single, best, equal[best], preferred=True)
    return replace(merged, affinity=None) if best == order.full else merged


def _narrow(mask: int) -> tuple[bool, int, int]:
    """Return the order of 2019: at least one node, then few nodes, then low ones."""
    return mask == 0, mask.bit_count(), mask


def _best_effort_2019(choices: Sequence[Choices], order: MaskOrder) -> Merged:
    """Take the narrowest overlap of preferred hints, be it empty; else that of any hints."""
    full = order.full
    preferred = [c.only_preferred() for c in choices]
    if all(c.preferred or c.any_flags for c in preferred):
        reach = Reach([c.within(full) for c in preferred], full)
        best = min(reach.masks, key=_narrow)
        return Merged(best, preferred=True, admit=True, rests_on=_parts(reach, preferred, best, full))
    reach = Reach([c.within(full) for c in choices], full)
    best = min(reach.masks, key=_narrow)
    if not best:  # the rule starts from no affinity, and an empty overlap is no better
        return Merged(None, preferred=False, admit=True)
    return Merged(best, preferred=False, admit=True, rests_on=_parts(reach, choices, best, full))


def _agreement(choices: Sequence[Choices], order: MaskOrder, flags: tuple[bool, ...]) -> Merged:
    """Admit what all agree on with hints of the first of these flags for which there is something."""
    for flag in flags:
        equal = _equal(choices, order.full, preferred=flag)
        if equal:
            best = min(equal, key=_narrow)
            return _agreed(choices, best, equal[best], preferred=flag)
    return Merged(None, preferred=False, admit=False, has_hint=False)


def _if_preferred(rule: Rule, choices: Sequence[Choices], order: MaskOrder) -> Merged:
    """Admit a preferred result of this rule alone."""
    merged = rule(choices, order)
    return replace(merged, admit=merged.preferred)


_RULES: Final[dict[str, Rule]] = {
    "best-effort": _best_effort,
    "restricted": partial(_if_preferred, _best_effort),
    "single-numa-node": _single_numa_node,
    "best-effort-2019": _best_effort_2019,
    "strict-2019": partial(_if_preferred, _best_effort_2019),
    "proposed-strict": partial(_agreement, flags=(True,)),
    "equal-only": partial(_agreement, flags=(True, False)),
}
POLICIES: Final = ("none", *_RULES)
"""The policies of ``merge``: today's of the kubelet, then those of 2019."""
