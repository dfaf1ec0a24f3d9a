"""Choose the cache domains for CPUs that no single domain can give: over what each can give, not over CPUs. Pure.

In this order: fewest packages, NUMA nodes, cache domains, threads on cores shared with others; nodes near each other;
no idle core broken; little left over. Domains in which the container has CPUs cost nothing and come first. It is exact
up to a number of steps, which machines of today stay below; beyond, the largest domains are taken.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, combinations, takewhile
from typing import Final, NamedTuple

from policies.hardware.domains import Domain, Level
from policies.topology_aware.cpus.tallies import Cost, Tallies, siblings_cost
from sysfs.model import Machine

MOST_UNIONS: Final = 4000
"""Unions of two choices in the search for the least cost: some three milliseconds."""
MOST_TRIED: Final = 200
"""Leaves tried in the search for equal choices on nearer nodes: some milliseconds too."""


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


class _Option(NamedTuple):
    """A choice of leaves, as a mask of their places: the domains that it adds, and what it can give."""

    packages: int
    nodes: int
    caches: int
    total: int
    whole: int
    loose: int
    leaves: int


_NOTHING: Final = _Option(0, 0, 0, 0, 0, 0, 0)


class Spread:
    """The leaves below one domain, and what each domain can give."""

    def __init__(self, machine: Machine, tallies: Tallies, top: Domain, near: int) -> None:
        """``near``: CPUs whose domains cost nothing."""
        self._machine = machine
        self._tallies = tallies
        self._top = top
        self._near = near
        self._near_domains = frozenset(_domains_with(top, near)) if near else frozenset[int]()
        lowest = Level.L3 if inner_domains(top, Level.L3) else Level.L2
        self.leaves = tuple(self._leaves_in(top, lowest, (), (top.index, top.index, -1)))
        self.is_exact = True  # the last search; it was ended early otherwise

    def _leaves_in(
        self, domain: Domain, lowest: Level, path: tuple[int, ...], homes: tuple[int, int, int]
    ) -> Iterator[Leaf]:
        if not self._tallies.give[domain.index]:
            return
        path, (package, node, node_id) = (domain.index, *path), homes
        if domain.level is Level.PACKAGE:
            package = domain.index
        elif domain.level is Level.NODE:
            node, node_id = domain.index, domain.id
        inner = inner_domains(domain, lowest)
        for child in inner:
            yield from self._leaves_in(child, lowest, path, (package, node, node_id))
        if not inner:
            is_idle = not domain.cpus & ~self._tallies.free
            yield Leaf(domain, path, package, node, node_id, bool(domain.cpus & self._near), is_idle)

    def least(self, count: int) -> Cost | None:
        """Return the least cost of ``count`` CPUs; None if there are fewer."""
        best = self._best(count)
        return None if best is None else self._cost(best, count)

    def shares(self, count: int) -> list[tuple[Domain, int]]:
        """Return the chosen leaves with the number of CPUs to take from each; [] if there are too few."""
        best = self._best(count)
        return [] if best is None else self._shared_out(self._nearest(best, count), count)

    def _best(self, count: int) -> _Option | None:
        if self._given_by(range(len(self.leaves)))[0] < count:
            return None
        simple = self._option(self._simple(count))
        unions = _Unions(self.leaves, self._tallies, count, simple[:3], self._near_domains)
        found = unions.of(self._top)
        self.is_exact = not unions.are_too_many
        enough = [option for option in found if option.total >= count]
        best = simple if unions.are_too_many else min(enough, key=lambda o: self._cost(o, count), default=simple)
        # Where the container is already CPUs cost nothing: as many as can be come from there.
        return self._option(places(best.leaves | sum(1 << i for i, leaf in enumerate(self.leaves) if leaf.is_near)))

    def _simple(self, count: int) -> Sequence[int]:
        """Return enough leaves: of the packages that give most, the nodes that give most, of these the leaves."""
        chosen: Sequence[int] = range(len(self.leaves))
        for field in ("package", "node", "index"):
            groups: dict[int, list[int]] = {}
            for i in chosen:
                groups.setdefault(getattr(self.leaves[i], field), []).append(i)
            chosen = self._largest(list(groups.values()), count)
        return chosen

    def _largest(self, groups: list[list[int]], count: int) -> list[int]:
        """Return the leaves of the largest groups that give enough together."""
        groups.sort(key=lambda g: (not any(self.leaves[i].is_near for i in g), -self._given_by(g)[0], g))
        chosen: list[int] = []
        for group in groups:
            chosen += group
            if self._given_by(chosen)[0] >= count:
                break
        return sorted(chosen)

    def _option(self, chosen: Sequence[int]) -> _Option:
        return _Option(*self._added(chosen), *self._given_by(chosen), sum(1 << i for i in chosen))

    def _added(self, chosen: Iterable[int]) -> tuple[int, int, int]:
        """Return how many packages, nodes and leaves these add to those that the container is in."""
        far = [self.leaves[i] for i in chosen if not self.leaves[i].is_near]
        packages = {leaf.package for leaf in far} - self._near_domains
        return len(packages), len({leaf.node for leaf in far} - self._near_domains), len(far)

    def _given_by(self, chosen: Iterable[int]) -> tuple[int, int, int]:
        """Return what these leaves can give together, as ``Tallies.of``, within the limits of what holds them."""
        held = {index for i in chosen for index in self.leaves[i].path}
        ends = {self.leaves[i].index for i in chosen}

        def visit(domain: Domain) -> tuple[int, int, int]:
            if domain.index in ends:
                return self._tallies.of(domain)
            inner = [visit(child) for child in domain.children if child.index in held]
            return self._tallies.within(domain, *(sum(given) for given in zip(*inner, strict=True)))

        return visit(self._top) if held else (0, 0, 0)

    def _cost(self, option: _Option, count: int) -> Cost:
        return Cost(*option[:3], *siblings_cost(count, option.whole, option.loose, self._tallies.threads))

    def _nearest(self, best: _Option, count: int) -> tuple[int, ...]:
        """Return leaves that cost as little as ``best``: on nodes near each other, then with little left over."""
        cost = self._cost(best, count)

        def key(option: _Option) -> tuple[int, int, int, int, tuple[int, ...]]:
            chosen = places(option.leaves)
            return *self._distance(chosen), self._siblings(option, count), option.total, chosen

        found = key(best)
        for chosen in self._of_size(best, count):
            option = self._option(chosen)
            if option.total >= count and self._cost(option, count)[:4] <= cost[:4]:
                found = min(found, key(option))
        return found[-1]

    def _of_size(self, best: _Option, count: int) -> Iterator[tuple[int, ...]]:
        """Yield choices of as many leaves that add no more domains than ``best``, until the steps are used up."""
        give = [self._tallies.give[leaf.index] for leaf in self.leaves]
        size, steps = best.leaves.bit_count(), 0

        def extended(chosen: tuple[int, ...], total: int) -> Iterator[tuple[int, ...]]:
            nonlocal steps
            start, missing = chosen[-1] + 1 if chosen else 0, size - len(chosen)
            if not missing:
                yield chosen
            elif total + sum(sorted(give[start:])[-missing:]) >= count:
                for i in range(start, len(give) - missing + 1):
                    steps += 1
                    if steps > MOST_TRIED:
                        return
                    added = self._added((*chosen, i))
                    if all(a <= b for a, b in zip(added, best, strict=False)):
                        yield from extended((*chosen, i), total + give[i])

        yield from extended((), 0)

    def _distance(self, chosen: Iterable[int]) -> tuple[int, int]:
        """Return the sum of the distances between the nodes of these leaves and near CPUs, and of pairs of CPUs."""
        cpus = dict(self._near_nodes)
        for leaf in (self.leaves[i] for i in chosen):
            cpus[leaf.node_id] = cpus.get(leaf.node_id, 0) + self._tallies.give[leaf.index]
        pairs = [(self._distances[a, b], cpus[a] * cpus[b]) for a, b in combinations(sorted(cpus), 2) if a >= 0]
        return sum(distance for distance, _ in pairs), sum(distance * weight for distance, weight in pairs)

    @cached_property
    def _near_nodes(self) -> dict[int, int]:
        """How many of the near CPUs are in each node that has some."""
        nodes = self._machine.nodes if self._near else ()
        return {n.id: count for n in nodes if (count := (n.cpus.mask & self._near).bit_count())}

    @cached_property
    def _distances(self) -> dict[tuple[int, int], int]:
        nodes = {leaf.node_id for leaf in self.leaves} | self._near_nodes.keys()
        return {(a.id, b): d for a in self._machine.nodes if a.id in nodes for b, d in a.distances if b in nodes}

    def _shared_out(self, chosen: Sequence[int], count: int) -> list[tuple[Domain, int]]:
        """Return how many CPUs each of these leaves gives: whole cores first, then single threads.

        What is left over stays together in one leaf as far as that goes.
        """
        order = sorted(chosen, key=self._fullest)
        whole = min(self._given_by(chosen)[1], count) // self._tallies.threads * self._tallies.threads
        shares = self._beside_owned(order, count, whole) or self._shares_with(order, count, whole, None)
        return [(self.leaves[i].domain, share) for i, share in shares.items() if share]

    def _siblings(self, option: _Option, count: int) -> int:
        """Return ``Cost.siblings``, with regard to a leaf that gives a single thread only in place of a whole core."""
        strangers, siblings = self._cost(option, count)[3:]
        if not strangers or siblings:
            return siblings
        order = sorted(places(option.leaves), key=self._fullest)
        return int(not self._beside_owned(order, count, count - strangers))

    def _beside_owned(self, order: Sequence[int], count: int, whole: int) -> dict[int, int]:
        """Return shares of which one begins with a single thread of a broken core; empty if whole cores lack then."""
        broken = (i for i in order if whole < count and self._of(i)[2])
        return next(filter(None, (self._shares_with(order, count, whole, first) for first in broken)), {})

    def _shares_with(self, order: Sequence[int], count: int, whole: int, first: int | None) -> dict[int, int]:
        """Return the shares where one leaf gives a single thread first; empty if the whole cores do not fit then.

        Single threads come from broken cores, then from idle ones, and last from those of reserved CPUs.
        """
        shares = dict.fromkeys(sorted(order), 0)
        room = {domain: self._tallies.give[domain] for i in order for domain in self.leaves[i].path}

        def give(i: int, most: int, step: int) -> int:
            most = max(0, min(most, *(room[domain] for domain in self.leaves[i].path)))
            given = most - most % step
            shares[i] += given
            for domain in self.leaves[i].path:
                room[domain] -= given
            return given

        if first is not None:
            give(first, 1, 1)
        on_whole = dict.fromkeys(order, 0)
        for i in order:
            on_whole[i] = give(i, min(self._of(i)[1], whole), self._tallies.threads)
            whole -= on_whole[i]
        wanted = count - sum(shares.values())
        given = {i: self._of(i) for i in order}
        for most in (
            {i: on_whole[i] + loose for i, (_, _, loose) in given.items()},  # beside owned CPUs
            {i: on_cores + loose for i, (_, on_cores, loose) in given.items()},  # idle cores are broken
            {i: total for i, (total, _, _) in given.items()},  # beside reserved CPUs
        ):
            for i in order:
                wanted -= give(i, min(most[i] - shares[i], wanted), 1)
        return {} if whole or wanted else shares

    def _of(self, i: int) -> tuple[int, int, int]:
        return self._tallies.of(self.leaves[i].domain)

    def _fullest(self, i: int) -> tuple[int, ...]:
        leaf, (total, whole, _) = self.leaves[i], self._of(i)
        return -int(leaf.is_near), -int(leaf.is_idle), -whole, -total, i


class _Unions:
    """The choices of leaves without those that are worse than another that adds the same domains."""

    def __init__(
        self, leaves: Sequence[Leaf], tallies: Tallies, count: int, bound: tuple[int, ...], near: frozenset[int]
    ) -> None:
        """``bound``: the domains that some choice adds that gives enough. ``near``: those that cost nothing."""
        self._places = {leaf.index: i for i, leaf in enumerate(leaves)}
        self._packages = {leaf.package for leaf in leaves}
        self._nodes = {leaf.node for leaf in leaves}
        self._near = near
        self._tallies = tallies
        self._most = count, count - count % tallies.threads, max(1, tallies.threads - 1)
        self._bound = bound
        self._left = MOST_UNIONS
        self.are_too_many = False

    def of(self, domain: Domain) -> list[_Option]:
        """Return the choices below this domain, the empty one first."""
        far = int(domain.index not in self._near)
        place = self._places.get(domain.index)
        if place is not None:
            options = [_NOTHING, _Option(0, 0, far, *self._tallies.of(domain), 1 << place)]
        else:
            options = [_NOTHING]
            for child in domain.children:
                if self._tallies.give[child.index]:
                    options = self._joined(options, self.of(child))
        package, node = far * (domain.index in self._packages), far * (domain.index in self._nodes)
        return [_NOTHING, *(self._bounded(domain, option, package, node) for option in options if option.leaves)]

    def _bounded(self, domain: Domain, option: _Option, package: int, node: int) -> _Option:
        """Return the choice with its domain added, and no more than that can give or the request needs."""
        given = self._tallies.within(domain, option.total, option.whole, option.loose)
        total, whole, loose = (min(pair) for pair in zip(given, self._most, strict=True))
        return option._replace(
            packages=option.packages + package, nodes=option.nodes + node, total=total, whole=whole, loose=loose
        )

    def _joined(self, some: Sequence[_Option], others: Sequence[_Option]) -> list[_Option]:
        """Return every union of two choices but those that give no more than another that adds the same domains."""
        kept: dict[tuple[int, ...], list[_Option]] = {}
        for a in some:
            if self._left < len(others):
                self.are_too_many = True
                return [_NOTHING]
            self._left -= len(others)
            for b in others:
                domains = a[0] + b[0], a[1] + b[1], a[2] + b[2]
                if domains > self._bound:
                    continue
                union = _Option(*domains, a[3] + b[3], a[4] + b[4], a[5] + b[5], a[6] | b[6])
                rivals = kept.setdefault(domains, [])
                if any(r[3] >= union[3] and r[4] >= union[4] and r[5] >= union[5] for r in rivals):
                    continue
                rivals[:] = [r for r in rivals if r[3] > union[3] or r[4] > union[4] or r[5] > union[5]]
                rivals.append(union)
        return [option for rivals in kept.values() for option in rivals]


def inner_domains(domain: Domain, lowest: Level) -> tuple[Domain, ...]:
    """Return what lies in this domain if some of that are domains down to this level; an L2 cache of one core is not.

    Single CPUs beside them are among it.
    """
    found = (c.level <= lowest and (c.level < Level.L2 or len(c.children) > 1) for c in domain.children)
    return domain.children if any(found) else ()


def _domains_with(domain: Domain, cpus: int) -> Iterator[int]:
    """Yield the indexes of the domains from this one down that have any of these CPUs."""
    if domain.cpus & cpus:
        yield domain.index
        for child in domain.children:
            yield from _domains_with(child, cpus)


def domains_of(top: Domain, cpus: int) -> tuple[int, int, int]:
    """Return on how many packages, NUMA nodes and cache domains these CPUs are, at least one of each."""
    packages = nodes = caches = 0

    def visit(domain: Domain) -> None:
        nonlocal packages, nodes, caches
        if not domain.cpus & cpus:
            return
        packages += domain.level is Level.PACKAGE
        nodes += domain.level is Level.NODE
        inner = inner_domains(domain, Level.L3)
        caches += not inner
        for child in inner:
            visit(child)

    visit(top)
    return max(1, packages), max(1, nodes), max(1, caches)


def fewest_domains(top: Domain, free: int, count: int) -> tuple[int, int, int]:
    """Return a lower bound of ``domains_of`` for so many of the free CPUs: the largest domains that give enough."""
    packages: list[int] = []
    nodes: list[int] = []
    caches: list[int] = []

    def visit(domain: Domain) -> None:
        here, inner = (domain.cpus & free).bit_count(), inner_domains(domain, Level.L3)
        if domain.level is Level.PACKAGE:
            packages.append(here)
        elif domain.level is Level.NODE:
            nodes.append(here)
        if not inner:
            caches.append(here)
        for child in inner:
            visit(child)

    visit(top)
    return _largest_needed(packages, count), _largest_needed(nodes, count), _largest_needed(caches, count)


def _largest_needed(sizes: list[int], count: int) -> int:
    totals = accumulate(sorted(sizes, reverse=True))
    return 1 + sum(1 for _ in takewhile(lambda total: total < count, totals))


def places(mask: int) -> tuple[int, ...]:
    """Return the positions of the bits that are set."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
