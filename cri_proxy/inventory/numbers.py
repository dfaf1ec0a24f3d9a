"""Keep the numbers that a node's devices have by their PCI addresses, also over restarts: they are held by number.

A scan counts devices by address. If it counted from the beginning after a restart, those behind one that is gone would
have other numbers than those by which saved grants and the kubelet know them. When a machine starts, nothing is held.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cri_proxy.in_force.state_file import StateFile
from policies.devices import DEVICE_TYPES, DeviceInventory, InventoryDevice, PciePath
from sysfs.gpu_partitions import is_partition
from sysfs.pci import is_address

_BOOT: Final = "proc/sys/kernel/random/boot_id"
# A node has some hundred; what is gone is forgotten above this.
_MOST: Final = 4096
_MAX_MINOR: Final = 1 << 20

NumberedDevice = tuple[str, str, int]
"""Type, PCI address or name of a partition, minor."""


def scan_name(device: InventoryDevice) -> str:
    """Return the name by which scans know a device: its PCI address, or of a partition its own; '' without both."""
    return next((name for name in (device.path.bus, device.uuid) if is_address(name) or is_partition(name)), "")


def _gone(kind: str, name: str, minor: int) -> InventoryDevice:
    """Return a device of which but number and name are known."""
    if is_partition(name):
        return InventoryDevice(kind, minor, uuid=name)
    return InventoryDevice(kind, minor, path=PciePath(bus=name))


@dataclass(frozen=True, slots=True)
class DeviceNumbers:
    """The numbers of devices that are or were there since the machine's start, which ``boot`` tells from others.

    A device stands there once, and so does a number of a type.
    """

    devices: tuple[NumberedDevice, ...] = ()
    boot: str = ""

    def after(self, inventory: DeviceInventory) -> "DeviceNumbers":
        """Return these with the numbers of this inventory, whose word counts."""
        now = [(device.kind, name, device.minor) for device in inventory.devices if (name := scan_name(device))]
        gone = self._without(inventory)[: max(0, _MOST - len(now))]
        return replace(self, devices=tuple(sorted((*now, *gone))))

    def beside(self, inventory: DeviceInventory) -> DeviceInventory:
        """Return the inventory with devices that are gone, of which but number and name are known."""
        gone = (_gone(*entry) for entry in self._without(inventory))
        return replace(inventory, devices=(*inventory.devices, *gone))

    def since(self, boot: str) -> "DeviceNumbers":
        """Return these if they are of this start of the machine, else none."""
        # No container outlives a boot, so that no device is held by these numbers after it.
        return self if self.boot == boot else DeviceNumbers(boot=boot)

    def _without(self, inventory: DeviceInventory) -> list[NumberedDevice]:
        """Return those of which this inventory has neither the address nor the number."""
        there = {(device.kind, scan_name(device)) for device in inventory.devices}
        given = {device.key for device in inventory.devices}
        return [entry for entry in self.devices if entry[:2] not in there and (entry[0], entry[2]) not in given]


def boot_id(root: Path) -> str:
    """Return what tells this start of the machine from others, '' where that is unknown; ``root`` holds ``proc``.

    Source: random(4). Blocks.
    """
    try:
        return (root / _BOOT).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""


def find_numbers(state_dir: Path, boot: str) -> DeviceNumbers:
    """Return what was saved since this start of the machine, nothing of another one's. Blocks.

    Raises StoreError, with the reason, for a file that cannot be used.
    """
    return (NUMBERS.find(state_dir) or DeviceNumbers()).since(boot)


def _keys(numbers: DeviceNumbers) -> Mapping[str, object]:
    found: dict[str, dict[str, int]] = {}
    for kind, bus, minor in numbers.devices:
        found.setdefault(kind, {})[bus] = minor
    return {"boot": numbers.boot, "devices": found}


def _read(document: Mapping[str, object]) -> DeviceNumbers:
    boot, types = document.get("boot"), document.get("devices")
    if not isinstance(boot, str) or not isinstance(types, dict) or not types.keys() <= set(DEVICE_TYPES):
        raise ValueError
    devices = [(kind, bus, minor) for kind, minors in types.items() for bus, minor in _minors(minors)]
    if len({(kind, minor) for kind, _, minor in devices}) < len(devices):
        raise ValueError
    return DeviceNumbers(tuple(sorted(devices)), boot)


def _minors(minors: object) -> list[tuple[str, int]]:
    """Return addresses with their minors."""
    if not isinstance(minors, dict):
        raise ValueError
    for bus, minor in minors.items():
        is_number = isinstance(minor, int) and not isinstance(minor, bool) and 0 <= minor <= _MAX_MINOR
        if not is_number or not (is_address(bus) or is_partition(bus)):
            raise ValueError
    return list(minors.items())


NUMBERS: Final = StateFile("device-numbers.json", 1 << 20, _keys, _read)
