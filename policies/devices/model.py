"""The devices of a node: their place in the PCI tree and on NUMA nodes, what they have, and which GPUs may go together.

The words and units are those of Koordinator's Device object: a whole device has 100 units, of GPUs 100 of the core and
100 of the memory.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from policies.device_grants import DeviceKey
from policies.devices.costs import NO_DEVICES, Inventory
from policies.devices.device_types import DEVICE_TYPES, NVIDIA
from policies.devices.links import LinkMatrix
from sysfs.cpuset import NodeSet, gathered

VF_UNITS: Final = 1
"""The units that a virtual function takes, as in Koordinator's examples: no one else gets the whole device."""

GPU_MEMORY: Final = "koordinator.sh/gpu-memory"
"""The resource that says how many bytes of memory a GPU has."""

_NO_LABELS: Final[Mapping[str, str]] = {}
_NO_RESOURCES: Final[Mapping[str, int]] = {}
# Addresses and root complexes have digits of base 16 in fixed places: their texts sort as their numbers do.
_PCI_NAME = re.compile(r"(pci)?[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}.*")
_NUMBER = re.compile(r"([0-9]+)")


@dataclass(frozen=True, slots=True)
class VirtualFunction:
    """A virtual function (SR-IOV) of a device; ``bus`` is its PCI address."""

    minor: int
    bus: str


@dataclass(frozen=True, slots=True)
class VfGroup:
    """Virtual functions of a device that have the same labels."""

    vfs: tuple[VirtualFunction, ...]
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)


@dataclass(frozen=True, slots=True)
class PciePath:
    """Where a device is in the PCI tree: root complex (``pci0000:3a``), bridges and switches below it, own address.

    All are empty where they are not known.
    """

    root: str = ""
    switches: tuple[str, ...] = ()
    bus: str = ""


@dataclass(frozen=True, slots=True)
class Statement:
    """The facts that one source states of a device; an empty one is not stated. ``nodes``: it is at one of these."""

    source: str
    nodes: NodeSet = NodeSet()
    pcie: str = ""
    path: PciePath = PciePath()
    uuid: str = ""


@dataclass(frozen=True, slots=True)
class InventoryDevice:
    """A device. ``minor`` tells it from others of its ``kind``.

    ``numa`` is its NUMA node, None where it is unknown; ``is_nowhere``: a source states that it is at no node. Devices
    with the same ``pcie`` are on the same PCIe; one without is on a PCIe of its own. ``resources`` is what it has
    beside its 100 units, in bytes or pieces. ``uuid`` is the identifier that its driver gives it, '' where it has none.
    ``vendor`` is that of a GPU as sources name it.
    ``statements`` are those of its sources, in the order in which they count; the same device is the same whichever
    source lists it. ``alike`` are the types under which a list may have it, of which its own is one. ``formerly`` are
    types and minors of its address before it had these: containers may hold it by them. ``ailment`` is why it is
    unhealthy, '' where no source says. ``parts`` are identifiers of a GPU's MIG instances.
    ``part_of`` is the PCI address of the GPU that a device is a partition of (AMD's), '' where it is none.
    """

    kind: str
    minor: int
    numa: int | None = None
    pcie: str | None = None
    path: PciePath = PciePath()
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    is_healthy: bool = True
    resources: Mapping[str, int] = field(default_factory=lambda: _NO_RESOURCES)
    vf_groups: tuple[VfGroup, ...] = ()
    uuid: str = ""
    vendor: str = ""
    statements: tuple[Statement, ...] = field(default=(), compare=False)  # a file whose lines have moved lists the same
    is_nowhere: bool = False
    alike: tuple[str, ...] = field(default=(), compare=False)
    formerly: tuple[DeviceKey, ...] = ()
    ailment: str = field(default="", compare=False)
    parts: tuple[str, ...] = ()
    part_of: str = ""

    @property
    def stated(self) -> tuple[Statement, ...]:
        """The statements of its sources; of a device without any that of the inventory."""
        return self.statements or self.stated_by("the inventory").statements

    def stated_by(self, source: str) -> "InventoryDevice":
        """Return the device with all that it is as the statement of this source alone."""
        nodes = NodeSet() if self.numa is None else NodeSet.of((self.numa,))
        return replace(self, statements=(Statement(source, nodes, self.pcie or "", self.path, self.uuid),))

    @property
    def key(self) -> DeviceKey:
        """Its type and minor."""
        return self.kind, self.minor

    @property
    def stated_node(self) -> int | None:
        """Its NUMA node as a file has it: -1 where no node is its own."""
        return -1 if self.is_nowhere else self.numa

    @property
    def maker(self) -> str:
        """Its vendor, be it by its identifier; '' where no source names one.

        >>> InventoryDevice("gpu", 0, uuid="GPU-5a").maker, InventoryDevice("gpu", 0, vendor="amd").maker
        ('nvidia', 'amd')
        """
        return self.vendor or (NVIDIA.name if self.uuid.startswith("GPU-") else "")


@dataclass(frozen=True, slots=True)
class GpuPartition:
    """GPUs that may be given together. Larger scores are better; ``bandwidth`` of their ring is None where unknown."""

    minors: tuple[int, ...]
    score: int = 1
    bandwidth: int | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class PcieGroup:
    """The devices on one PCIe, by type and minor. ``pcie`` is None for a device of which it is not known."""

    numa: int | None
    pcie: str | None
    devices: tuple[InventoryDevice, ...]

    def __str__(self) -> str:
        if self.pcie is not None:
            return f"PCIe {self.pcie}"
        return f"the unknown PCIe of {self.devices[0].kind} {self.devices[0].minor}"


@dataclass(frozen=True, slots=True)
class RegisteredDevice:
    """A device that computes, as a plugin has registered it with the kubelet, on the node ``numa``.

    ``names`` are all that the kubelet calls it and its parts; ``identity`` is the PCI address or the identifier of a
    driver that these tell, and ``vendor`` that of the resource, as ``device_types`` names it; '' where none is told.
    """

    numa: int
    names: tuple[str, ...]
    identity: str = ""
    vendor: str = ""


@dataclass(frozen=True, slots=True)
class DeviceInventory:
    """All devices of a node, the partitions that its GPUs are given in (None: no table), and labels of the node.

    ``links`` are those between its GPUs, where they are known: the GPU of minor N is the matrix's GPUN. ``costs`` are
    the devices that cost files list; which of them are the same as ``devices``, ``policies.devices.sources`` tells.
    ``registered`` are those that plugins give out: CPUs beside them are left to who asks for them.
    """

    devices: tuple[InventoryDevice, ...]
    partitions: tuple[GpuPartition, ...] | None = None
    node_labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS)
    links: LinkMatrix | None = None
    costs: Inventory = NO_DEVICES
    registered: tuple[RegisteredDevice, ...] = ()

    @property
    def statements(self) -> tuple[tuple[Statement, ...], ...]:
        """The statements of sources about each device, which equal inventories may have from other lines."""
        return tuple(device.statements for device in self.devices)

    def of(self, kind: str) -> tuple[InventoryDevice, ...]:
        """Return the devices of a type by minor."""
        return tuple(sorted((device for device in self.devices if device.kind == kind), key=lambda d: d.minor))


EMPTY_INVENTORY: Final = DeviceInventory(())
"""Of a node without such devices."""


def pcie_groups(devices: Iterable[InventoryDevice]) -> tuple[PcieGroup, ...]:
    """Return the groups by NUMA node and PCIe, the unknown ones last.

    A device whose NUMA node is unknown, and not stated to be none, is on the node of the others on its PCIe. The same
    name of a PCIe on two nodes means two: names are those of a node.
    """
    devices = tuple(devices)
    nodes: dict[str, set[int]] = {}
    for device in devices:
        if device.pcie is not None and device.numa is not None:
            nodes.setdefault(device.pcie, set()).add(device.numa)

    def place(device: InventoryDevice) -> tuple[int | None, str | None, DeviceKey | None]:
        known = nodes.get(device.pcie or "", set())
        is_open = device.stated_node is None and len(known) == 1
        numa = next(iter(known)) if is_open else device.numa
        return numa, device.pcie, device.key if device.pcie is None else None

    found = [
        PcieGroup(numa, pcie, tuple(sorted(group, key=lambda d: (DEVICE_TYPES.index(d.kind), d.minor))))
        for (numa, pcie, _), group in gathered((place(device), device) for device in devices).items()
    ]
    return tuple(sorted(found, key=_group_order))


def natural_order(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key in which ``pcie-2`` is before ``pcie-10``, and PCI addresses are in the order of their buses.

    >>> sorted(["pcie-10", "pcie-2", "0000:9a", "0000:10"], key=natural_order)
    ['0000:10', '0000:9a', 'pcie-2', 'pcie-10']
    """
    if _PCI_NAME.fullmatch(name):
        return ((0, 0, name.lower().removeprefix("pci")),)
    # Also of digits that are not ASCII: "²".isdigit() is true, and int("²") fails.
    parts = _NUMBER.split(name)
    return tuple((1, int(part), "") if part.isascii() and part.isdigit() else (2, 0, part) for part in parts)


def _group_order(group: PcieGroup) -> tuple[bool, int, bool, tuple[tuple[int, int, str], ...], int, int]:
    first = group.devices[0]
    kind = DEVICE_TYPES.index(first.kind)
    return group.numa is None, group.numa or 0, group.pcie is None, natural_order(group.pcie or ""), kind, first.minor
