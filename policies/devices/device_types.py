"""The types of devices, and the vendors of GPUs: one row each, which scans, requests, files and metrics all follow.

A new type or vendor is a row here. Source of the classes: PCI Code and ID Assignment Specification; of the vendors'
numbers the PCI ID Repository; of the resources the vendors' device plugins, and Koordinator's API.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from sysfs.model import Device

GPU: Final = "gpu"
RDMA: Final = "rdma"
NIC: Final = "nic"

KOORDINATOR: Final = "koordinator.sh"
OWN_DOMAIN: Final = "cri-proxy.io"
"""The domain of resources that Koordinator has none for."""


GPU_VENDOR: Final = "node.koordinator.sh/gpu-vendor"
"""The label of a node that names the vendor of its GPUs."""


@dataclass(frozen=True, slots=True)
class Vendor:
    """A vendor of GPUs. ``name`` is that of Koordinator's label ``gpu-vendor`` where it has one.

    ``pci_id`` is its number on PCI; ``resource`` asks for whole GPUs of its own and is the kind of their CDI names, ''
    where its device plugin has another unit.
    """

    name: str
    pci_id: int
    resource: str = ""


AMD_MODES: Final = ("spx", "dpx", "tpx", "qpx", "cpx")
"""Compute partitions of a GPU of AMD's: one, two, three, four, or one for each die."""
AMD_PARTS: Final = tuple(f"amd.com/{mode}_nps{memory}" for mode in AMD_MODES for memory in (1, 2, 4, 8))
"""The resources of its device plugin for GPUs in partitions, where nodes have those of several kinds."""

NVIDIA: Final = Vendor("nvidia", 0x10DE, "nvidia.com/gpu")
VENDORS: Final = (
    NVIDIA,
    Vendor("hygon", 0x1D94, "dcu.com/gpu"),
    Vendor("amd", 0x1002, "amd.com/gpu"),
    Vendor("habana", 0x1DA3, "habana.ai/gaudi"),
    Vendor("huawei", 0x19E5),
    Vendor("cambricon", 0xCABC),
)
RESOURCE_OF: Final[Mapping[str, str]] = {vendor.name: vendor.resource for vendor in VENDORS if vendor.resource}
"""The resource that asks for whole GPUs, by vendor."""
VENDOR_OF: Final[Mapping[str, str]] = {resource: name for name, resource in RESOURCE_OF.items()}
_NAMES: Final = {vendor.pci_id: vendor.name for vendor in VENDORS}

_3D: Final = 0x0302
_DISPLAYS: Final = (0x0300, _3D, 0x0380)
_DISPLAY_BASE: Final = 0x03
_ACCELERATORS: Final = 0x1200
_NETWORK: Final = (0x0200, 0x0207)
# They compute nothing. Of management processors: ASPEED, Matrox, Silicon Motion, XGI.
# Of virtual machines: QEMU, virtio, QXL, VMware, Hyper-V, VirtualBox, Cirrus, EC2, Parallels.
_CONSOLE_VENDORS: Final = frozenset(
    (0x1A03, 0x102B, 0x126F, 0x18CA, 0x1234, 0x1AF4, 0x1B36, 0x15AD, 0x1414, 0x80EE, 0x1013, 0x1D0F, 0x1AB8)
)
# Consoles of makers of GPUs: ES1000 and its forerunner of AMD, the iBMC of Huawei.
_CONSOLES: Final = frozenset(((0x1002, 0x515E), (0x1002, 0x5159), (0x19E5, 0x1711)))


def _computes(device: Device) -> bool:
    if device.class_code >> 8 == _ACCELERATORS:
        return device.vendor in _NAMES
    return device.vendor not in _CONSOLE_VENDORS and (device.vendor, device.device) not in _CONSOLES


def _has_rdma(device: Device) -> bool:
    return device.has_rdma


def _any(_: Device) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class DeviceType:
    """A type of devices.

    A scan finds it by its PCI classes (base and subclass), and takes those functions of them that ``is_one`` and no
    type before is. ``words`` begin the words in names of plugins' resources. ``domain`` is that of the resource that
    asks for it, which is named after it.
    """

    name: str
    pci_classes: tuple[int, ...]
    words: tuple[str, ...]
    is_one: Callable[[Device], bool] = _any
    domain: str = KOORDINATOR


# Of the vendors that Koordinator's API knows, and of others whose plugins have words of their own.
_GPU_WORDS: Final = ("gpu", "sgpu", "vgpu", "gaudi", "dcu", "npu", "mlu", "metax", "xpu", "gcu", *AMD_MODES)

TYPES: Final = (
    # VGA, 3D and other display controllers; processing accelerators of those who make GPUs: MI300X, Gaudi.
    DeviceType(GPU, (*_DISPLAYS, _ACCELERATORS), _GPU_WORDS, _computes),
    # Ethernet and InfiniBand, with a driver that gives it verbs.
    DeviceType(RDMA, _NETWORK, ("rdma", "hca", "sriov", "roce", "infiniband"), _has_rdma),
    DeviceType("fpga", (_ACCELERATORS,), ("fpga",)),
    DeviceType(NIC, _NETWORK, ("nic",), domain=OWN_DOMAIN),
)
DEVICE_TYPES: Final = tuple(each.name for each in TYPES)


def type_of(device: Device) -> str:
    """Return the type of a PCI function; '' for one of no type."""
    return next((each.name for each in _by_class(device) if each.is_one(device)), "")


def is_accelerator(device: Device) -> bool:
    """Return whether a function that no list names is there to compute, by its class and vendor alone.

    Narrower than a type, and wider: any 3D controller and processing accelerator is; a VGA or other display controller
    of another vendor than NVIDIA is not, as it may be the console of the board's management.
    """
    is_display = device.class_code >> 16 == _DISPLAY_BASE and device.vendor == NVIDIA.pci_id
    return device.class_code >> 8 in (_3D, _ACCELERATORS) or is_display


def types_alike(device: Device) -> tuple[str, ...]:
    """Return the types under which a list may have this function: those of its PCI class."""
    return tuple(each.name for each in _by_class(device))


def vendor_of(device: Device) -> str:
    """Return the vendor's name, of one that is not listed here its PCI number in four digits of base 16."""
    return _NAMES.get(device.vendor, f"{device.vendor:04x}")


def _by_class(device: Device) -> tuple[DeviceType, ...]:
    return tuple(each for each in TYPES if device.class_code >> 8 in each.pci_classes)
