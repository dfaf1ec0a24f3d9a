"""What PCI devices and NUMA nodes cost each other, by the listing that ``derive`` makes of a machine."""

from dataclasses import replace

import pytest

from sysfs.cpuset import CpuSet
from sysfs.model import Device
from tests.unit.policies.devices.costs.derived import derived, machine

ROOT = ("pci0000:3a", "0000:3a:00.0")  # the host bridge and a root port
SWITCH = (*ROOT, "0000:3b:00.0")  # with the upstream port of a switch
VMD = ("pci0000:e0", "0000:e0:05.5", "pci10000:e1")  # a controller with a PCI domain of its own
OTHER, FAR = ("pci0000:5d", "0000:5d:00.0"), ("pci0000:ae", "0000:ae:00.0")


def device(address: str, *bridges: str, node: int = 0, local: str = "", physical: str = "") -> Device:
    return Device(address, 0x020000, 0x8086, 0x1592, node, CpuSet.parse(local), bridges, physical)


@pytest.mark.parametrize(
    ("one", "other", "cost"),
    [
        (device("0000:3d:00.0", *SWITCH, "0000:3c:00.0"), device("0000:3d:00.1", *SWITCH, "0000:3c:00.0"), 0),
        (device("0000:3d:00.0", *SWITCH), device("0000:3d:10.2", *SWITCH, physical="0000:3d:00.0"), 0),
        (device("0000:3d:00.0", *SWITCH, "0000:3c:00.0"), device("0000:3e:00.0", *SWITCH, "0000:3c:01.0"), 5),
        (device("0000:3b:00.0", *ROOT), device("0000:3b:01.0", *ROOT), 5),
        (device("0000:3b:00.0", *ROOT, node=-1), device("0000:3b:01.0", *ROOT, node=-1), 5),
        (device("0000:3d:00.0", *SWITCH, "0000:3c:00.0"), device("0000:41:00.0", *SWITCH, "0000:3c:01.0", "b"), 10),
        (device("0000:3d:00.0", *SWITCH, "0000:3c:00.0"), device("0000:40:00.0", ROOT[0], "0000:3a:01.0"), 20),
        (device("0000:3a:04.0", ROOT[0]), device("0000:3a:05.0", ROOT[0]), 20),
        (device("10000:e2:00.0", *VMD, "10000:e1:00.0"), device("10000:e3:00.0", *VMD, "10000:e1:01.0"), 20),
        (device("0000:3b:00.0", *ROOT), device("0000:5e:00.0", *OTHER), 25),
        (device("0000:3b:00.0", *ROOT), device("0000:af:00.0", *FAR, node=1), 67),
        (device("0000:3b:00.0", *ROOT), device("0000:af:00.0", *FAR, node=-1, local="0-3,8-11"), 25),
        (device("0000:3b:00.0", *ROOT), device("0000:af:00.0", *FAR, node=-1), 100),
        (device("0000:3b:00.0", *ROOT), device("0000:af:00.0", *FAR, node=7), 100),
    ],
)
def test_devices_cost_each_other_by_the_bridges_between_them(one: Device, other: Device, cost: int) -> None:
    costs = derived(replace(machine(), devices=(one, other)))
    names = f"pci/{one.address}", f"pci/{other.address}"
    assert costs[names] == costs[names[::-1]] == cost


@pytest.mark.parametrize(
    ("distances", "cost"), [([[10, 11], [11, 10]], 100), ([[10, 11, 40], [11, 10, 40], [40, 40, 10]], 26)]
)
def test_a_device_on_another_node_is_farther_than_one_behind_another_host_bridge(
    distances: list[list[int]], cost: int
) -> None:
    known = machine(packages=1, nodes=len(distances), l3=[], distances=distances, memory_nodes=[], pci=[])
    devices = device("0000:3b:00.0", *ROOT), device("0000:5e:00.0", *OTHER, node=1)
    assert derived(replace(known, devices=devices))["pci/0000:3b:00.0", "pci/0000:5e:00.0"] == cost


def test_bridges_are_no_instances() -> None:
    known = machine(pci=[{"address": "3a:00.0", "class": 0x060400}, {"address": "3b:00.0", "class": 0x020000}])
    assert {name for name, _ in derived(known) if name.startswith("pci/")} == {"pci/0000:3b:00.0"}


@pytest.mark.parametrize(("local", "costs"), [("8-15", [67, 15]), ("0-15", [100, 100]), ("", [100, 100])])
def test_without_a_node_the_local_cpus_say_where_a_device_is_unless_all_are(local: str, costs: list[int]) -> None:
    found = derived(replace(machine(), devices=(device("0000:3b:00.0", node=-1, local=local),)))
    assert [found["pci/0000:3b:00.0", cpu] for cpu in ("cpu/cpu0", "cpu/cpu8")] == costs


def from_node_0(*rows: tuple[int, ...]) -> list[int]:
    """What the memory of each node costs the CPUs of node 0."""
    known = machine(packages=1, nodes=len(rows), l3=[], distances=[*map(list, rows)], memory_nodes=[], pci=[])
    costs = derived(known)
    assert all(
        costs[f"memory/node{node}", "cpu/cpu0"] == costs["cpu/cpu0", f"memory/node{node}"] for node in range(len(rows))
    )
    return [costs["cpu/cpu0", f"memory/node{node}"] for node in range(len(rows))]


@pytest.mark.parametrize(("distance", "cost"), [(10, 15), (11, 24), (12, 32), (16, 66), (20, 100)])
def test_a_cost_grows_with_the_distance_up_to_the_largest_one(distance: int, cost: int) -> None:
    assert from_node_0((10, distance, 20), (distance, 10, 20), (20, 20, 10)) == [15, cost, 100]


def test_another_node_is_never_as_near_as_the_own_one() -> None:
    assert from_node_0((10, 11, 254), (11, 10, 254), (254, 254, 10)) == [15, 16, 100]


def test_a_node_that_cannot_be_reached_is_farthest_and_stretches_no_scale() -> None:
    assert from_node_0((10, 20, 255), (20, 10, 255), (255, 255, 10)) == [15, 100, 100]


def test_nodes_that_are_all_as_near_cost_as_one() -> None:
    """What the kernel's emulated nodes (numa=fake=) report."""
    assert from_node_0((10, 10), (10, 10)) == [15, 15]


def test_of_several_nodes_of_a_device_the_nearest_counts() -> None:
    rows = [[10, 12, 20], [12, 10, 20], [20, 20, 10]]
    known = machine(packages=1, nodes=3, l3=[], distances=rows, memory_nodes=[], pci=[])
    costs = derived(replace(known, devices=(device("0000:3b:00.0", node=-1, local="8-23"),)))
    assert costs["pci/0000:3b:00.0", "memory/node0"] == costs["memory/node1", "memory/node0"] == 32
