"""Read the PCI devices of a machine description: addresses, parent bridges, nodes and local CPUs. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sysfs.assemble import NodeFacts
from sysfs.cpuset import CpuSet
from sysfs.documents.forms import form, integer, scalar
from sysfs.documents.table import Table, keyed
from sysfs.documents.value import DocumentValue
from sysfs.model import Device
from sysfs.pci import parse_address

MAX_CODE = 0xFFFFFF


def _code(value: DocumentValue, what: str) -> int:
    """Return a class, vendor or device code, given as a number or as hexadecimal text like that of sysfs."""
    code = value.plain()
    if isinstance(code, str):
        try:
            code = int(code, 16)
        except ValueError:
            code = -1
    if isinstance(code, bool) or not isinstance(code, int) or not 0 <= code <= MAX_CODE:
        raise value.refuse(f"{what}: expected a hexadecimal code like 0x030200, got {value.shown()}")
    return code


_ADDRESS, _CODE = scalar(parse_address), form(_code)
_NO_ADDRESS = "address is missing; give one like 0000:3b:00.0"


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """A device as described; None and '' are not given."""

    address: str = keyed(_ADDRESS, "the domain may be left out", missing=_NO_ADDRESS)
    class_code: int = keyed(_CODE, "PCI code, hexadecimal", 0, name="class")
    node: int | None = keyed(integer(-1, 1023), "left out: its parent's; -1: unknown", None)
    parent: str = keyed(_ADDRESS, "another listed device, or a bridge", "")
    vendor: int = keyed(_CODE, "PCI code", 0)
    device: int = keyed(_CODE, "PCI code", 0)
    physical_function: str = keyed(_ADDRESS, "of a virtual function", "")


DEVICE = Table(ListedDevice)


def described_devices(listed: Iterable[ListedDevice], nodes: Sequence[NodeFacts], online: CpuSet) -> list[Device]:
    """Return the devices of the key ``pci``. A parent may be another listed device or an unlisted bridge.

    A device without ``node`` inherits its parent's, as in the kernel. Raises ValueError.
    """
    items: dict[str, ListedDevice] = {}
    for item in listed:
        if items.setdefault(item.address, item) is not item:
            raise ValueError(f"pci: {item.address}: give every device a unique address")
    return [_device(items[address], items, nodes, online) for address in sorted(items)]


def _device(
    item: ListedDevice, items: Mapping[str, ListedDevice], nodes: Sequence[NodeFacts], online: CpuSet
) -> Device:
    bridges = _bridges(item.address, items)
    holders = [items[address] for address in (item.address, *reversed(bridges)) if address in items]
    node = next((holder.node for holder in holders if holder.node is not None), -1)
    if node >= len(nodes):
        raise ValueError(f"pci: {item.address}: there is no node {node}; the nodes are 0 to {len(nodes) - 1}")
    return Device(
        address=item.address,
        class_code=item.class_code,
        vendor=item.vendor,
        device=item.device,
        node=node,
        local_cpus=online if node < 0 else nodes[node].cpus,
        bridges=bridges,
        physical_function=item.physical_function,
    )


def _bridges(address: str, items: Mapping[str, ListedDevice]) -> tuple[str, ...]:
    """Return the path from the host bridge, named after the topmost bus, to the parent."""
    path = [address]
    while path[-1] in items and (parent := items[path[-1]].parent):
        if parent in path:
            raise ValueError(f"pci: {path[-1]}: a device cannot be its own ancestor")
        path.append(parent)
    return (f"pci{path[-1].rpartition(':')[0]}", *reversed(path[1:]))
