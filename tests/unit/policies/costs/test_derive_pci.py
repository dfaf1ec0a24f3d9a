from dataclasses import replace

import pytest

from policies.costs.derive_pci import PciPlace, device_cost, pci_devices, places
from policies.costs.derive_scale import NodeScale
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.costs.derived import machine

ROOT = ("pci0000:3a", "0000:3a:00.0")  # the host bridge and a root port
SWITCH = (*ROOT, "0000:3b:00.0")  # with the upstream port of a switch
VMD = ("pci0000:e0", "0000:e0:05.5", "pci10000:e1")  # a controller with a PCI domain of its own


def at(slot: str, *bridges: str, nodes: tuple[int, ...] = (0,)) -> PciPlace:
    return PciPlace(slot, bridges, NodeSet.of(nodes))


@pytest.mark.parametrize(
    ("one", "other", "cost"),
    [
        (at("0000:3d:00", *SWITCH, "0000:3c:00.0"), at("0000:3d:00", *SWITCH, "0000:3c:00.0"), 0),
        (at("0000:3d:00", *SWITCH, "0000:3c:00.0"), at("0000:3e:00", *SWITCH, "0000:3c:01.0"), 5),
        (at("0000:3b:00", *ROOT), at("0000:3b:01", *ROOT), 5),
        (at("0000:3d:00", *SWITCH, "0000:3c:00.0"), at("0000:41:00", *SWITCH, "0000:3c:01.0", "a", "b"), 10),
        (at("0000:3d:00", *SWITCH, "0000:3c:00.0"), at("0000:40:00", ROOT[0], "0000:3a:01.0"), 20),
        (at("0000:3a:04", ROOT[0]), at("0000:3a:05", ROOT[0]), 20),
        (at("10000:e2:00", *VMD, "10000:e1:00.0"), at("10000:e3:00", *VMD, "10000:e1:01.0"), 20),
        (at("0000:3b:00", *ROOT), at("0000:5e:00", "pci0000:5d", "0000:5d:00.0"), 25),
        (at("0000:3b:00", *ROOT), at("0000:af:00", "pci0000:ae", "0000:ae:00.0", nodes=(1,)), 67),
        (at("0000:3b:00", *ROOT), at("0000:af:00", "pci0000:ae", "0000:ae:00.0", nodes=(0, 1)), 25),
        (at("0000:3b:00", *ROOT), at("0000:af:00", "pci0000:ae", "0000:ae:00.0", nodes=()), 100),
        (at("0000:3b:00", *ROOT, nodes=()), at("0000:3b:01", *ROOT, nodes=()), 5),
    ],
)
def test_devices_cost_each_other_by_the_bridges_between_them(one: PciPlace, other: PciPlace, cost: int) -> None:
    scale = NodeScale(machine())
    assert device_cost(one, other, scale) == device_cost(other, one, scale) == cost


def test_a_device_on_another_node_is_farther_than_one_behind_another_host_bridge() -> None:
    near = NodeScale(machine(packages=1, nodes=2, l3=["0-7", "8-15"], distances=[[10, 11], [11, 10]], memory_nodes=[]))
    far = NodeScale(
        machine(
            packages=1, nodes=3, l3=[], distances=[[10, 11, 40], [11, 10, 40], [40, 40, 10]], memory_nodes=[], pci=[]
        )
    )
    one, other = at("a", "pci0000:3a"), at("b", "pci0000:5d", nodes=(1,))
    assert device_cost(one, other, near) == 100
    assert device_cost(one, other, far) == 26


def test_functions_of_a_device_are_at_one_place_and_virtual_ones_too() -> None:
    known = machine()
    nic = next(device for device in known.devices if device.address == "0000:3c:00.0")
    virtual = replace(nic, address="0000:3c:10.2", physical_function=nic.address)
    found = places([*pci_devices(known), virtual], known, NodeScale(known))
    assert ["0000:3c:00.0", "0000:3c:10.2"] in found.values()
    assert ["0000:3b:00.0", "0000:3b:00.1"] in found.values()


def test_bridges_are_left_out() -> None:
    known = machine(pci=[{"address": "3a:00.0", "class": 0x060400}, {"address": "3b:00.0", "class": 0x020000}])
    assert [device.address for device in pci_devices(known)] == ["0000:3b:00.0"]


def test_without_a_node_the_local_cpus_say_where_a_device_is() -> None:
    known = machine()
    lost = replace(known.devices[0], node=-1)
    scale = NodeScale(known)
    for cpus, nodes in ((CpuSet.parse("8-15"), [1]), (known.online, []), (CpuSet(), [])):
        (place,) = places([replace(lost, local_cpus=cpus)], known, scale)
        assert place.nodes == NodeSet.of(nodes)
