import pytest

from policies.base import CpuKind, DeviceLocality, Grant
from policies.hardware.pools import PoolTree
from policies.topology_aware.locality.devices import NearnessNow, at_devices, local_cpus, localities
from policies.topology_aware.supply.load import load_of
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import BURSTABLE, context_of, four_nodes, request, tree_of

TREE = tree_of(four_nodes())


def locality_scores(tree: PoolTree, places: tuple[DeviceLocality, ...]) -> list[float]:
    """How near each pool of an idle machine is to the devices."""
    context = context_of(tree, request("a/c", 100, BURSTABLE, localities=places))
    near = NearnessNow(context, room_of(context.supply, keep_busy=True), load_of(context.supply))
    return [near.of(pool)[0] for pool in tree.pools]


def scores(*hints: tuple[str, str]) -> dict[str, float]:
    built = tuple(DeviceLocality("/dev/x", CpuSet.parse(c), NodeSet.parse(n)) for c, n in hints)
    return {p.name: s for p, s in zip(TREE.pools, locality_scores(TREE, built), strict=True)}


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


def test_cpus_that_are_offline_are_near_nothing() -> None:
    assert scores(("4-7,99", "")) == scores(("4-7", ""))


def test_a_device_that_is_local_to_everything_says_nothing() -> None:
    assert set(scores(("0-15", "")).values()) == {0}


def test_a_device_at_memory_without_cpus_counts_by_memory() -> None:
    tree = tree_of(four_nodes(memory_nodes=[{"memory": "8Gi", "near": {3: 17}}]))
    hint = DeviceLocality("/dev/dax0.0", CpuSet(), NodeSet.parse("4"))
    at = [p.name for p, s in zip(tree.pools, locality_scores(tree, (hint,)), strict=True) if s]
    assert at == ["root", "socket #1", "NUMA node #3"]


def test_of_several_memory_nodes_each_counts_as_a_part() -> None:
    far = [{"memory": "8Gi", "near": {node: 17}} for node in (0, 3)]
    tree = tree_of(four_nodes(memory_nodes=far))
    found = locality_scores(tree, (DeviceLocality("/dev/dax0.0", CpuSet(), NodeSet.parse("4-5")),))
    assert [found[tree.named(name).index] for name in ("NUMA node #3", "NUMA node #1", "root")] == [0.5, 0, 1]


def local(cpus: str, nodes: str = "") -> str | None:
    machine = four_nodes(memory_nodes=[{"memory": "8Gi", "near": {3: 17}}])
    found = local_cpus(machine, DeviceLocality("/dev/x", CpuSet.parse(cpus), NodeSet.parse(nodes)))
    return None if found is None else str(CpuSet(found))


@pytest.mark.parametrize(
    ("cpus", "nodes", "expected"),
    [
        ("4-5,99", "", "4-5"),
        ("", "1", "4-7"),
        ("", "4", "12-15"),
        ("99", "", ""),
        ("", "9", ""),
        ("", "", None),
        ("0-15", "", None),
        ("", "0-3", None),
    ],
)
def test_near_a_device_are_its_cpus_or_those_of_the_closest_node(cpus: str, nodes: str, expected: str | None) -> None:
    assert local(cpus, nodes) == expected


def test_places_are_distinct_parts_of_what_is_looked_at_the_smallest_first() -> None:
    hints = [
        DeviceLocality(name, CpuSet.parse(cpus), NodeSet())
        for name, cpus in (("a", "0-7"), ("b", "2-3"), ("c", "0-7"), ("d", "0-15"), ("e", "0-11"), ("b", "2-3"))
    ]
    found = localities(TREE.machine, hints, TREE.machine.online.mask & ~1)
    assert [(p.sources, str(CpuSet(p.cpus))) for p in found] == [(("b",), "2-3"), (("a", "c"), "1-7"), (("e",), "1-11")]
    alike = [DeviceLocality(cpus, CpuSet.parse(cpus), NodeSet()) for cpus in ("1-2", "0,5")]
    assert [p.sources for p in localities(TREE.machine, alike, TREE.machine.online.mask)] == [("0,5",), ("1-2",)]
    assert localities(TREE.machine, hints, CpuSet.parse("0-7").mask)[0].sources == ("b",)
    assert localities(TREE.machine, hints, CpuSet.parse("12-15").mask) == ()


@pytest.mark.parametrize(("elsewhere", "is_at"), [("8-10", True), ("8-9", False), ("8,12-13", True), ("8", False)])
def test_a_pool_is_at_a_device_while_it_has_half_as_many_shared_cpus_in_proportion_as_the_machine(
    elsewhere: str, is_at: bool
) -> None:
    """One of the node's four CPUs is left: enough where the machine has eight at most of its sixteen."""
    near = request("a/c", 500, BURSTABLE, localities=(DeviceLocality("/dev/x", CpuSet.parse("0-3"), NodeSet()),))
    owners = [Grant(request("o/c"), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse(f"0-2,4-5,{elsewhere}"))]
    found = context_of(TREE, near, *owners)
    assert (found.supply.shared[0].bit_count() <= 8) == is_at
    assert at_devices(found, TREE.named("NUMA node #0")) == float(is_at)
