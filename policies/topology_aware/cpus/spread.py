"""Choose the cache domains for CPUs that no single domain can give, exactly: over what each can give, not over CPUs.

In this order: fewest packages, NUMA nodes, cache domains and threads on cores shared with others; nodes near each
other; the least that is left over. Domains in which the container has CPUs already cost nothing.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from typing import Final, NamedTuple

from policies.hardware.domains import Domain, Level
from sysfs.model import Machine

_MOST_CHOICES: Final = 300
"""Choices that cost equally little and are compared by distance and by what is left over: a millisecond or two."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A cache domain, or a node without several: the CPUs that it can give, those of them on wholly free cores."""

    domain: Domain
    package: int  # indexes of the domains that hold it
    node: int
    node_id: int  # the kernel's; -1 where a node is no domain
    total: int
    whole: int
    is_near: bool
    is_idle: bool


class Cost(NamedTuple):
    """What is compared first: domains that are used in addition to those that the container is in."""

    packages: int
    nodes: int
    caches: int
    strangers: int  # threads on cores that are shared with other containers


class _Option(NamedTuple):
    """A choice of leaves, as a mask of their places: the domains that it adds, and what it can give."""

    packages: int
    nodes: int
    caches: int
    total: int
    whole: int
    leaves: int


_NOTHING: Final = _Option(0, 0, 0, 0, 0, 0)


class Spread:
    """The leaves below one domain, and the limits of what holds them."""

    def __init__(self, machine: Machine, leaves: Sequence[Leaf], limits: Sequence[int], threads: int) -> None:
        """``limits``: what each domain can give, by index. ``threads``: of a whole core."""
        self._machine = machine
        self._leaves = leaves
        self._limits = limits
        self._threads = threads

    def least(self, count: int) -> Cost | None:
        """Return the least cost of ``count`` CPUs; None if there are fewer."""
        best = self._best(count)
        return None if best is None else self._cost(best, count)

    def shares(self, count: int) -> list[tuple[Domain, int]]:
        """Return the chosen leaves with the number of CPUs to take from each; [] if there are too few."""
        best = self._best(count)
        return [] if best is None else self._shared_out(self._nearest(best, count), count)

    def _nearest(self, best: _Option, count: int) -> tuple[int, ...]:
        """Return leaves that cost as little as ``best``: on nodes near each other, then with little left over."""
        present = tuple(i for i in range(len(self._leaves)) if best.leaves >> i & 1)
        strangers = self._strangers(best.whole, count)
        found = min(
            (
                (*self._distance(chosen), total, chosen)
                for chosen in islice(self._of_size(len(present), best), _MOST_CHOICES)
                for total, whole in (self.given_by(chosen),)
                if total >= count and self._strangers(whole, count) <= strangers
            ),
            default=(0, 0, 0, present),
        )
        return min(found, (*self._distance(present), best.total, present))[3]

    def _of_size(self, size: int, best: _Option) -> Iterator[tuple[int, ...]]:
        """Yield choices of so many leaves that add no more domains than ``best``."""
        for chosen in combinations(range(len(self._leaves)), size):
            leaves = [self._leaves[i] for i in chosen]
            if sum(not leaf.is_near for leaf in leaves) > best.caches:
                continue
            if len(self._added({leaf.node for leaf in leaves})) > best.nodes:
                continue
            if len(self._added({leaf.package for leaf in leaves})) <= best.packages:
                yield chosen

    def _added(self, domains: set[int]) -> set[int]:
        return domains - self._near_domains

    @cached_property
    def _near_domains(self) -> set[int]:
        return {domain for leaf in self._leaves if leaf.is_near for domain in (leaf.node, leaf.package)}

    def _distance(self, chosen: Iterable[int]) -> tuple[int, int]:
        """Return the sum of the distances between the nodes of these leaves, and between pairs of their CPUs."""
        cpus: dict[int, int] = {}
        for leaf in (self._leaves[i] for i in chosen):
            cpus[leaf.node_id] = cpus.get(leaf.node_id, 0) + leaf.total
        pairs = [(self._distances[a, b], cpus[a] * cpus[b]) for a, b in combinations(sorted(cpus), 2) if a >= 0]
        return sum(distance for distance, _ in pairs), sum(distance * weight for distance, weight in pairs)

    @cached_property
    def _distances(self) -> dict[tuple[int, int], int]:
        nodes = {leaf.node_id for leaf in self._leaves}
        return {(a.id, b): d for a in self._machine.nodes if a.id in nodes for b, d in a.distances if b in nodes}

    def _cost(self, option: _Option, count: int) -> Cost:
        return Cost(*option[:3], self._strangers(option.whole, count))

    def _strangers(self, whole: int, count: int) -> int:
        return count - min(whole, count - count % self._threads)

    def _best(self, count: int) -> _Option | None:
        enough = [option for option in self._options(range(len(self._leaves))) if option.total >= count]
        return min(enough, key=lambda option: self._cost(option, count), default=None)

    def _shared_out(self, chosen: Sequence[int], count: int) -> list[tuple[Domain, int]]:
        """Return how many CPUs each of these leaves gives: whole cores first, single threads from broken cores first.

        What is left over stays together in one leaf as far as that goes.
        """
        shares = dict.fromkeys(chosen, 0)
        room = {domain: self._limits[domain] for i in chosen for domain in self._holders(i)}

        def give(i: int, most: int, step: int) -> int:
            most = min(most, *(room[domain] for domain in self._holders(i)))
            given = max(0, most - most % step)
            shares[i] += given
            for domain in self._holders(i):
                room[domain] -= given
            return given

        wanted = count - self.strangers_of(chosen, count)
        for i in sorted(chosen, key=self._fullest):
            wanted -= give(i, min(self._leaves[i].whole, wanted), self._threads)
        wanted = count - sum(shares.values())
        for i in sorted(chosen, key=lambda i: (-self._broken(i), *self._fullest(i))):
            wanted -= give(i, min(self._leaves[i].total - shares[i], wanted), 1)
        return [] if wanted else [(self._leaves[i].domain, share) for i, share in shares.items() if share]

    def _fullest(self, i: int) -> tuple[int, ...]:
        leaf = self._leaves[i]
        return -int(leaf.is_near), -int(leaf.is_idle), -leaf.whole, -leaf.total, i

    def _broken(self, i: int) -> int:
        return min(1, self._leaves[i].total - self._leaves[i].whole)

    def _holders(self, i: int) -> tuple[int, ...]:
        leaf = self._leaves[i]
        return tuple({leaf.domain.index, leaf.node, leaf.package})

    def strangers_of(self, chosen: Iterable[int], count: int) -> int:
        """Return the fewest single threads among ``count`` CPUs of these leaves."""
        return self._strangers(self.given_by(chosen)[1], count)

    def given_by(self, chosen: Iterable[int]) -> tuple[int, int]:
        """Return how many CPUs these leaves can give together, and how many of them on wholly free cores."""
        nodes: dict[tuple[int, int], tuple[int, int]] = {}
        for i in chosen:
            leaf = self._leaves[i]
            total, whole = nodes.get((leaf.package, leaf.node), (0, 0))
            nodes[leaf.package, leaf.node] = total + leaf.total, whole + leaf.whole
        packages: dict[int, tuple[int, int]] = {}
        for (package, node), given in nodes.items():
            total, whole = self._within(node, *given)
            before = packages.get(package, (0, 0))
            packages[package] = before[0] + total, before[1] + whole
        bounded = [self._within(package, *given) for package, given in packages.items()]
        return sum(total for total, _ in bounded), sum(whole for _, whole in bounded)

    def _within(self, domain: int, total: int, whole: int) -> tuple[int, int]:
        limit = self._limits[domain]
        return min(total, limit), min(whole, limit - limit % self._threads)

    def _options(self, places: Iterable[int]) -> list[_Option]:
        """Return the choices among these leaves that are not worse than another that adds the same domains."""
        packages: dict[int, dict[int, list[int]]] = {}
        for i in places:
            leaf = self._leaves[i]
            packages.setdefault(leaf.package, {}).setdefault(leaf.node, []).append(i)
        total = [_NOTHING]
        for package, nodes in packages.items():
            inside = [_NOTHING]
            for node, leaves in nodes.items():
                inside = self._joined(inside, self._of_node(node, leaves))
            near = any(self._leaves[i].is_near for leaves in nodes.values() for i in leaves)
            total = self._joined(total, self._bounded(inside, package, _Option(int(not near), 0, 0, 0, 0, 0)))
        return total

    def _of_node(self, node: int, leaves: Sequence[int]) -> list[_Option]:
        options = [_NOTHING]
        for i in leaves:
            leaf = self._leaves[i]
            one = _Option(0, 0, int(not leaf.is_near), leaf.total, leaf.whole, 1 << i)
            options = self._joined(options, [_NOTHING, one])
        near = any(self._leaves[i].is_near for i in leaves)
        return self._bounded(options, node, _Option(0, int(not near), 0, 0, 0, 0))

    def _bounded(self, options: Iterable[_Option], domain: int, added: _Option) -> list[_Option]:
        """Return the options within the limit of their domain, which they add."""
        limit = self._limits[domain]
        whole = limit - limit % self._threads
        return [
            option
            if not option.leaves
            else _Option(
                option.packages + added.packages,
                option.nodes + added.nodes,
                option.caches,
                min(option.total, limit),
                min(option.whole, whole),
                option.leaves,
            )
            for option in options
        ]

    @staticmethod
    def _joined(some: Sequence[_Option], others: Sequence[_Option]) -> list[_Option]:
        """Return every union of two options but those that give no more than another that adds the same domains."""
        kept: dict[tuple[int, int, int], list[_Option]] = {}
        for a in some:
            for b in others:
                union = _Option(a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3], a[4] + b[4], a[5] | b[5])
                rivals = kept.setdefault(union[:3], [])
                if any(r.total >= union.total and r.whole >= union.whole for r in rivals):
                    continue
                rivals[:] = [r for r in rivals if r.total > union.total or r.whole > union.whole]
                rivals.append(union)
        return [option for rivals in kept.values() for option in rivals]


def leaves_below(top: Domain, give: Sequence[int], whole: Sequence[int], near: int, free: int) -> list[Leaf]:
    """Return the leaves below this domain that can give something. ``give`` and ``whole``: CPUs by domain index."""
    found: list[Leaf] = []

    def visit(domain: Domain, package: Domain, node: Domain) -> None:
        if not give[domain.index]:
            return
        package = domain if domain.level <= Level.PACKAGE else package
        node = domain if domain.level <= Level.NODE else node
        inner = [child for child in domain.children if child.level <= Level.L3]
        if inner and domain.level < Level.L3:
            for child in domain.children:
                visit(child, package, node)
            return
        i = domain.index
        found.append(
            Leaf(
                domain,
                package.index,
                node.index,
                node.id if node.level is Level.NODE else -1,
                give[i],
                min(whole[i], give[i]),
                bool(domain.cpus & near),
                not domain.cpus & ~free,
            )
        )

    visit(top, top, top)
    return found
