import pytest

from policies.preferences import CpuPriority
from policies.topology_aware.cpus.pick_reasons import PickedCpus, how_picked
from policies.topology_aware.locality.devices import Locality
from sysfs.cpuset import CpuSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import four_nodes, tree_of

TREE = tree_of(four_nodes())


def mask(cpus: str) -> int:
    return CpuSet.parse(cpus).mask


def told(owned: str, *, kept: str = "", others: str = "", places: tuple[Locality, ...] = ()) -> str:
    picked = PickedCpus(mask(owned), mask(kept), mask(others), places, CpuPriority.NONE)
    return how_picked(TREE, TREE.root, picked)


@pytest.mark.parametrize(
    ("owned", "others", "expected"),
    [
        ("0-1", "", "1 whole core of NUMA node #0"),
        ("4-5,8-9", "", "2 whole cores of root"),
        ("0-3", "", "the whole of NUMA node #0"),
        ("8-15", "", "the whole of socket #1"),
        ("4", "5", "1 thread of a core that was broken already in NUMA node #1"),
        ("4", "", "1 thread of a core that was whole in NUMA node #1"),
        ("4-6", "", "1 whole core and 1 thread of a core that was whole in NUMA node #1"),
        ("0,4,8", "5,9", "2 threads of 2 cores that were broken already and 1 thread of a core that was whole in root"),
        ("4,8", "", "2 threads of 2 cores that were whole in root"),
    ],
)
def test_new_cpus_are_told_by_what_became_of_their_cores(owned: str, others: str, expected: str) -> None:
    assert told(owned, others=others) == expected


def test_kept_cpus_are_counted_apart() -> None:
    assert told("0-3", kept="0-1") == "2 kept and 1 whole core of NUMA node #0"
    assert told("0-1", kept="0") == "1 kept and 1 thread that completes its own core in NUMA node #0"
    assert told("0-1", kept="0-1") == "2 kept"
    assert told("0-3", kept="0,2") == "2 kept and 2 threads that complete its own cores in NUMA node #0"


def test_a_core_is_broken_by_what_others_own_and_by_what_is_kept_but_not_by_isolated_cpus() -> None:
    wide = tree_of(small_machine(packages=2, nodes=2, cores=1, threads=4))
    kept = PickedCpus(mask("0-1"), mask("0"), 0, (), CpuPriority.NONE)
    assert how_picked(wide, wide.root, kept).endswith("1 thread of a core that was broken already in NUMA node #0")
    two_kinds = tree_of(four_nodes(isolated="7"), "5")
    alone = [PickedCpus(mask(cpu), 0, 0, (), CpuPriority.NONE) for cpu in ("4", "6")]
    assert [how_picked(two_kinds, two_kinds.root, each) for each in alone] == [
        "1 thread beside a reserved CPU in NUMA node #1",
        "1 thread of a core that was whole in NUMA node #1",
    ]


def test_a_pool_that_is_a_single_core_is_told_as_a_core() -> None:
    tree = tree_of(small_machine(packages=2, nodes=2, cores=1, threads=2))
    picked = PickedCpus(mask("0-1"), 0, 0, (), CpuPriority.NONE)
    assert how_picked(tree, tree.root, picked) == "1 whole core of NUMA node #0"


NIC, GPU = Locality(("0000:3b:00.0",), mask("0-3")), Locality(("/dev/a", "/dev/b"), mask("8-11"))


@pytest.mark.parametrize(
    ("owned", "expected"),
    [
        ("0-1,8-9", "2 near each of 0000:3b:00.0, /dev/a, /dev/b: 2 whole cores of root"),
        ("0-1,8", "2 near 0000:3b:00.0 and 1 near /dev/a, /dev/b: 1 whole core and 1 thread of a core"),
        ("0-1,4-5", "2 whole cores of socket #0"),
    ],
)
def test_nearness_to_devices_is_told_where_each_has_some(owned: str, expected: str) -> None:
    assert told(owned, places=(NIC, GPU)).startswith(expected)


def test_many_devices_are_not_all_named() -> None:
    many = Locality(tuple(f"/dev/{n}" for n in range(9)), mask("0-3"))
    assert told("0-1", places=(many,)) == "2 near /dev/0, /dev/1, /dev/2 and 6 more: 1 whole core of NUMA node #0"
    four = Locality(many.sources[:4], many.cpus)
    assert told("0-1", places=(four,)).startswith("2 near /dev/0, /dev/1, /dev/2 and 1 more: ")


@pytest.mark.parametrize(("owned", "expected"), [("4-5", "all"), ("3-4", "not all")])
def test_a_wish_for_priority_is_told_where_cpus_differ(owned: str, expected: str) -> None:
    tree = tree_of(small_machine(packages=1, cores=8, threads=1, efficiency="4-7"))
    text = how_picked(tree, tree.root, PickedCpus(mask(owned), 0, 0, (), CpuPriority.LOW))
    assert text == f"2 whole cores of root, {expected} of those that priority low prefers"


@pytest.mark.parametrize(
    ("kept", "priority", "efficient"),
    [("4-5", CpuPriority.LOW, "4-7"), ("", CpuPriority.NONE, "4-7"), ("", CpuPriority.LOW, "")],
)
def test_priority_is_not_told_where_nothing_is_new_or_wanted_or_all_cpus_are_alike(
    kept: str, priority: CpuPriority, efficient: str
) -> None:
    tree = tree_of(small_machine(packages=1, cores=8, threads=1, **({"efficiency": efficient} if efficient else {})))
    picked = PickedCpus(mask("4-5"), mask(kept), 0, (), priority)
    assert how_picked(tree, tree.root, picked) == ("2 kept" if kept else "2 whole cores of root")


def test_three_parts_are_told_as_a_list() -> None:
    assert told("0-2,4,8-9", kept="2", others="5") == (
        "1 kept, 2 whole cores and 1 thread of a core that was broken already in root"
    )
