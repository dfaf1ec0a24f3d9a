"""Read how PCI functions are given out: their drivers, VFIO groups, RDMA devices and interfaces in sysfs.

Sources: Documentation/ABI/testing/sysfs-bus-pci (``driver``, ``physfn``), sysfs-kernel-iommu_groups, Documentation/
driver-api/vfio.rst (device nodes of groups), Documentation/infiniband/user_verbs.rst and user_mad.rst of the kernel.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cri_proxy.cri.devices.pci_functions import FunctionsByAddress, PciFunction, by_address
from sysfs.errors import SysfsBaseError
from sysfs.pci import BUS, VERBS, is_address
from sysfs.reader import DirectoryTree, TreeReader

_VFIO_DRIVERS: Final = "vfio"  # vfio-pci, and variants of vendors that migrate: mlx5-vfio-pci is mlx5_vfio_pci in sysfs
_WITHOUT_IOMMU: Final = "vfio-noiommu"  # the name of a group that vfio makes where there is no IOMMU
_CONNECTION_MANAGER: Final = "sys/class/misc/rdma_cm"


def pci_function(root: Path, address: str) -> PciFunction | None:
    """Return the function at this address; None where the machine has none. ``root`` holds ``sys``. Blocks.

    Raises SysfsBaseError.
    """
    reader = TreeReader(DirectoryTree(root))
    home = f"{BUS}/{address}"
    if not is_address(address) or not reader.names(home):
        return None
    driver = _target(reader, f"{home}/driver")
    is_vfio = _VFIO_DRIVERS in driver.replace("_", "-").split("-")
    verbs = tuple(name for name in reader.names(f"{home}/infiniband_verbs") if name.startswith("uverbs"))
    return PciFunction(
        address,
        driver,
        _group_node(reader, home) if is_vfio else "",
        tuple(name for name in reader.names(f"{home}/iommu_group/devices") if name != address) if is_vfio else (),
        tuple(reader.names(f"{home}/{VERBS}")),
        verbs,
        tuple(name for name in reader.names(f"{home}/infiniband_mad") if name.startswith("umad")),
        bool(reader.names(_CONNECTION_MANAGER)),
        tuple(reader.names(f"{home}/net")),
        _target(reader, f"{home}/physfn"),
    )


def functions_at(root: Path, addresses: Sequence[str]) -> FunctionsByAddress:
    """Return the functions at these addresses, without those that are not there or cannot be read. Blocks."""
    return by_address(_readable(root, addresses))


def _readable(root: Path, addresses: Iterable[str]) -> Iterable[PciFunction]:
    for address in addresses:
        with suppress(SysfsBaseError, OSError):
            found = pci_function(root, address)
            if found is not None:
                yield found


def _group_node(reader: TreeReader, home: str) -> str:
    """Return the device node of the function's IOMMU group, '' where it is in none."""
    group = _target(reader, f"{home}/iommu_group")
    is_unsafe = reader.optional(reader.text, f"{home}/iommu_group/name", "") == _WITHOUT_IOMMU
    return f"/dev/vfio/{'noiommu-' if is_unsafe else ''}{group}" if group else ""


def _target(reader: TreeReader, path: str) -> str:
    """Return the last part of what a link leads to, '' where there is none."""
    return reader.optional(reader.link, path, "").rpartition("/")[2]
