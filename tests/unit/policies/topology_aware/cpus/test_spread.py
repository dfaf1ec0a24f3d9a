import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from policies.hardware.domains import Domain
from policies.topology_aware.cpus.domain_choice import Leaf, Unbeaten
from policies.topology_aware.cpus.picker import CandidateCpus, pick_cpus
from policies.topology_aware.cpus.spread import MOST_TRIED, Spread, domains_of, fewest_domains
from policies.topology_aware.cpus.tallies import Tallies, tallies_of
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Cache, Machine
from tests.fakes.machines import machines
from tests.unit.policies.build import tree_of

PLENTY = 1 << 20
IN_A_ROW = [[10, 21, 31, 41], [21, 10, 21, 31], [31, 21, 10, 21], [41, 31, 21, 10]]


def spilled(description: dict[str, object], count: int, used: str) -> str:
    """Pick CPUs of the whole machine, of which those in ``used`` are not free."""
    machine = describe(description)
    tree = tree_of(machine)
    candidates = CandidateCpus(tree, (machine.online - CpuSet.parse(used)).mask, [PLENTY] * len(tree.pools))
    return str(CpuSet(pick_cpus(candidates, tree.root, count)))


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [
        pytest.param(4, "0,4", "2-3,6-7", id="whole cores of two nodes before threads of broken ones"),
        pytest.param(5, "0,4", "1-3,6-7", id="the odd thread is on a core that is shared already"),
        pytest.param(6, "0,4", "1-3,5-7", id="broken cores where there is nothing else"),
    ],
)
def test_what_spills_to_another_node_is_on_whole_cores_first(count: int, used: str, expected: str) -> None:
    assert spilled({"packages": 2, "cores": 2, "threads": 2}, count, used) == expected


def test_two_nodes_that_suffice_are_taken_instead_of_the_largest_and_two_more() -> None:
    four_nodes: dict[str, object] = {"packages": 2, "nodes": 2, "cores": 4}
    assert spilled(four_nodes, 6, "3,7,8,12-13") == "0-2,4-6"


def test_near_sockets_are_taken_where_far_ones_give_as_much() -> None:
    row: dict[str, object] = {"packages": 4, "cores": 4, "distances": IN_A_ROW}
    assert spilled(row, 6, "3,7,10-11,15") == "0-2,4-6"
    assert spilled(row, 6, "3,6-7,11,15") == "8-10,12-14"


@pytest.mark.parametrize(
    ("count", "used", "reserved", "expected"),
    [
        pytest.param(4, "0,4", "", "2-3,6-7", id="owned siblings"),
        pytest.param(4, "", "0,4", "2-3,6-7", id="reserved siblings"),
        pytest.param(5, "1", "0,4", "2-3,5-7", id="the thread beside a reserved one where there is nothing else"),
    ],
)
def test_a_domain_with_a_reserved_or_owned_sibling_in_it_is_not_idle(
    count: int, used: str, reserved: str, expected: str
) -> None:
    machine = describe({"packages": 2, "cores": 2, "threads": 2})
    tree = tree_of(machine, reserved)
    free = (machine.online - CpuSet.parse(used) - CpuSet.parse(reserved)).mask
    assert str(CpuSet(pick_cpus(CandidateCpus(tree, free, [PLENTY] * len(tree.pools)), tree.root, count))) == expected


def test_clusters_around_an_l2_cache_give_whole_cores_before_single_threads() -> None:
    plain = describe({"cores": 4, "threads": 2})
    machine = replace(plain, caches=(Cache(2, CpuSet.parse("0-3")), Cache(2, CpuSet.parse("4-7"), index=1)))
    tree = tree_of(machine)
    free = CpuSet.parse("1-3,5-7").mask
    found = pick_cpus(CandidateCpus(tree, free, [PLENTY] * len(tree.pools)), tree.root, 4)
    assert str(CpuSet(found)) == "2-3,6-7"


@settings(max_examples=60)
@given(machines(max_packages=2, max_cpus=24), st.randoms(use_true_random=False))
def test_no_choice_of_cpus_costs_less(machine: Machine, rng: random.Random) -> None:
    """Against every set of leaves, on machines of a few; siblings of reserved CPUs are given last."""
    reserved = CpuSet.of(cpu for cpu in machine.online if rng.random() < rng.choice((0, 0.2)))
    assume(reserved != machine.online)
    tree = tree_of(machine, str(reserved))
    free = sum(1 << cpu for cpu in machine.online - reserved if rng.random() < 0.7)
    limits = [rng.randrange(p.cpus.bit_count() // 2, p.cpus.bit_count() + 1) for p in tree.pools]
    top = tree.domains.root
    tallies = tallies_of(tree, top, tree.root, free, limits)
    spread = Spread(machine, tallies, top, 0)
    assume(len(spread.leaves) <= 6)
    for count in range(1, tallies.give[top.index] + 1):
        cost = spread.least(count)
        assert cost is not None
        assert cost == min(brute(spread, tallies, top, count))
        assert sum(share for _, share in spread.shares(count)) == count


def brute(spread: Spread, tallies: Tallies, top: Domain, count: int) -> Iterator[tuple[int, ...]]:
    for size in range(1, len(spread.leaves) + 1):
        for chosen in combinations(spread.leaves, size):
            total, whole, loose = given_by(chosen, tallies, top)
            if total >= count:
                domains = len({leaf.package for leaf in chosen}), len({leaf.node for leaf in chosen}), size
                used = min(count, whole) // tallies.threads * tallies.threads
                siblings = 0 if count - used <= loose else 1 if whole > used else 2
                yield *domains, count - used, siblings


def given_by(chosen: tuple[Leaf, ...], tallies: Tallies, domain: Domain) -> tuple[int, int, int]:
    """What the leaves give together, domain by domain from below: all, on whole cores, beside owned CPUs."""
    if any(leaf.domain is domain for leaf in chosen):
        total, whole, loose = tallies.give[domain.index], tallies.whole[domain.index], tallies.loose[domain.index]
    else:
        inner = [given_by(chosen, tallies, child) for child in domain.children]
        total, whole, loose = (sum(given[i] for given in inner) for i in range(3))
    limit = tallies.give[domain.index]
    return min(total, limit), min(whole, limit - limit % tallies.threads), min(loose, limit)


@pytest.mark.parametrize(
    ("reserved", "free", "count"),
    [
        pytest.param("10", "1-2,8,11", 2, id="two threads"),
        pytest.param("13", "0-2,4,8-10,12", 4, id="two threads beside a whole core"),
    ],
)
def test_odd_threads_are_all_beside_owned_cpus_where_a_node_has_as_many(reserved: str, free: str, count: int) -> None:
    machine = describe({"nodes": 2, "cores": 4, "threads": 2})
    tree = tree_of(machine, reserved)
    limits = [PLENTY] * len(tree.pools)
    tallies = tallies_of(tree, tree.domains.root, tree.root, CpuSet.parse(free).mask, limits)
    cost = Spread(machine, tallies, tree.domains.root, 0).least(count)
    assert cost is not None
    assert (cost.nodes, cost.siblings) == (1, 0)


HUNDREDS: dict[str, object] = {
    "packages": 2,
    "nodes": 16,
    "cores": 16,
    "threads": 2,
    "l3": [f"{n * 4}-{n * 4 + 3}" for n in range(256)],
}


def counted(description: dict[str, object], seed: int) -> Spread:
    machine = describe(dict(description))
    tree = tree_of(machine)
    rng = random.Random(seed)
    free = sum(1 << cpu for cpu in machine.online if rng.random() < 0.8)
    tallies = tallies_of(tree, tree.domains.root, tree.root, free, [PLENTY] * len(tree.pools))
    return Spread(machine, tallies, tree.domains.root, 0)


@pytest.mark.parametrize("count", [5, 40, 500, 700])
def test_on_a_machine_of_hundreds_of_caches_the_search_ends(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted in looks at what leaves give together: each choice that is compared has one."""
    looks = 0
    look = Spread._given_by

    def counting(self: Spread, chosen: int) -> tuple[int, int, int]:
        nonlocal looks
        looks += 1
        return look(self, chosen)

    monkeypatch.setattr(Spread, "_given_by", counting)
    spread = counted(HUNDREDS, count)
    assert sum(share for _, share in spread.shares(count)) == count
    assert looks <= MOST_TRIED + 4 * len(spread.leaves)


@pytest.mark.parametrize(
    "description",
    [
        {"packages": 8, "nodes": 4, "cores": 8, "threads": 2},
        {"packages": 2, "nodes": 4, "cores": 12, "threads": 2, "l3": [f"{n * 8}-{n * 8 + 7}" for n in range(24)]},
    ],
)
def test_on_machines_of_today_the_search_is_exact(description: dict[str, object]) -> None:
    spread = counted(description, 1)
    for count in range(10, 200, 10):
        bound = spread._choice(spread._simple(count))[:3]
        search = Unbeaten(spread.leaves, spread._tallies, count, bound, frozenset())
        search.of(spread._top)
        assert not search.are_too_many, count


def test_where_every_domain_is_needed_no_choice_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last CPUs of a machine are asked for by the pod that is meant to fill it."""
    spread = counted({"packages": 8, "nodes": 4, "cores": 8, "threads": 2}, 1)
    monkeypatch.delattr(Unbeaten, "of")
    total = spread._all.given[0]
    assert {domain.index for domain, _ in spread.shares(total)} == {leaf.index for leaf in spread.leaves}
    with pytest.raises(AttributeError):
        spread.shares(total // 2)


def test_domains_of_cpus_are_counted_and_are_one_each_at_least() -> None:
    machine = describe({"packages": 2, "nodes": 2, "cores": 4, "l3": [f"{n * 2}-{n * 2 + 1}" for n in range(8)]})
    root = tree_of(machine).domains.root
    assert domains_of(root, CpuSet.parse("0-2").mask) == (1, 1, 2)
    assert domains_of(root, CpuSet.parse("0,4,15").mask) == (2, 3, 3)
    assert domains_of(root, 0) == (1, 1, 1)


def test_no_cpus_are_on_fewer_domains_than_the_largest_ones() -> None:
    machine = describe({"packages": 2, "nodes": 2, "cores": 4, "l3": [f"{n * 2}-{n * 2 + 1}" for n in range(8)]})
    root = tree_of(machine).domains.root
    free = CpuSet.parse("1-7,12-14").mask
    bounds = [fewest_domains(root, free, count) for count in (1, 2, 3, 5, 8, 10)]
    assert bounds == [(1, 1, 1), (1, 1, 1), (1, 1, 2), (1, 2, 3), (2, 3, 4), (2, 3, 6)]


def test_a_single_thread_is_on_a_domain_with_a_broken_core_before_one_that_would_have_to_break_one() -> None:
    machine = describe({"cores": 4, "threads": 2, "l3": ["0-3", "4-7"]})
    tree = tree_of(machine)
    free = CpuSet.parse("0-1,4,6").mask
    tallies = tallies_of(tree, tree.domains.root, tree.root, free, [PLENTY] * len(tree.pools))
    spread = Spread(machine, tallies, tree.domains.root, 0)
    assert [(str(CpuSet(domain.cpus)), count) for domain, count in spread.shares(1)] == [("4-7", 1)]
