from dataclasses import replace

import pytest

from cri_proxy.inventory.pci import inventory_of, left_out
from policies.devices import InventoryDevice, PciePath, VfGroup, VirtualFunction
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Device, Machine

MACHINE = describe({"packages": 2, "cores": 2, "memory": "1Gi"})
SWITCH = ("pci0000:3a", "0000:3a:00.0", "0000:3b:00.0", "0000:3c:00.0")


def device(address: str, code: int, bridges: tuple[str, ...] = SWITCH, node: int = 0, **more: object) -> Device:
    plain = Device(address, code, 0x10DE, 1, node, CpuSet.parse("0-3"), bridges)
    return replace(plain, **more)  # type: ignore[arg-type]


def found(*devices: Device, machine: Machine = MACHINE) -> tuple[InventoryDevice, ...]:
    return inventory_of(replace(machine, devices=devices)).devices


def test_gpus_and_nics_behind_a_switch_are_on_the_same_pcie() -> None:
    below = (*SWITCH[:3], "0000:3c:01.0")
    gpu, nic = found(device("0000:3d:00.0", 0x030200), device("0000:3e:00.0", 0x020000, below, has_rdma=True))
    assert (gpu.kind, nic.kind, gpu.pcie, nic.pcie) == ("gpu", "rdma", "0000:3b:00.0", "0000:3b:00.0")
    assert gpu.path == PciePath("pci0000:3a", SWITCH[1:], "0000:3d:00.0")


def test_without_a_switch_the_root_complex_counts() -> None:
    ports = [("pci0000:00", f"0000:00:0{n}.0") for n in (1, 2)]
    found_here = found(device("0000:01:00.0", 0x030000, ports[0]), device("0000:02:00.0", 0x020700, ports[1]))
    assert [d.pcie for d in found_here] == ["pci0000:00", "pci0000:00"]
    assert found(device("0000:01:00.0", 0x030000, ()))[0].pcie is None


def test_virtual_functions_belong_to_their_nic() -> None:
    parent = "0000:3d:00.0"
    vfs = [device(f"0000:3d:00.{n}", 0x020000, physical_function=parent) for n in (2, 1)]
    (nic,) = found(*vfs, device(parent, 0x020000))
    assert nic.vf_groups == (VfGroup((VirtualFunction(0, "0000:3d:00.1"), VirtualFunction(1, "0000:3d:00.2"))),)


def test_minors_follow_the_addresses() -> None:
    fpga = device("0000:02:00.0", 0x120000, vendor=0x10EE)
    gpus = found(device("0000:b1:00.0", 0x030200), device("0000:1b:00.0", 0x030200), fpga)
    assert [(d.kind, d.minor, d.path.bus) for d in gpus] == [
        ("fpga", 0, "0000:02:00.0"),
        ("gpu", 0, "0000:1b:00.0"),
        ("gpu", 1, "0000:b1:00.0"),
    ]


def test_bridges_and_disks_are_none_of_them() -> None:
    assert found(device("0000:3a:00.0", 0x060400), device("0000:02:00.0", 0x010802)) == ()


@pytest.mark.parametrize(
    ("vendor", "number"),
    [
        (0x1A03, 0x2000),
        (0x1234, 0x1111),
        (0x1AF4, 0x1050),
        (0x15AD, 0x0405),
        (0x1414, 0x5353),
        (0x1013, 0x00B8),
        (0x1D0F, 0x1111),
        (0x1002, 0x515E),
        (0x19E5, 0x1711),
    ],
)
def test_consoles_of_servers_and_virtual_machines_are_no_gpus(vendor: int, number: int) -> None:
    console = device("0000:01:00.0", 0x030000, vendor=vendor)
    assert found(replace(console, device=number)) == ()


@pytest.mark.parametrize(
    ("code", "vendor", "kind", "named"),
    [
        (0x030200, 0x10DE, "gpu", "nvidia"),
        (0x038000, 0x1002, "gpu", "amd"),
        (0x120000, 0x1002, "gpu", "amd"),
        (0x120000, 0x1DA3, "gpu", "habana"),
        (0x120000, 0x19E5, "gpu", "huawei"),
        (0x038000, 0x8086, "gpu", "8086"),
        (0x120000, 0x10EE, "fpga", ""),
        (0x120000, 0x8086, "fpga", ""),
    ],
)
def test_an_accelerator_of_a_vendor_of_gpus_is_a_gpu_of_that_vendor(
    code: int, vendor: int, kind: str, named: str
) -> None:
    (scanned,) = found(device("0000:05:00.0", code, vendor=vendor))
    assert (scanned.kind, scanned.vendor) == (kind, named)


def test_a_network_function_is_an_rdma_device_only_where_its_driver_gives_it_verbs() -> None:
    with_verbs, without = (device(f"0000:0{n}:00.0", 0x020000, has_rdma=n == 1) for n in (1, 2))
    fabric = device("0000:03:00.0", 0x020700)
    assert [(d.kind, d.minor) for d in found(with_verbs, without, fabric)] == [("rdma", 0), ("nic", 0), ("nic", 1)]


def test_a_node_that_the_firmware_does_not_name_follows_from_the_local_cpus() -> None:
    one = describe({"packages": 1, "cores": 2, "memory": "1Gi"})
    local = device("0000:01:00.0", 0x030200, node=-1, local_cpus=CpuSet.parse("2-3"))
    nowhere = device("0000:01:00.0", 0x030200, node=-1)
    assert found(local)[0].numa == 1
    assert found(nowhere)[0].numa is None
    assert found(nowhere, machine=one)[0].numa == 0


def test_only_notes_of_pci_say_which_devices_are_left_out() -> None:
    notes = (
        "sys/devices/pci0000:10/0000:10:00.0/class: no number; the device is left out",
        "sys/devices/system: no L3",
    )
    assert left_out(replace(describe({}), notes=notes)) == notes[:1]


def test_partitions_of_a_gpu_are_devices_at_its_place_behind_it() -> None:
    names = ("amdgpu_xcp_1", "amdgpu_xcp_2")
    gpus = [device(f"0000:{bus}:00.0", 0x120000, vendor=0x1002, node=1) for bus in ("3d", "4d")]
    parts = found(replace(gpus[0], partitions=names), gpus[1])
    assert [(d.kind, d.minor, d.path.bus, d.uuid) for d in parts] == [
        ("gpu", 0, "0000:3d:00.0", ""),
        ("gpu", 1, "", "amdgpu_xcp_1"),
        ("gpu", 2, "", "amdgpu_xcp_2"),
        ("gpu", 3, "0000:4d:00.0", ""),
    ]
    assert {(d.numa, d.pcie, d.path.root, d.path.switches, d.vendor) for d in parts} == {
        (1, "0000:3b:00.0", "pci0000:3a", SWITCH[1:], "amd")
    }
