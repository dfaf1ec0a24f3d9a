"""How near a pool is to devices."""

from policies.base import TopologyHint
from policies.device_hints import hint_scores
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import four_nodes, tree_of

TREE = tree_of(four_nodes())


def scores(*hints: tuple[str, str]) -> dict[str, float]:
    built = tuple(TopologyHint("/dev/x", CpuSet.parse(c), NodeSet.parse(n)) for c, n in hints)
    return {p.name: s for p, s in zip(TREE.pools, hint_scores(TREE, built), strict=True)}


def test_the_pools_that_hold_the_device_are_at_it() -> None:
    found = scores(("4-7", ""))
    assert [name for name, score in found.items() if score == 1] == ["root", "socket #0", "NUMA node #1"]
    assert found["NUMA node #0"] == 0


def test_all_that_is_local_to_the_device_is_at_it() -> None:
    assert scores(("0-7", ""))["NUMA node #1"] == 1


def test_a_part_counts_as_a_part() -> None:
    assert scores(("2-5", ""))["NUMA node #0"] == 0.5


def test_a_hint_of_nodes_means_their_cpus() -> None:
    assert scores(("", "1")) == scores(("4-7", ""))


def test_a_pool_that_holds_both_devices_beats_one_that_holds_one() -> None:
    found = scores(("0-3", ""), ("4-7", ""))
    assert found["NUMA node #0"] == 0.5
    assert found["socket #0"] == 1


def test_a_device_that_is_local_to_everything_says_nothing() -> None:
    assert set(scores(("0-15", "")).values()) == {0}


def test_a_device_at_memory_without_cpus_counts_by_memory() -> None:
    tree = tree_of(four_nodes(memory_nodes=[{"memory": "8Gi", "near": {3: 17}}]))
    hint = TopologyHint("/dev/dax0.0", CpuSet(), NodeSet.parse("4"))
    at = [p.name for p, s in zip(tree.pools, hint_scores(tree, (hint,)), strict=True) if s]
    assert at == ["root", "socket #1", "NUMA node #3"]
