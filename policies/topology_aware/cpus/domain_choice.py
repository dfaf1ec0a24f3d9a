"""Search the choices of cache domains for those that none beats: that add as few domains and give as much. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from policies.hardware.domains import Domain
from policies.topology_aware.cpus.tallies import Tallies

MOST_UNIONS: Final = 4000
"""Unions of two choices in the search for the least cost: some three milliseconds."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A cache domain, or a node without several. ``path``: the indexes of the domains that hold it, itself first."""

    domain: Domain
    path: tuple[int, ...]
    package: int
    node: int
    node_id: int  # the kernel's; -1 where a node is no domain
    is_near: bool
    is_idle: bool

    @property
    def index(self) -> int:
        """The index of its domain."""
        return self.domain.index


class Choice(NamedTuple):
    """A choice of leaves, as a mask of their places: the domains that it adds, and what it can give."""

    packages: int
    nodes: int
    caches: int
    total: int
    whole: int
    loose: int
    leaves: int


NOTHING: Final = Choice(0, 0, 0, 0, 0, 0, 0)


class Unbeaten:
    """The choices of leaves without those that are worse than another that adds the same domains."""

    def __init__(
        self,
        leaves: Sequence[Leaf],
        tallies: Tallies,
        count: int,
        bound: tuple[int, ...],
        near: frozenset[int],
        odd: int = 1,
    ) -> None:
        """``bound``: the domains that some choice adds that gives enough. ``near``: those that cost nothing.

        ``odd``: how many threads beside owned CPUs are counted; choices that have more of them are equal in this.
        """
        self._places = {leaf.index: i for i, leaf in enumerate(leaves)}
        self._packages = {leaf.package for leaf in leaves}
        self._nodes = {leaf.node for leaf in leaves}
        self._near = near
        self._tallies = tallies
        # Whole cores one more than are taken whole: one that would be broken for the rest.
        self._most = count, count - count % tallies.threads + tallies.threads, odd
        self._bound = bound
        self._left = MOST_UNIONS
        self.are_too_many = False

    def of(self, domain: Domain) -> list[Choice]:
        """Return the choices below this domain, the empty one first."""
        far = int(domain.index not in self._near)
        place = self._places.get(domain.index)
        if place is not None:
            choices = [NOTHING, Choice(0, 0, far, *self._tallies.of(domain), 1 << place)]
        else:
            choices = [NOTHING]
            for child in domain.children:
                if self._tallies.give[child.index]:
                    choices = self._joined(choices, self.of(child))
        package, node = far * (domain.index in self._packages), far * (domain.index in self._nodes)
        return [NOTHING, *(self._bounded(domain, choice, package, node) for choice in choices if choice.leaves)]

    def _bounded(self, domain: Domain, choice: Choice, package: int, node: int) -> Choice:
        """Return the choice with its domain added, and no more than that can give or the request needs."""
        given = self._tallies.within(domain, choice.total, choice.whole, choice.loose)
        total, whole, loose = (min(pair) for pair in zip(given, self._most, strict=True))
        return choice._replace(
            packages=choice.packages + package, nodes=choice.nodes + node, total=total, whole=whole, loose=loose
        )

    def _joined(self, some: Sequence[Choice], others: Sequence[Choice]) -> list[Choice]:
        """Return every union of two choices but those that give no more than another that adds the same domains."""
        kept: dict[tuple[int, ...], list[Choice]] = {}
        for a in some:
            # Half a search would prefer what it saw first: the caller takes the largest domains instead.
            if self._left < len(others):
                self.are_too_many = True
                return [NOTHING]
            self._left -= len(others)
            for b in others:
                domains = a[0] + b[0], a[1] + b[1], a[2] + b[2]
                # More than a choice adds that is known to give enough.
                if domains > self._bound:
                    continue
                union = Choice(*domains, a[3] + b[3], a[4] + b[4], a[5] + b[5], a[6] | b[6])
                rivals = kept.setdefault(domains, [])
                if any(r[3] >= union[3] and r[4] >= union[4] and r[5] >= union[5] for r in rivals):
                    continue
                rivals[:] = [r for r in rivals if r[3] > union[3] or r[4] > union[4] or r[5] > union[5]]
                rivals.append(union)
        return [choice for rivals in kept.values() for choice in rivals]
