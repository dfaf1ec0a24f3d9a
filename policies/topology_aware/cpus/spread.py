"""Choose the cache domains for CPUs that no single domain can give: over what each can give, not over CPUs. Pure.

In this order: fewest packages, NUMA nodes, cache domains, threads on cores shared with others; nodes near each other;
no idle core broken; little left over. Domains in which the container has CPUs cost nothing and come first. It is exact
up to a number of steps, which machines of today stay below; beyond, the largest domains are taken.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, combinations, takewhile
from typing import Final, NamedTuple

from policies.hardware.domains import Domain, Level
from policies.topology_aware.cpus.domain_choice import Choice, Leaf, Unbeaten
from policies.topology_aware.cpus.tallies import Cost, Tallies, siblings_cost
from sysfs.model import Machine

MOST_TRIED: Final = 200
"""Leaves tried in the search for equal choices on nearer nodes: some milliseconds too."""


class _Holder(NamedTuple):
    """A domain with leaves: the mask of their places, what holds them in here, and what all of them give together."""

    domain: Domain
    leaves: int
    inner: tuple["_Holder", ...]
    given: tuple[int, int, int]


class Spread:
    """The leaves below one domain, and what each domain can give."""

    def __init__(self, machine: Machine, tallies: Tallies, top: Domain, near: int) -> None:
        """``near``: CPUs whose domains cost nothing."""
        self._machine = machine
        self._tallies = tallies
        self._top = top
        self._near = near
        self._near_domains = frozenset(_domains_with(top, near)) if near else frozenset[int]()
        # Inside of one L3 cache, L2 clusters of several cores are the caches to stay within.
        lowest = Level.L3 if inner_domains(top, Level.L3) else Level.L2
        leaves: list[Leaf] = []
        self._all = self._held_in(leaves, top, lowest, (), (top.index, top.index, -1))
        self.leaves = tuple(leaves)

    def _held_in(
        self, leaves: list[Leaf], domain: Domain, lowest: Level, path: tuple[int, ...], homes: tuple[int, int, int]
    ) -> _Holder:
        """Add the leaves in this domain that give CPUs."""
        path, (package, node, node_id) = (domain.index, *path), homes
        if domain.level is Level.PACKAGE:
            package = domain.index
        elif domain.level is Level.NODE:
            node, node_id = domain.index, domain.id
        first, give = len(leaves), self._tallies.give
        children = inner_domains(domain, lowest)
        if not children and give[domain.index]:
            is_idle = not domain.cpus & ~self._tallies.free
            leaves.append(Leaf(domain, path, package, node, node_id, bool(domain.cpus & self._near), is_idle))
            return _Holder(domain, 1 << first, (), self._tallies.of(domain))
        giving = [child for child in children if give[child.index]]
        inner = tuple(self._held_in(leaves, child, lowest, path, (package, node, node_id)) for child in giving)
        return _Holder(domain, (1 << len(leaves)) - (1 << first), inner, self._together(domain, inner))

    def _together(self, domain: Domain, inner: Iterable[_Holder]) -> tuple[int, int, int]:
        """Return what these give together within the limit of the domain that holds them."""
        return self._tallies.within(domain, *(sum(n) for n in zip((0, 0, 0), *(h.given for h in inner), strict=True)))

    def least(self, count: int) -> Cost | None:
        """Return the least cost of ``count`` CPUs; None if there are fewer."""
        best = self._best(count)
        return None if best is None else self._cost(best, count)

    def shares(self, count: int) -> list[tuple[Domain, int]]:
        """Return the chosen leaves with the number of CPUs to take from each; [] if there are too few."""
        best = self._best(count)
        return [] if best is None else self._shared_out(self._nearest(best, count), count)

    def _best(self, count: int) -> Choice | None:
        total, gives = self._all.given[0], [self._tallies.give[leaf.index] for leaf in self.leaves]
        if total < count:
            return None
        if sum(gives) - min(gives, default=0) < count:  # without any leaf there are too few
            return self._choice(self._all.leaves)
        odd = max(1, self._tallies.threads - 1)  # the rest of a core
        best = self._unbeaten(self._choice(self._simple(count)), count, odd)
        strangers, siblings = self._cost(best, count)[3:]
        if siblings and strangers > odd:
            # Rare: whole cores are short, and some threads are beside reserved CPUs. Another choice may avoid these.
            best = self._unbeaten(best, count, strangers)
        # Where the container is already CPUs cost nothing: as many as can be come from there.
        return self._choice(best.leaves | self._near_leaves)

    def _unbeaten(self, known: Choice, count: int, odd: int) -> Choice:
        """Return the choice of least cost, with so many threads beside owned CPUs counted; else the ``known`` one."""
        search = Unbeaten(self.leaves, self._tallies, count, known[:3], self._near_domains, odd)
        found = search.of(self._top)
        # What a choice gives was cut to what the search needs: its cost is that of all that it gives.
        enough = [self._choice(choice.leaves) for choice in found if choice.total >= count]
        return known if search.are_too_many else min(enough, key=lambda c: self._cost(c, count), default=known)

    def _simple(self, count: int) -> int:
        """Return enough leaves: of the packages that give most, the nodes that give most, of these the leaves."""
        chosen = self._all.leaves
        for field in ("package", "node", "index"):
            groups: dict[int, int] = {}
            for i in places(chosen):
                holder = getattr(self.leaves[i], field)
                groups[holder] = groups.get(holder, 0) | 1 << i
            chosen = self._largest(groups.values(), count)
        return chosen

    def _largest(self, groups: Iterable[int], count: int) -> int:
        """Return the leaves of the largest groups that give enough together."""
        sizes = [(not group & self._near_leaves, -self._given_by(group)[0], places(group), group) for group in groups]
        chosen, most = 0, 0
        for _, size, _, group in sorted(sizes):
            chosen |= group
            most -= size
            if most >= count and self._given_by(chosen)[0] >= count:
                break
        return chosen

    def _choice(self, chosen: int) -> Choice:
        return Choice(*self._added(chosen), *self._given_by(chosen), chosen)

    def _added(self, chosen: int) -> tuple[int, int, int]:
        """Return how many packages, nodes and leaves these add to those that the container is in."""
        packages, nodes, far = self._far
        far &= chosen
        return sum(1 for p in packages if p & far), sum(1 for n in nodes if n & far), far.bit_count()

    @cached_property
    def _near_leaves(self) -> int:
        return sum(1 << i for i, leaf in enumerate(self.leaves) if leaf.is_near)

    @cached_property
    def _far(self) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """The far leaves in each package and in each node that the container is not in, and all of them."""
        far = self._all.leaves & ~self._near_leaves
        packages: dict[int, int] = {}
        nodes: dict[int, int] = {}
        for i in places(far):
            leaf = self.leaves[i]
            for masks, domain in ((packages, leaf.package), (nodes, leaf.node)):
                if domain not in self._near_domains:
                    masks[domain] = masks.get(domain, 0) | 1 << i
        return tuple(packages.values()), tuple(nodes.values()), far

    def _given_by(self, chosen: int) -> tuple[int, int, int]:
        """Return what these leaves can give together, as ``Tallies.of``, within the limits of what holds them."""

        def given(holder: _Holder) -> tuple[int, int, int]:
            if not holder.leaves & ~chosen:
                return holder.given
            total = whole = loose = 0
            for inner in holder.inner:
                if inner.leaves & chosen:
                    more = given(inner)
                    total, whole, loose = total + more[0], whole + more[1], loose + more[2]
            return self._tallies.within(holder.domain, total, whole, loose)

        return given(self._all)

    def _cost(self, choice: Choice, count: int) -> Cost:
        return Cost(*choice[:3], *siblings_cost(count, choice.whole, choice.loose, self._tallies.threads))

    def _nearest(self, best: Choice, count: int) -> tuple[int, ...]:
        """Return leaves that cost as little as ``best``: on nodes near each other, then with little left over."""
        cost = self._cost(best, count)

        def key(choice: Choice) -> tuple[int, int, int, int, tuple[int, ...]]:
            chosen = places(choice.leaves)
            return *self._distance(chosen), self._siblings(choice, count), choice.total, chosen

        found = key(best)
        for chosen in self._of_size(best, count):
            choice = self._choice(chosen)
            # The kind of siblings is in the key, which also sees what a single leaf can give.
            if choice.total >= count and self._cost(choice, count)[:4] <= cost[:4]:
                found = min(found, key(choice))
        return found[-1]

    def _of_size(self, best: Choice, count: int) -> Iterator[int]:
        """Yield choices of as many leaves that add no more domains than ``best``, until the steps are used up."""
        give = [self._tallies.give[leaf.index] for leaf in self.leaves]
        size, steps = best.leaves.bit_count(), 0

        def extended(chosen: int, total: int) -> Iterator[int]:
            nonlocal steps
            start, missing = chosen.bit_length(), size - chosen.bit_count()
            if not missing:
                yield chosen
            # Not even the largest of those to come would be enough.
            elif total + sum(sorted(give[start:])[-missing:]) >= count:
                for i in range(start, len(give) - missing + 1):
                    steps += 1
                    if steps > MOST_TRIED:
                        return
                    added = self._added(chosen | 1 << i)
                    if all(a <= b for a, b in zip(added, best, strict=False)):
                        yield from extended(chosen | 1 << i, total + give[i])

        yield from extended(0, 0)

    def _distance(self, chosen: Iterable[int]) -> tuple[int, int]:
        """Return the sum of the distances between the nodes of these leaves and near CPUs, and of pairs of CPUs."""
        cpus = dict(self._near_nodes)
        for leaf in (self.leaves[i] for i in chosen):
            cpus[leaf.node_id] = cpus.get(leaf.node_id, 0) + self._tallies.give[leaf.index]
        # Node -1 is none of the machine's: no distance from it is known.
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
        threads, (_, on_cores, _) = self._tallies.threads, self._given_by(sum(1 << i for i in chosen))
        whole = min(on_cores, count) // threads * threads
        # Limits of wider domains may leave no room for as many whole cores beside the rest.
        fewer = range(whole, -1, -threads)
        ways = (self._beside_owned(order, count, n) or self._shares_with(order, count, n, None) for n in fewer)
        shares = next(filter(None, ways), {})
        return [(self.leaves[i].domain, share) for i, share in shares.items() if share]

    def _siblings(self, choice: Choice, count: int) -> int:
        """Return ``Cost.siblings``, with regard to a leaf that gives a single thread only in place of a whole core."""
        strangers, siblings = self._cost(choice, count)[3:]
        if not strangers or siblings:
            return siblings
        order = sorted(places(choice.leaves), key=self._fullest)
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


def _sizes(top: Domain, cpus: int) -> tuple[list[int], list[int], list[int]]:
    """Return how many of these CPUs are in each package, NUMA node and cache domain that has some."""
    packages: list[int] = []
    nodes: list[int] = []
    caches: list[int] = []

    def visit(domain: Domain) -> None:
        here, inner = (domain.cpus & cpus).bit_count(), inner_domains(domain, Level.L3)
        if not here:
            return
        if domain.level is Level.PACKAGE:
            packages.append(here)
        elif domain.level is Level.NODE:
            nodes.append(here)
        if not inner:
            caches.append(here)
        for child in inner:
            visit(child)

    visit(top)
    return packages, nodes, caches


def domains_of(top: Domain, cpus: int) -> tuple[int, int, int]:
    """Return on how many packages, NUMA nodes and cache domains these CPUs are, at least one of each."""
    packages, nodes, caches = (max(1, len(sizes)) for sizes in _sizes(top, cpus))
    return packages, nodes, caches


def fewest_domains(top: Domain, free: int, count: int) -> tuple[int, int, int]:
    """Return a lower bound of ``domains_of`` for so many of the free CPUs: the largest domains that give enough."""
    packages, nodes, caches = (_largest_needed(sizes, count) for sizes in _sizes(top, free))
    return packages, nodes, caches


def _largest_needed(sizes: list[int], count: int) -> int:
    totals = accumulate(sorted(sizes, reverse=True))
    return 1 + sum(1 for _ in takewhile(lambda total: total < count, totals))


def places(mask: int) -> tuple[int, ...]:
    """Return the positions of the bits that are set."""
    return tuple(i for i in range(mask.bit_length()) if mask >> i & 1)
