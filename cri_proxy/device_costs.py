"""For authors of device plugins: what a PCI device costs to reach, from sysfs (docs/costs.md, "For device plugins").

``device_costs("0000:3b:00.0").memory_nodes`` is ``{0: 15, 1: 100}`` for a device at node 0 of a machine with two.
"""

from pathlib import Path

from policies.devices.costs import CostError, DeviceCosts, MachineCosts
from sysfs.discover import discover
from sysfs.pci import is_address

__all__ = ["DeviceCosts", "device_costs", "pci_address"]


def device_costs(device: str, sysfs_root: Path = Path("/")) -> DeviceCosts:
    """Return the costs of a device to CPUs, memory nodes and other PCI devices, from 0 (nearest) to 100.

    ``device`` is a PCI address, or a path of sysfs at or below the device, such as ``/sys/class/net/eth0``.
    ``sysfs_root`` is the directory that holds ``sys``. Raises CostError for an unknown device, SysfsBaseError for a
    tree that cannot be read.
    """
    return MachineCosts(discover(sysfs_root)).of_device(pci_address(device, sysfs_root))


def pci_address(device: str, sysfs_root: Path = Path("/")) -> str:
    """Return the address of a device that is given by its address, the domain optional, or by a path of sysfs.

    Raises CostError.
    """
    if "/" not in device:
        address = device.lower() if device.count(":") == 2 else f"0000:{device.lower()}"
        if is_address(address):
            return address
        raise CostError(0, device, "expected a PCI address like 0000:3b:00.0, or a path of sysfs")
    path = Path(device)
    if not path.is_relative_to(sysfs_root):
        path = sysfs_root / device.lstrip("/")
    for part in reversed(_real(path).parts):
        if is_address(part):
            return part
    raise CostError(0, device, "no such path at or below a PCI device; give one of /sys/bus/pci/devices")


def _real(path: Path) -> Path:
    """Return the path without links; an empty one where it does not exist."""
    try:
        return path.resolve(strict=True)
    except OSError:
        return Path()
