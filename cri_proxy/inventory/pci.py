"""Make an inventory of a machine's PCI devices: GPUs, NICs with their VFs, accelerators.

Devices on the same PCIe are those below the same switch, or, without a switch, below the same root complex. They are
numbered by their addresses, and the partitions of a GPU behind it. Source: PCI Code and ID Assignment Specification;
Documentation/ABI/testing/sysfs-bus-pci.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from policies.devices import (
    GPU,
    DeviceInventory,
    InventoryDevice,
    PciePath,
    VfGroup,
    VirtualFunction,
    natural_order,
    type_of,
    types_alike,
    vendor_of,
)
from sysfs.cpuset import NodeSet
from sysfs.gpu_partitions import KFD
from sysfs.model import Device, Machine

# Host bridge, root port, upstream port of a switch, downstream port: a shorter path has no switch in it.
_BRIDGES_OF_A_SWITCH: Final = 4
_FILES: Final = ("sys/bus/pci/", "sys/devices/pci", KFD)


def left_out(machine: Machine) -> tuple[str, ...]:
    """Return what is wrong with PCI devices that could not be read, a sentence each."""
    return tuple(note for note in machine.notes if note.startswith(_FILES))


def inventory_of(machine: Machine) -> DeviceInventory:
    """Return the devices of a machine; virtual functions belong to their physical one, whatever the kind."""
    vfs: dict[str, list[Device]] = {}
    for device in machine.devices:
        if device.physical_function:
            vfs.setdefault(device.physical_function, []).append(device)
    counts: dict[str, int] = {}
    found = []
    for device in _in_order(machine.devices):
        kind = "" if device.physical_function else type_of(device)
        if not kind:
            continue
        minor = counts.get(kind, 0)
        counts[kind] = minor + 1
        path = PciePath(device.bridges[0] if device.bridges else "", device.bridges[1:], device.address)
        node, groups = _node_of(device, machine), _vf_groups(vfs.get(device.address, ()))
        vendor, alike = vendor_of(device) if kind == GPU else "", types_alike(device)
        scanned = InventoryDevice(
            kind, minor, node, _pcie_of(device), path, vf_groups=groups, vendor=vendor, alike=alike
        )
        parts = device.partitions if kind == GPU else ()
        counts[kind] += len(parts)
        found += [each.stated_by("the scan") for each in (scanned, *_partitions(scanned, parts))]
    return DeviceInventory(tuple(found))


def _partitions(gpu: InventoryDevice, names: Iterable[str]) -> Iterator[InventoryDevice]:
    """Yield the parts of a GPU but the first, which is its PCI function: at its place, known by their own names."""
    for minor, name in enumerate(names, gpu.minor + 1):
        # The address is that of the first partition, and no two devices may have the same.
        path = replace(gpu.path, bus="")
        yield replace(gpu, minor=minor, path=path, vf_groups=(), uuid=name, part_of=gpu.path.bus)


def _vf_groups(devices: Iterable[Device]) -> tuple[VfGroup, ...]:
    vfs = tuple(VirtualFunction(number, device.address) for number, device in enumerate(_in_order(devices)))
    return (VfGroup(vfs),) if vfs else ()


def _in_order(devices: Iterable[Device]) -> list[Device]:
    return sorted(devices, key=lambda device: natural_order(device.address))


def _pcie_of(device: Device) -> str | None:
    # The upstream port of the switch that is nearest to the CPU: switches below it share its way to the CPU.
    if len(device.bridges) >= _BRIDGES_OF_A_SWITCH:
        return device.bridges[2]
    return device.bridges[0] if device.bridges else None


def _node_of(device: Device, machine: Machine) -> int | None:
    """Return the device's node; where the firmware names none, that of its local CPUs if it is one, or the only one."""
    if device.node >= 0:
        return device.node
    if len(machine.nodes) == 1:
        return machine.nodes[0].id
    local = NodeSet.of(node.id for node in machine.nodes if node.cpus & device.local_cpus)
    return next(iter(local)) if len(local) == 1 else None
