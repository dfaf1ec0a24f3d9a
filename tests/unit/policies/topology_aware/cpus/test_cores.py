import pytest

from policies.topology_aware.cpus.cores import (
    completing,
    core_sizes,
    inner_on_cores,
    on_free_cores,
    siblings_costs,
    smallest_core,
)
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import four_nodes, tree_of

TREE = tree_of(four_nodes())
UNEVEN = tree_of(small_machine(packages=1, cores=4, offline="5,7"))


def mask(cpus: str) -> int:
    return CpuSet.parse(cpus).mask


def test_cores_with_a_thread_in_use_are_not_free() -> None:
    assert on_free_cores(TREE, mask("1-6")) == mask("2-5")


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(1, [(1, 0), (1, 1)], id="a broken core has a thread for the odd one"),
        pytest.param(2, [(0, 0), (0, 0)], id="a whole core"),
        pytest.param(3, [(1, 0), (1, 1)], id="the odd one beside a whole core"),
        pytest.param(4, [(2, 2), (0, 0)], id="more single threads than there are beside owned ones"),
    ],
)
def test_what_is_not_on_whole_cores_is_counted(count: int, expected: list[tuple[int, int]]) -> None:
    costs = siblings_costs(TREE, TREE.root.sharable & ~1, count)
    assert [costs[TREE.named(f"NUMA node #{n}").index] for n in (0, 1)] == expected


def test_the_sibling_of_a_reserved_cpu_counts_as_the_worst() -> None:
    tree = tree_of(four_nodes(), "0,4")
    costs = siblings_costs(tree, tree.root.sharable & ~mask("2-3"), 1)
    assert [costs[tree.named(f"NUMA node #{n}").index] for n in (0, 1)] == [(1, 2), (1, 1)]


def test_what_pools_below_may_give_is_rounded_down_to_cores() -> None:
    give = [4] * len(TREE.pools)
    give[TREE.named("NUMA node #0").index] = 3
    inner = inner_on_cores(TREE, on_free_cores(TREE, TREE.root.cpus & ~(1 << 4)), give)
    assert [inner[TREE.named(name).index] for name in ("NUMA node #0", "NUMA node #1", "socket #0")] == [4, 2, 4]


def test_a_smaller_core_elsewhere_does_not_count_where_cores_are_rounded_down() -> None:
    tree = tree_of(four_nodes(offline="13"))
    give = [4] * len(tree.pools)
    give[tree.named("NUMA node #0").index] = 3
    assert inner_on_cores(tree, tree.root.cpus, give)[tree.named("socket #0").index] == 2 + 4


def test_sizes_of_cores_come_largest_first() -> None:
    assert core_sizes(UNEVEN, mask("0-4,6")) == ((2, mask("0-3")), (1, mask("4,6")))
    assert (smallest_core(UNEVEN, mask("0-3")), smallest_core(UNEVEN, mask("0-4"))) == (2, 1)


@pytest.mark.parametrize(
    ("mine", "free", "count", "expected"),
    [("0,9", "1-8", 2, "1,8"), ("0,9", "1-8", 1, "1"), ("0", "2-9", 2, ""), ("0-1", "2-9", 2, "")],
)
def test_a_core_is_completed_only_if_the_rest_of_it_is_free(mine: str, free: str, count: int, expected: str) -> None:
    assert completing(TREE, mask(mine), mask(free), count) == mask(expected)


def test_a_core_with_a_thread_of_another_is_not_completed() -> None:
    tree = tree_of(small_machine(packages=1, threads=4))
    assert completing(tree, mask("0"), mask("1-2,4-7"), 8) == 0
    assert completing(tree, mask("0"), mask("1-7"), 8) == mask("1-3")
