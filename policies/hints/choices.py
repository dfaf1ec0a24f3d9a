"""Offer a resource's hints to a merge, as sets of masks: every resource counts as if it were a provider of its own."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from policies.hints.model import NO_RESOURCE, Hint, HintOrigin, Offers

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
            yield Choices(
                provider,
                resource,
                frozenset([hint.nodes or 0 for hint in some if hint.preferred]),
                frozenset([hint.nodes or 0 for hint in some if not hint.preferred]),
                frozenset([hint.preferred for hint in known if hint.nodes is None]),
            )
