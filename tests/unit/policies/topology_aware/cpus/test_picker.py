import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.preferences import CpuPriority
from policies.topology_aware.cpus.picker import CandidateCpus, pick_cpus, priority_fits, within_limits
from sysfs.cpuset import CpuSet
from sysfs.discover import discover_tree
from sysfs.model import Machine
from tests.fakes.machines import machines, small_machine
from tests.golden.machines.captures import LAPTOP, others
from tests.unit.policies.build import four_nodes, tree_of

PLENTY = 1 << 20


def taken(machine: Machine, count: int, *, used: str = "", pool: str = "root", **keys: object) -> str:
    tree = tree_of(machine)
    free = machine.online - CpuSet.parse(used)
    near = CpuSet.parse(str(keys.pop("near", ""))).mask
    candidates = CandidateCpus(tree, free.mask, [PLENTY] * len(tree.pools), near, **keys)  # type: ignore[arg-type]  # its fields
    return str(CpuSet(pick_cpus(candidates, tree.named(pool), count)))


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, "0"), (2, "0-1"), (3, "0-2"), (4, "0-3"), (5, "0-4"), (8, "0-7"), (12, "0-11"), (16, "0-15")],
)
def test_an_idle_machine_is_taken_from_the_lowest_domain_that_suffices(count: int, expected: str) -> None:
    assert taken(four_nodes(), count) == expected


@pytest.mark.parametrize(
    ("count", "used", "expected"),
    [
        pytest.param(1, "10", "11", id="a single thread goes to a broken core"),
        pytest.param(2, "0,2", "4-5", id="whole cores go before threads of broken ones"),
        pytest.param(3, "4", "5-7", id="an odd number ends on a broken core"),
        pytest.param(2, "8-9", "10-11", id="the smallest sufficient remainder is used up first"),
        pytest.param(4, "0-1,6-7", "8-11", id="a whole idle node goes before parts of two"),
        pytest.param(8, "0", "8-15", id="a whole idle package goes before parts of two"),
        pytest.param(6, "0-3", "8-13", id="what needs several nodes stays in one package"),
        pytest.param(6, "0-1,8-15", "2-7", id="what no node gives alone takes idle nodes whole and the rest tightly"),
    ],
)
def test_the_tightest_fit_is_taken_that_breaks_up_the_least(count: int, used: str, expected: str) -> None:
    assert taken(four_nodes(), count, used=used) == expected


def test_a_node_with_a_broken_core_takes_the_odd_one_rather_than_a_tighter_one_breaking_another() -> None:
    assert taken(small_machine(packages=1, nodes=2), 1, used="2-3,6") == "7"


def test_a_smaller_remainder_counts_more_than_one_without_whole_cores() -> None:
    assert taken(small_machine(packages=1, nodes=2, cores=4), 2, used="2,4,6,12-15") == "8-9"
    assert taken(small_machine(packages=1, nodes=2, cores=6), 3, used="2,4,6,8,10,16,18-23") == "12-13,17"


def test_what_no_domain_gives_alone_begins_near_what_is_held() -> None:
    assert taken(four_nodes(), 5, used="4,8-15", near="4") == "0-1,5-7"


def test_smaller_cores_serve_the_rest_where_whole_ones_are_wanted() -> None:
    assert taken(small_machine(packages=1, cores=4, offline="5,7"), 3, whole=True) == "0-1,4"


def test_the_limit_of_the_pool_itself_is_for_its_callers() -> None:
    tree = tree_of(four_nodes())
    node = tree.named("NUMA node #0")
    limits = [1 if pool is node else PLENTY for pool in tree.pools]
    assert pick_cpus(CandidateCpus(tree, node.cpus, limits), node, 2) == 0b11
    assert pick_cpus(CandidateCpus(tree, node.cpus, limits), tree.root, 2) == 0


def test_whole_cores_count_more_than_a_tighter_fit() -> None:
    assert taken(small_machine(packages=1, nodes=2, cores=4), 3, used="0,2,4,6,8,10-11") == "9,12-13"


def test_an_idle_node_is_taken_whole_before_a_larger_part_of_another() -> None:
    machine = small_machine(packages=1, nodes=2, cores=4, offline="4-7")
    assert taken(machine, 9, used="15") == "0-3,8-11,14"


def test_split_numbering_takes_both_threads_of_a_core() -> None:
    assert taken(small_machine(numbering="split"), 2) == "0,4"


def test_l3_domains_are_filled_one_by_one() -> None:
    machine = small_machine(packages=1, cores=6, threads=1, l3=["0-2", "3-5"])
    assert taken(machine, 2, used="0") == "1-2"
    assert taken(machine, 3, used="0") == "3-5"


@pytest.mark.parametrize(("count", "expected"), [(2, "0-1"), (4, "0-3"), (3, "0-2"), (6, "0-5"), (8, "0-7")])
def test_performance_cores_are_taken_first_and_kinds_are_mixed_only_if_they_must(count: int, expected: str) -> None:
    assert taken(small_machine(packages=1, cores=8, threads=1, efficiency="4-7"), count) == expected


def test_efficiency_cores_serve_alone_what_they_can_and_the_others_cannot() -> None:
    assert taken(small_machine(packages=1, cores=8, threads=1, efficiency="4-7"), 3, used="0-1") == "4-6"


def test_more_goes_near_what_is_held() -> None:
    assert taken(four_nodes(), 1, used="4,12", near="12") == "13"
    assert taken(four_nodes(), 3, used="12", near="12") == "13-15"


def test_only_cpus_of_the_pool_are_taken() -> None:
    assert taken(four_nodes(), 4, pool="NUMA node #3") == "12-15"


def test_a_pool_that_has_too_few_gives_none() -> None:
    assert taken(four_nodes(), 4, pool="NUMA node #3", used="15") == ""


def test_no_pool_below_gives_more_than_its_limit() -> None:
    tree = tree_of(four_nodes())
    limits = [PLENTY] * len(tree.pools)
    limits[tree.named("NUMA node #0").index] = 3
    limits[tree.named("NUMA node #2").index] = 1
    found = CpuSet(pick_cpus(CandidateCpus(tree, tree.root.sharable, limits), tree.root, 12))
    assert [len(found & CpuSet(tree.named(f"NUMA node #{n}").cpus)) for n in range(4)] == [3, 4, 1, 4]


def test_limits_hold_for_given_cpus_too() -> None:
    tree = tree_of(four_nodes())
    limits = [2] * len(tree.pools)
    assert within_limits(tree, tree.root, CpuSet.parse("0-1,8").mask, limits)
    assert not within_limits(tree, tree.root, CpuSet.parse("0-1,4").mask, limits)


@pytest.mark.parametrize(
    ("machine", "count", "used", "expected"),
    [
        (four_nodes(), 8, "1,4,12", "8-11"),  # package 1 is less broken, its idle node goes first
        (small_machine(dies=2, nodes=2), 4, "0,8-11", "12-15"),
        (small_machine(dies=2, nodes=2), 8, "0,17", "8-15"),
        (small_machine(packages=1, cores=8, threads=1, l3=["0-3", "4-7"]), 4, "0", "4-7"),
        (small_machine(packages=1, cores=8, threads=1, l3=["0-3", "4-7"]), 5, "0", "1,4-7"),
    ],
)
def test_inside_upper_pools_dies_nodes_and_caches_count(machine: Machine, count: int, used: str, expected: str) -> None:
    found = CpuSet.parse(taken(machine, count, used=used))
    assert CpuSet.parse(expected) <= found
    assert len(found) == count


@pytest.mark.parametrize(("count", "used", "expected"), [(2, "0", "2-3"), (4, "1,4", "8-11"), (12, "0", "4-15")])
def test_whole_cores_leave_broken_ones_alone(count: int, used: str, expected: str) -> None:
    assert taken(four_nodes(), count, used=used, whole=True) == expected


def test_whole_cores_are_all_or_nothing() -> None:
    broken = "0,2,4,6,8,10"
    assert taken(four_nodes(), 4, used=broken, whole=True) == "12-15"
    assert taken(four_nodes(), 6, used=broken, whole=True) == ""
    assert taken(four_nodes(), 3, whole=True) == ""


def test_a_limit_never_breaks_a_core() -> None:
    tree = tree_of(four_nodes())
    limits = [PLENTY] * len(tree.pools)
    limits[tree.named("NUMA node #0").index] = 3
    found = CpuSet(pick_cpus(CandidateCpus(tree, tree.root.sharable, limits, whole=True), tree.root, 14))
    assert str(found) == "0-1,4-15"


def test_cores_of_one_thread_are_whole() -> None:
    laptop = small_machine(packages=1, cores=4, offline="5,7")
    assert taken(laptop, 4, whole=True) == "0-3"
    assert taken(laptop, 6, whole=True) == "0-4,6"
    assert taken(laptop, 2, used="0-3", whole=True) == "4,6"


def test_a_smaller_core_lies_beside_the_larger_ones_and_within_the_same_limit() -> None:
    assert taken(small_machine(cores=2, offline="3,7"), 3, used="0", whole=True) == "4-6"
    tree = tree_of(small_machine(packages=1, nodes=2, cores=2, offline="3"))
    limits = [PLENTY] * len(tree.pools)
    limits[tree.named("NUMA node #0").index] = 2
    assert pick_cpus(CandidateCpus(tree, tree.root.cpus, limits, whole=True), tree.root, 6)
    assert not pick_cpus(CandidateCpus(tree, tree.root.cpus, limits, whole=True), tree.root, 7)


HYBRID = small_machine(packages=1, cores=8, threads=1, efficiency="4-7")


@pytest.mark.parametrize(
    ("priority", "count", "used", "expected"),
    [
        (CpuPriority.LOW, 2, "", "4-5"),
        (CpuPriority.LOW, 3, "4-5", "0-2"),
        (CpuPriority.HIGH, 2, "0", "1-2"),
        (CpuPriority.HIGH, 2, "0-2", "4-5"),
        (CpuPriority.NORMAL, 1, "0-3", "4"),
        (CpuPriority.NONE, 8, "", "0-7"),
    ],
)
def test_cpus_of_the_preferred_priority_serve_a_request_alone_if_they_can(
    priority: CpuPriority, count: int, used: str, expected: str
) -> None:
    assert taken(HYBRID, count, used=used, priority=priority) == expected


@pytest.mark.parametrize(
    ("count", "used", "expected"), [(4, "", "8-11"), (4, "9", "12-15"), (1, "9", "8"), (2, "9-10", "8,11")]
)
def test_a_cluster_of_efficiency_cores_is_filled_before_the_next(count: int, used: str, expected: str) -> None:
    laptop = discover_tree(others(*LAPTOP))
    assert taken(laptop, count, used=used, priority=CpuPriority.LOW) == expected


@pytest.mark.parametrize(
    ("priority", "used", "expected"),
    [(CpuPriority.LOW, "", [1, 0]), (CpuPriority.LOW, "7", [0, 0]), (CpuPriority.NONE, "", [1, 1])],
)
def test_pools_that_can_serve_a_priority_are_told(priority: CpuPriority, used: str, expected: list[int]) -> None:
    tree = tree_of(small_machine(packages=2, cores=4, threads=1, efficiency="4-7"))
    free = tree.root.cpus & ~CpuSet.parse(used).mask
    fits = priority_fits(tree, free, 4, priority)
    assert [fits[tree.named(f"socket #{n}").index] for n in (1, 0)] == expected


@settings(max_examples=settings().max_examples // 3)
@given(machines(max_packages=2, max_cpus=32), st.randoms(use_true_random=False))
def test_what_is_picked_is_free_as_much_as_asked_and_within_the_limits(machine: Machine, rng: random.Random) -> None:
    tree = tree_of(machine)
    pool = rng.choice(tree.pools)
    free = sum(1 << cpu for cpu in machine.online if rng.random() < 0.8)
    limits = [rng.randrange(p.cpus.bit_count() + 1) for p in tree.pools]
    candidates = CandidateCpus(
        tree, free, limits, rng.getrandbits(48), rng.choice(list(CpuPriority)), whole=rng.random() < 0.5
    )
    count = rng.randint(1, pool.cpus.bit_count())
    found = pick_cpus(candidates, pool, count)
    if not found:
        assert candidates.whole or not pick_cpus(replace(candidates, priority=CpuPriority.NONE, near=0), pool, count)
        return
    assert found.bit_count() == count
    assert not found & ~(free & pool.cpus)
    assert within_limits(tree, pool, found, limits)
    if candidates.whole:
        assert all(core & found in (0, core) for core in (c.cpus.mask for c in machine.cores))


@settings(max_examples=settings().max_examples // 3)
@given(machines(max_packages=2, max_cpus=32), st.randoms(use_true_random=False))
def test_all_that_a_pool_has_can_be_picked(machine: Machine, rng: random.Random) -> None:
    tree = tree_of(machine)
    pool = rng.choice(tree.pools)
    free = pool.cpus & sum(1 << cpu for cpu in machine.online if rng.random() < 0.8)
    assert not free or pick_cpus(CandidateCpus(tree, free, [PLENTY] * len(tree.pools)), pool, free.bit_count()) == free


def test_a_die_gives_no_more_than_it_may_where_several_nodes_are_taken_from() -> None:
    """Two dies of two nodes of 4 CPUs; the first die keeps 7 of its 8 for those who share there."""
    machine = small_machine(packages=1, dies=2, nodes=2, cores=2, threads=2)
    tree = tree_of(machine)
    limits = [1 if pool.name == "die #0/0" else PLENTY for pool in tree.pools]
    cpus = pick_cpus(CandidateCpus(tree, machine.online.mask, limits), tree.root, 9)
    assert cpus.bit_count() == 9
    assert within_limits(tree, tree.root, cpus, limits)
