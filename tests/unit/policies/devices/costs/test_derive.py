from dataclasses import replace

import pytest

from policies.devices.costs import CostError, MachineCosts, compile_costs, type_of
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Cache
from tests.unit.policies.devices.costs.derived import by_pair, derived, machine

NIC, GPU, TWIN = "pci/0000:3c:00.0", "pci/0000:3b:00.0", "pci/0000:3b:00.1"


@pytest.mark.parametrize(
    ("one", "other", "cost"),
    [
        ("cpu/cpu0", "cpu/cpu1", 0),  # threads of a core
        ("cpu/cpu0", "cpu/cpu2", 10),  # L3
        ("cpu/cpu0", "cpu/cpu4", 15),  # node
        ("cpu/cpu8", "cpu/cpu14", 10),
        ("cpu/cpu0", "cpu/cpu8", 67),  # 15 + 85 * 11 / 18: distance 21, the largest is 28
        ("cpu/cpu0", "memory/node0", 15),
        ("cpu/cpu0", "memory/node1", 67),
        ("cpu/cpu0", "memory/node2", 49),  # memory without CPUs, at 17
        ("cpu/cpu8", "memory/node2", 100),
        ("memory/node0", "memory/node2", 49),
        ("cpu/cpu0", GPU, 15),
        ("cpu/cpu8", GPU, 67),
        ("memory/node2", GPU, 49),
        (GPU, TWIN, 0),  # functions of one device
        (GPU, NIC, 5),  # behind one bridge
        (NIC, "pci/0000:5e:00.0", 25),  # same node
        (NIC, "pci/0000:af:00.0", 67),
        (NIC, "pci/0000:d8:00.0", 100),  # a device of which no node is known
        ("cpu/cpu0", "pci/0000:d8:00.0", 100),
        ("memory/node1", "pci/0000:d8:00.0", 100),
    ],
)
def test_parts_of_a_machine_cost_each_other_by_what_they_share(one: str, other: str, cost: int) -> None:
    costs = derived(machine())
    assert (costs[one, other], costs[other, one]) == (cost, cost)


def test_every_pair_of_the_machine_is_said_once() -> None:
    listing = MachineCosts(machine()).listing()
    assert len(listing.present) == len(set(listing.present)) == 16 + 3 + 6
    assert by_pair(listing).keys() == {(a, b) for a in listing.present for b in listing.present if a != b}
    compile_costs(listing)


def test_a_listing_names_no_instance_alone_and_ascends_by_cost() -> None:
    lines = MachineCosts(machine(threads=1, l3=["0-3", "4-7"])).listing().lines
    assert [line for line in lines if line.sources == line.targets and len(line.sources) == 1] == []
    assert [line.cost for line in lines] == sorted(line.cost for line in lines)


def test_cpus_of_one_l2_are_nearer_than_those_of_one_l3() -> None:
    """Four cores with one L2, as efficiency cores have it."""
    known = machine()
    clusters = tuple(Cache(2, CpuSet.of(range(first, first + 4)), index=i) for i, first in enumerate((8, 12)))
    costs = derived(replace(known, caches=(*(cache for cache in known.caches if cache.level == 3), *clusters)))
    assert [costs["cpu/cpu8", f"cpu/cpu{cpu}"] for cpu in (9, 10, 12)] == [0, 5, 10]
    assert costs["cpu/cpu0", "cpu/cpu2"] == 10


def test_cpus_without_known_caches_share_their_node() -> None:
    costs = derived(replace(machine(), caches=()))
    assert [costs["cpu/cpu0", f"cpu/cpu{cpu}"] for cpu in (1, 2, 4, 8)] == [0, 15, 15, 67]


def test_the_only_node_of_a_machine_has_the_devices_without_one() -> None:
    known = machine(packages=1, l3=["0-7"], memory_nodes=[], pci=[{"address": "d8:00.0", "class": 0x020000}])
    costs = derived(known)
    assert costs["cpu/cpu0", "pci/0000:d8:00.0"] == costs["pci/0000:d8:00.0", "memory/node0"] == 15


def test_what_a_device_costs_to_reach_is_told_by_number_and_address() -> None:
    costs = MachineCosts(machine()).of_device("0000:3b:00.0")
    assert costs.cpus == {cpu: 15 if cpu < 8 else 67 for cpu in range(16)}
    assert costs.memory_nodes == {0: 15, 1: 67, 2: 49}
    assert costs.devices == {
        "0000:3b:00.1": 0,
        "0000:3c:00.0": 5,
        "0000:5e:00.0": 25,
        "0000:af:00.0": 67,
        "0000:d8:00.0": 100,
    }


def test_devices_go_by_the_names_of_their_plugin() -> None:
    names = {"example.com/gpu/gpu0": "0000:3b:00.0", "example.com/nic/nic0": "0000:3c:00.0"}
    costs = by_pair(MachineCosts(machine()).of_devices(names))
    assert {source for source, _ in costs} == {*names}
    assert costs["example.com/gpu/gpu0", "example.com/nic/nic0"] == 5
    assert costs["example.com/gpu/gpu0", "pci/0000:af:00.0"] == 67
    assert [costs["example.com/gpu/gpu0", f"memory/node{node}"] for node in range(3)] == [15, 67, 49]
    assert not {target for _, target in costs} & {GPU, NIC}


def test_the_costs_of_a_device_ascend() -> None:
    lines = MachineCosts(machine()).of_devices({"example.com/nic/nic0": "0000:af:00.0"}).lines
    assert [line.cost for line in lines] == [15, 67, 100]


def test_an_unknown_device_is_named() -> None:
    with pytest.raises(CostError, match=r"0000:01:00\.0: the machine has no such PCI device"):
        MachineCosts(machine()).of_device("0000:01:00.0")


def test_nodes_that_a_plugin_lists_cost_nothing_and_the_rest_its_distance() -> None:
    listed = {"example.com/gpu/gpu0": NodeSet.of([0]), "example.com/gpu/gpu1": NodeSet.of([0, 1])}
    costs = by_pair(MachineCosts(machine()).of_listed_nodes(listed))
    first, second = ({to: costs[source, to] for at, to in costs if at == source} for source in listed)
    assert [first[name] for name in ("cpu/cpu0", "cpu/cpu8", "memory/node0", "memory/node2")] == [0, 67, 0, 49]
    assert {first[name] for name in first if type_of(name) == "cpu"} == {0, 67}
    assert [second[name] for name in ("cpu/cpu0", "cpu/cpu8", "memory/node2")] == [0, 0, 49]


def test_a_device_without_listed_nodes_says_nothing() -> None:
    listing = MachineCosts(machine()).of_listed_nodes({"example.com/gpu/gpu0": NodeSet()})
    assert (listing.lines, listing.present) == ((), ("example.com/gpu/gpu0",))


def test_a_listed_node_that_the_machine_lacks_is_named() -> None:
    with pytest.raises(CostError, match=r"gpu0: the machine has no NUMA node 3,7, only 0-2"):
        MachineCosts(machine()).of_listed_nodes({"example.com/gpu/gpu0": NodeSet.of([0, 3, 7])})
