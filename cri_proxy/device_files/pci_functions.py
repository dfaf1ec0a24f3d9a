"""Read how PCI functions are given out: their drivers, VFIO groups, RDMA devices and interfaces in sysfs.

Sources: Documentation/ABI/testing/sysfs-bus-pci (``driver``), sysfs-kernel-iommu_groups, Documentation/
driver-api/vfio.rst (device nodes of groups), Documentation/infiniband/user_verbs.rst and user_mad.rst of the kernel.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from cri_proxy.cri.devices.pci_functions import FunctionsByAddress, PciFunction

_FUNCTIONS: Final = "sys/bus/pci/devices"
_WITHOUT_IOMMU: Final = "vfio-noiommu"  # the name of a group that vfio makes where there is no IOMMU
_CONNECTION_MANAGER: Final = "sys/class/misc/rdma_cm"


def functions_at(root: Path, addresses: Sequence[str]) -> FunctionsByAddress:
    """Return the functions at these addresses, without those that the machine has not. ``root`` holds ``sys``. Blocks.

    What cannot be read of a function it has not, nor has the machine one of which nothing can be.
    """
    homes = {address: root / _FUNCTIONS / address for address in addresses}
    return {address: _function(root, address, home) for address, home in homes.items() if _is_directory(home)}


def _function(root: Path, address: str, home: Path) -> PciFunction:
    bound = PciFunction(address, _target(home / "driver"))
    return replace(
        bound,
        vfio=_group_node(home / "iommu_group") if bound.is_vfio else "",
        rdma=_names(home / "infiniband"),
        verbs=tuple(name for name in _names(home / "infiniband_verbs") if name.startswith("uverbs")),
        mads=tuple(name for name in _names(home / "infiniband_mad") if name.startswith("umad")),
        has_connection_manager=_is_directory(root / _CONNECTION_MANAGER),
        interfaces=_names(home / "net"),
    )


def _group_node(group: Path) -> str:
    """Return the device node of an IOMMU group; '' where the function is in none."""
    number = _target(group)
    try:
        is_unsafe = (group / "name").read_bytes().strip() == _WITHOUT_IOMMU.encode()
    except OSError:
        is_unsafe = False  # most groups have no name
    return f"/dev/vfio/{'noiommu-' if is_unsafe else ''}{number}" if number else ""


def _is_directory(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # EIO, EACCES: other errors than that of a missing file
        return False


def _target(link: Path) -> str:
    """Return the last part of what a link leads to, '' where there is none."""
    try:
        return link.readlink().name
    except OSError:
        return ""


def _names(directory: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(path.name for path in directory.iterdir()))
    except OSError:
        return ()
