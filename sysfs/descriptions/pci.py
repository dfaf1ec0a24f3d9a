"""Read the PCI devices of a machine description: addresses, parent bridges, nodes and local CPUs. Pure."""

from collections.abc import Mapping, Sequence

from sysfs.assemble import NodeFacts
from sysfs.cpuset import CpuSet
from sysfs.fields import Fields
from sysfs.model import Device
from sysfs.pci import is_address

KEYS = ("address", "class", "node", "parent", "vendor", "device", "physical_function")
MAX_CODE = 0xFFFFFF


def described_devices(fields: Fields, nodes: Sequence[NodeFacts], online: CpuSet) -> list[Device]:
    """Return the devices of the key ``pci``. A parent may be another listed device or an unlisted bridge.

    A device without ``node`` inherits its parent's, as in the kernel. Raises MachineSourceError.
    """
    items = {_address(item, "address"): item for item in fields.mappings("pci", KEYS)}
    if len(items) != len(fields.items("pci")):
        raise fields.refuse("pci", "give every device a unique address")
    return [_device(address, items, nodes, online) for address in sorted(items)]


def _address(item: Fields, key: str) -> str:
    """Return a full PCI address in lower case; the domain may be omitted."""
    text = item.word(key, "").lower()
    full = text if text.count(":") == 2 else f"0000:{text}"
    if not is_address(full):
        raise item.refuse(key, "give a PCI address like 0000:3b:00.0")
    return full


def _device(address: str, items: Mapping[str, Fields], nodes: Sequence[NodeFacts], online: CpuSet) -> Device:
    item = items[address]
    bridges = _bridges(address, items)
    node = -1
    for holder in (address, *reversed(bridges)):
        if holder in items and "node" in items[holder]:
            node = items[holder].integer("node", -1, -1, len(nodes) - 1)
            break
    return Device(
        address=address,
        class_code=_code(item, "class", 0),
        vendor=_code(item, "vendor", 0),
        device=_code(item, "device", 0),
        node=node,
        local_cpus=online if node < 0 else nodes[node].cpus,
        bridges=bridges,
        physical_function=_address(item, "physical_function") if "physical_function" in item else "",
    )


def _bridges(address: str, items: Mapping[str, Fields]) -> tuple[str, ...]:
    """Return the path from the host bridge, named after the topmost bus, to the parent."""
    path = [address]
    while path[-1] in items and "parent" in items[path[-1]]:
        parent = _address(items[path[-1]], "parent")
        if parent in path:
            raise items[path[-1]].refuse("parent", "a device cannot be its own ancestor")
        path.append(parent)
    return (f"pci{path[-1].rpartition(':')[0]}", *reversed(path[1:]))


def _code(item: Fields, key: str, default: int) -> int:
    """Return a class, vendor or device code, given as a number or as hexadecimal text like that of sysfs."""
    value = item.raw(key)
    if not isinstance(value, str):
        return item.integer(key, default, 0, MAX_CODE)
    try:
        code = int(value, 16)
    except ValueError:
        code = -1
    if not 0 <= code <= MAX_CODE:
        raise item.refuse(key, "give a hexadecimal code like 0x030200")
    return code
