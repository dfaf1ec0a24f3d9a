"""Choices of cache domains against every other choice, on machines of a few of them.

A search that forgets a criterion, or what the container has already, finds a choice here that is not the best one.
"""

import random
from collections.abc import Iterator
from itertools import combinations
from typing import Final

import pytest

from policies.hardware.domains import Domain
from policies.topology_aware.cpus import domain_choice, spread
from policies.topology_aware.cpus.domain_choice import Leaf
from policies.topology_aware.cpus.spread import Spread
from policies.topology_aware.cpus.tallies import tallies_of
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.unit.policies.build import tree_of

MOST_LEAVES: Final = 6
SEEDS: Final = (*range(30), 117, 119)  # the last ones have shown faults
Key = tuple[int, ...]


def random_machine(rng: random.Random) -> Machine:
    """Up to six nodes, at distances of their own, in up to three packages; some have two caches."""
    packages = rng.randint(1, 3)
    shape = {
        "packages": packages,
        "nodes": rng.randint(1, 6 // packages),
        "threads": rng.choice((1, 2, 2, 4)),
        "cores": 2,
    }
    nodes = packages * shape["nodes"]
    far = {pair: rng.choice((12, 16, 21, 32)) for pair in combinations(range(nodes), 2)}
    distances = [[10 if a == b else far[min(a, b), max(a, b)] for b in range(nodes)] for a in range(nodes)]
    if nodes <= MOST_LEAVES // 2 and rng.random() < 0.5:
        step, shape["cores"] = 2 * shape["threads"], 4
        return describe(
            {**shape, "distances": distances, "l3": [f"{i}-{i + step - 1}" for i in range(0, 2 * nodes * step, step)]}
        )
    return describe({**shape, "distances": distances})


class Case:
    """A machine of which some CPUs are free and some are the container's, with a limit in each pool."""

    def __init__(self, rng: random.Random) -> None:
        self.machine = random_machine(rng)
        tree = tree_of(self.machine)
        online = [*self.machine.online]
        self.near = sum(1 << cpu for cpu in rng.sample(online, rng.choice((0, 0, 1, 2))))
        free = sum(1 << cpu for cpu in online if rng.random() < 0.7) & ~self.near
        limits = [rng.randint(p.cpus.bit_count() // 2, p.cpus.bit_count()) for p in tree.pools]
        self.top = tree.domains.root
        self.domains = {domain.index: domain for domain in _below(self.top)}
        self.tallies = tallies_of(tree, self.top, tree.root, free, limits)
        self.spread = Spread(self.machine, self.tallies, self.top, self.near)
        self.own = frozenset(leaf for leaf in self.spread.leaves if leaf.domain.cpus & self.near)

    def choices(self) -> Iterator[frozenset[Leaf]]:
        """Every choice, each with the domains that the container is in: these cost nothing."""
        others = [leaf for leaf in self.spread.leaves if leaf not in self.own]
        for size in range(len(others) + 1):
            for some in combinations(others, size):
                yield self.own.union(some)

    def given_by(self, chosen: frozenset[Leaf], domain: Domain) -> Key:
        """What these give together: all, on whole cores, and odd threads, within the limit of each domain."""
        if any(leaf.domain is domain for leaf in chosen):
            return self.tallies.of(domain)
        inner = [self.given_by(chosen, child) for child in domain.children]
        total, whole, loose = (sum(given[i] for given in inner) for i in range(3))
        return self.tallies.within(domain, total, whole, loose)

    def cost(self, chosen: frozenset[Leaf], count: int) -> Key | None:
        """Packages, nodes and caches that are added, and what cores are shared; None where these are too few CPUs."""
        total, whole, loose = self.given_by(chosen, self.top)
        if total < count:
            return None
        far = chosen - self.own
        packages = {leaf.package for leaf in far if not self.domains[leaf.package].cpus & self.near}
        nodes = {leaf.node for leaf in far if not self.domains[leaf.node].cpus & self.near}
        threads = self.tallies.threads
        used = min(whole, count) // threads * threads
        kind = 0 if count - used <= loose else 1 if whole > used else 2
        return len(packages), len(nodes), len(far), count - used, kind

    def distance(self, chosen: frozenset[Leaf]) -> Key:
        """How far the nodes of these and of the container's CPUs are from each other: by pairs, and by their CPUs."""
        cpus = {n.id: has for n in self.machine.nodes if (has := (n.cpus.mask & self.near).bit_count())}
        for leaf in chosen:
            cpus[leaf.node_id] = cpus.get(leaf.node_id, 0) + self.tallies.give[leaf.index]
        by_id = {node.id: node for node in self.machine.nodes}
        pairs = [(by_id[a].distance_to(b), cpus[a] * cpus[b]) for a, b in combinations(sorted(cpus), 2) if a >= 0]
        return sum(far for far, _ in pairs), sum(far * weight for far, weight in pairs)


def _below(domain: Domain) -> Iterator[Domain]:
    yield domain
    for child in domain.children:
        yield from _below(child)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_choice_is_the_cheapest_then_the_nearest_then_the_one_that_leaves_least(seed: int) -> None:
    case = Case(random.Random(seed))
    top = case.tallies.give[case.top.index]
    for count in range(1, top + 1):
        costs = {chosen: cost for chosen in case.choices() if (cost := case.cost(chosen, count)) is not None}
        least = min(costs.values())
        found = case.spread.least(count)
        assert found is not None
        assert found == least
        shares = case.spread.shares(count)
        taken = frozenset(leaf for leaf in case.spread.leaves if any(leaf.domain is d for d, _ in shares)) | case.own
        assert costs[taken][:4] == least[:4]
        rivals = [chosen for chosen, cost in costs.items() if cost[:4] == least[:4]]
        assert case.distance(taken) == min(map(case.distance, rivals))
        if not least[3]:  # no thread on a shared core, so none breaks a core either
            nearest = [c for c in rivals if case.distance(c) == case.distance(taken)]
            assert case.given_by(taken, case.top)[0] == min(case.given_by(c, case.top)[0] for c in nearest)
    assert case.spread.least(top + 1) is None
    assert case.spread.shares(top + 1) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_shares_are_what_the_domains_have_and_on_as_many_whole_cores_as_there_are(seed: int) -> None:
    case = Case(random.Random(seed))
    threads = case.tallies.threads
    for count in range(1, case.tallies.give[case.top.index] + 1):
        shares = case.spread.shares(count)
        assert sum(share for _, share in shares) == count
        by_index = {domain.index: share for domain, share in shares}
        for domain in case.domains.values():
            assert sum(by_index.get(inner.index, 0) for inner in _below(domain)) <= case.tallies.give[domain.index]
        on_whole = [min(case.tallies.of(domain)[1], share) // threads * threads for domain, share in shares]
        least = case.spread.least(count)
        assert least is not None
        assert count - sum(on_whole) == least.strangers


def test_beyond_the_steps_the_domains_that_give_most_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that gives most has no whole core; an exact search would take less of it."""
    monkeypatch.setattr(domain_choice, "MOST_UNIONS", 3)
    monkeypatch.setattr(spread, "MOST_TRIED", 0)
    machine = describe({"packages": 1, "nodes": 4, "cores": 4, "threads": 2})
    tree = tree_of(machine)
    free = CpuSet.parse("0,2,4,6,8-10,16-18,24-25").mask
    tallies = tallies_of(tree, tree.domains.root, tree.root, free, [len(machine.online)] * len(tree.pools))
    assert {domain.id for domain, _ in Spread(machine, tallies, tree.domains.root, 0).shares(6)} == {0, 1}
