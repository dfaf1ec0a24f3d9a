"""Which CPUs are taken: packing, one rule each."""

import pytest

from policies.cores import whole_core_counts
from policies.cpus import Quarry, pick_cpus, within_limits
from sysfs.cpuset import CpuSet
from sysfs.model import Machine
from tests.fakes.machines import small_machine
from tests.unit.policies.build import four_nodes, tree_of

PLENTY = 1 << 20


def taken(machine: Machine, count: int, *, used: str = "", pool: str = "root", near: str = "") -> str:
    tree = tree_of(machine)
    free = machine.online - CpuSet.parse(used)
    quarry = Quarry(tree, free.mask, [PLENTY] * len(tree.pools), CpuSet.parse(near).mask)
    return str(CpuSet(pick_cpus(quarry, tree.named(pool), count)))


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, "0"), (2, "0-1"), (3, "0-2"), (4, "0-3"), (5, "0-4"), (8, "0-7"), (12, "0-11"), (16, "0-15")],
)
def test_an_idle_machine_is_taken_from_the_lowest_domain_that_suffices(count: int, expected: str) -> None:
    assert taken(four_nodes(), count) == expected


def test_a_single_thread_goes_to_a_broken_core() -> None:
    assert taken(four_nodes(), 1, used="10") == "11"


def test_whole_cores_go_before_threads_of_broken_ones() -> None:
    assert taken(four_nodes(), 2, used="0,2") == "4-5"


def test_an_odd_number_ends_on_a_broken_core() -> None:
    assert taken(four_nodes(), 3, used="4") == "5-7"


def test_a_node_with_a_broken_core_takes_the_odd_one_rather_than_a_tighter_one_breaking_another() -> None:
    assert taken(small_machine(packages=1, nodes=2), 1, used="2-3,6") == "7"


def test_whole_cores_count_more_than_a_tighter_fit() -> None:
    machine = small_machine(packages=1, nodes=2, cores=4)
    assert taken(machine, 3, used="0,2,4,6,8,10-11") == "9,12-13"


def test_the_smallest_sufficient_remainder_is_used_up_first() -> None:
    assert taken(four_nodes(), 2, used="8-9") == "10-11"


def test_a_whole_idle_node_goes_before_parts_of_two() -> None:
    assert taken(four_nodes(), 4, used="0-1,6-7") == "8-11"


def test_a_whole_idle_package_goes_before_parts_of_two() -> None:
    assert taken(four_nodes(), 8, used="0") == "8-15"


def test_what_needs_several_nodes_stays_in_one_package() -> None:
    assert taken(four_nodes(), 6, used="0-3") == "8-13"


def test_what_no_node_gives_alone_takes_idle_nodes_whole_and_the_rest_tightly() -> None:
    assert taken(four_nodes(), 6, used="0-1,8-15") == "2-7"


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
    found = CpuSet(pick_cpus(Quarry(tree, tree.root.sharable, limits), tree.root, 12))
    assert [len(found & CpuSet(tree.named(f"NUMA node #{n}").cpus)) for n in range(4)] == [3, 4, 1, 4]


def test_limits_hold_for_given_cpus_too() -> None:
    tree = tree_of(four_nodes())
    limits = [2] * len(tree.pools)
    assert within_limits(tree, tree.root, CpuSet.parse("0-1,8").mask, limits)
    assert not within_limits(tree, tree.root, CpuSet.parse("0-1,4").mask, limits)


@pytest.mark.parametrize(("count", "expected"), [(1, [0, 0]), (2, [2, 2]), (3, [2, 2]), (4, [2, 4])])
def test_whole_cores_are_counted_for_the_even_part(count: int, expected: list[int]) -> None:
    tree = tree_of(four_nodes())
    counts = whole_core_counts(tree, tree.root.sharable & ~1, count)
    assert [counts[tree.named(f"NUMA node #{n}").index] for n in (0, 1)] == expected
