from dataclasses import replace

from policies.base import DeviceLocality
from policies.device_grants import DeviceGrant
from policies.devices import DeviceInventory, InventoryDevice, PciePath
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine
from tests.unit.policies.allocations import gpus_on, whole
from tests.unit.policies.build import four_nodes

MACHINE = four_nodes()


def places(*nodes: int | None, machine: Machine = MACHINE) -> MachineDevices:
    return MachineDevices(machine, gpus_on(*nodes))


def without_cpus(node: int, near: int) -> Machine:
    """The machine with CPUs of one node taken away, which is nearest to another one."""
    nodes = tuple(replace(n, cpus=CpuSet(), near=NodeSet.of([near])) if n.id == node else n for n in MACHINE.nodes)
    return replace(MACHINE, nodes=nodes)


def test_a_device_is_on_its_node() -> None:
    found = places(1, 3)
    assert (found.nodes_at(("gpu", 1)), found.touched([whole(0), whole(1)])) == (0b1000, 0b1010)
    (place,) = found.localities([whole(0)])
    assert (place.source, place.cpus, place.nodes) == ("gpu/0", CpuSet.parse("4-7"), NodeSet.of([1]))


def test_a_device_on_a_node_without_cpus_is_on_the_nearest() -> None:
    found = places(3, machine=without_cpus(3, near=1))
    assert found.nodes_at(("gpu", 0)) == 0b10
    inside, outside = found.within(0b10), found.within(0b01)
    assert inside is not None and inside >> 3 & 1
    assert outside is not None and not outside >> 3 & 1


def test_a_device_on_a_node_that_the_machine_lacks_is_anywhere() -> None:
    found = places(7, None)
    within = found.within(0b1)
    assert within is not None and within >> 7 & 1
    assert found.touched([whole(0), whole(1), whole(9)]) == 0
    assert found.localities([whole(0), whole(1), whole(9)]) == ()


def test_no_nodes_are_any() -> None:
    assert places(0).within(None) is None


def test_a_device_is_known_by_its_pci_address_and_a_virtual_function_by_its_own() -> None:
    gpu = InventoryDevice("gpu", 0, 1, "p0", path=PciePath(bus="0000:3b:00.0"))
    found = MachineDevices(MACHINE, DeviceInventory((gpu,)))
    given = [whole(0), DeviceGrant("gpu", 0, 1, vf="0000:3b:00.2")]
    assert [place.devices for place in found.localities(given[:1]) + found.localities(given[1:])] == [
        ("0000:3b:00.0",),
        ("0000:3b:00.2",),
    ]


def test_a_device_at_no_node_draws_to_none_however_a_place_names_it() -> None:
    gpu = InventoryDevice("gpu", 3, path=PciePath(bus="0000:3b:00.0"), is_nowhere=True)
    found = MachineDevices(MACHINE, DeviceInventory((gpu, InventoryDevice("gpu", 4))))
    said = [
        DeviceLocality("podresapi:nvidia.com/gpu/a", CpuSet(), NodeSet.of([1]), devices=(name,))
        for name in ("0000:3b:00.0", "gpu/3", "gpu/4")
    ]
    assert found.somewhere(tuple(said)) == (said[2],)
