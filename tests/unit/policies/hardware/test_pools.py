from dataclasses import replace

import pytest

from policies.errors import PolicyOptionsError
from policies.hardware.pools import PoolTree, memory_at
from sysfs.assemble import assemble
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.fakes.machines import facts_of, renumber, small_machine, with_caches
from tests.unit.policies.build import four_nodes, tree_of


def names(tree: PoolTree) -> list[str]:
    return [p.name for p in tree.pools]


def mems(tree: PoolTree, name: str) -> str:
    return str(NodeSet(tree.named(name).mems))


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (small_machine(packages=1), ["root"]),
        (small_machine(), ["root", "socket #0", "socket #1"]),
        (small_machine(packages=1, nodes=2), ["root", "NUMA node #0", "NUMA node #1"]),
        (small_machine(packages=1, dies=2), ["root", "die #0/0", "die #0/1"]),
        (
            four_nodes(),
            ["root", "socket #0", "NUMA node #0", "NUMA node #1", "socket #1", "NUMA node #2", "NUMA node #3"],
        ),
    ],
)
def test_a_level_with_a_single_child_is_left_out(machine: Machine, expected: list[str]) -> None:
    assert names(tree_of(machine)) == expected


def test_all_levels_stand_below_each_other() -> None:
    tree = tree_of(small_machine(dies=2, nodes=2, cores=4, threads=1, l3=[f"{i}-{i + 1}" for i in range(0, 32, 2)]))
    deepest = tree.named("NUMA node #7/L3 #15")
    assert [tree.pools[i].name for i in deepest.path] == [
        "NUMA node #7/L3 #15",
        "NUMA node #7",
        "die #1/1",
        "socket #1",
        "root",
    ]
    assert tree.root.parent == -1


def test_a_subtree_is_a_range_of_pools() -> None:
    pools = tree_of(four_nodes()).pools
    for pool in pools:
        assert [one.index for one in pools if pool.index in one.path] == list(range(pool.index, pool.end))


def test_pool_names_use_the_kernels_node_numbers() -> None:
    sparse = renumber(small_machine(packages=1, nodes=2), {}, {0: 4, 1: 9})
    assert names(tree_of(sparse)) == ["root", "NUMA node #4", "NUMA node #9"]


@pytest.mark.parametrize(
    ("threads", "l3", "option", "count"),
    [
        (2, ["0-3", "4-7"], "auto", 2),  # two domains of two cores
        (2, ["0-1", "2-3", "4-5", "6-7"], "auto", 0),  # domains of one core say nothing that a core does not
        (2, ["0-1", "2-3", "4-5", "6-7"], "true", 4),
        (2, ["0-3", "4-7"], "false", 0),
        (2, ["0-7"], "true", 0),  # a single child
    ],
)
def test_l3_pools_are_made_where_they_mean_something(threads: int, l3: list[str], option: str, count: int) -> None:
    tree = tree_of(small_machine(packages=1, cores=4, threads=threads, l3=l3), l3_pools=option)
    assert [p.kind for p in tree.pools] == ["root"] + ["l3"] * count


def test_cpus_of_no_l3_domain_belong_to_the_pool_above_alone() -> None:
    tree = tree_of(small_machine(packages=1, cores=6, l3=["0-3", "4-7"]))
    assert names(tree) == ["root", "NUMA node #0/L3 #0", "NUMA node #0/L3 #1"]
    assert str(CpuSet(tree.root.loose)) == "8-11"


def test_cores_that_do_not_nest_are_none_to_own_as_a_whole() -> None:
    tree = tree_of(with_caches(small_machine(), 2, "0", "1-3", "4-5", "6-7"))
    assert [str(CpuSet(core)) for core in tree.cores] == ["4-5", "6-7"]


def test_l3_pools_are_named_by_their_node_even_when_it_is_no_pool() -> None:
    tree = tree_of(small_machine(cores=4, threads=1, l3=["0-1", "2-3", "4-5", "6-7"]))
    assert names(tree)[1:4] == ["socket #0", "NUMA node #0/L3 #0", "NUMA node #0/L3 #1"]


def test_l3_pools_are_named_by_the_pool_above_where_no_node_holds_their_cpus() -> None:
    facts = facts_of(small_machine(cores=4, threads=1, l3=["0-1", "2-3", "4-5", "6-7"]))
    without = [replace(node, cpus=CpuSet()) for node in facts.nodes]
    tree = tree_of(assemble(replace(facts, nodes=without)))
    assert names(tree)[1:4] == ["socket #0", "socket #0/L3 #0", "socket #0/L3 #1"]


def test_a_pool_has_the_memory_of_its_nodes_and_the_root_all() -> None:
    tree = tree_of(four_nodes())
    assert [mems(tree, n) for n in ("NUMA node #2", "socket #1", "root")] == ["2", "2-3", "0-3"]


def test_a_node_without_memory_keeps_its_pool_and_uses_its_parents_memory() -> None:
    tree = tree_of(four_nodes(memory=["2Gi", 0, "2Gi", "2Gi"]))
    assert mems(tree, "NUMA node #1") == "0"


def test_without_any_memory_no_pool_has_memory_nodes() -> None:
    assert {pool.mems for pool in tree_of(four_nodes(memory=0)).pools} == {0}


def test_memory_without_cpus_belongs_to_the_pools_of_its_closest_nodes() -> None:
    tree = tree_of(four_nodes(memory_nodes=[{"memory": "8Gi", "near": {3: 17}}]))
    found = [mems(tree, n) for n in ("NUMA node #2", "NUMA node #3", "socket #1", "socket #0", "root")]
    assert found == ["2", "3-4", "2-4", "0-1", "0-4"]


def test_pools_without_available_cpus_are_dropped_and_the_others_keep_their_names() -> None:
    tree = tree_of(four_nodes(), available=CpuSet.parse("9-10"))
    assert names(tree) == ["root", "socket #1", "NUMA node #2"]
    assert mems(tree, "NUMA node #2") == "2"
    assert {str(CpuSet(pool.cpus)) for pool in tree.pools} == {"9-10"}


def test_cpus_are_split_into_reserved_isolated_and_sharable_ones() -> None:
    pool = tree_of(small_machine(packages=1, isolated="3"), "0,7").root
    found = [str(CpuSet(m)) for m in (pool.cpus, pool.sharable, pool.isolated, pool.reserved)]
    assert found == ["0-3", "1-2", "3", "0"]


def test_no_available_cpu_is_an_error_that_names_the_online_ones() -> None:
    machine = small_machine(packages=1)
    with pytest.raises(PolicyOptionsError, match="the online ones are 0-3"):
        tree_of(machine, available=CpuSet.parse("64"))


def test_a_machine_that_is_all_isolated_is_used_as_an_ordinary_one() -> None:
    tree = tree_of(small_machine(packages=1, isolated="2-3"), available=CpuSet.parse("2-3"))
    assert (CpuSet(tree.root.sharable), CpuSet(tree.root.isolated)) == (CpuSet.parse("2-3"), CpuSet())
    assert "kernel-isolated" in tree.notes[0]


def test_an_unknown_pool_name_means_the_root() -> None:
    tree = tree_of(four_nodes())
    assert tree.named("NUMA node #77") is tree.root


def test_reserved_cpus_that_are_not_available_are_not_used_and_reserved_ones_are_not_isolated() -> None:
    tree = tree_of(four_nodes(isolated="1,3,7"), "0-3", available=CpuSet.parse("2-15"))
    root = tree.root
    assert [str(CpuSet(mask)) for mask in (root.reserved, root.isolated, root.sharable)] == ["2-3", "7", "4-6,8-15"]


def test_the_smallest_core_is_one_whose_sibling_is_offline() -> None:
    tree = tree_of(four_nodes(offline="1"))
    assert (tree.smallest_core, tree.threads_per_core) == (1, 2)


def test_cpus_without_memory_use_the_nearest() -> None:
    row = [[10 + 10 * abs(a - b) for b in range(4)] for a in range(4)]
    tree = tree_of(small_machine(packages=4, memory=["2Gi", "2Gi", "2Gi", 0], distances=row))
    assert mems(tree, "socket #3") == "2"


def test_to_cpus_of_no_node_all_memory_is_as_near() -> None:
    machine = four_nodes()
    homeless = replace(machine, nodes=tuple(replace(n, cpus=n.cpus - CpuSet.of([0])) for n in machine.nodes))
    assert memory_at(homeless, 1) == machine.memory_nodes.mask
    assert memory_at(replace(machine, nodes=()), 1) == 0


def test_memory_is_told_by_how_much_farther_it_is_than_the_nearest() -> None:
    far = [{"memory": "2Gi", "near": {0: 14}}]
    tree = tree_of(small_machine(memory=["2Gi", 0], memory_nodes=far))
    assert tree.named("socket #0").distances == ((0, 0b1), (400, 0b100))
    assert tree.named("socket #1").distances[0] == (0, 0b1)
