"""Fill in the identifiers of NVIDIA's GPUs that an inventory leaves out, as the driver has them by PCI address.

An index that a container's toolkit reads counts GPUs in the order of NVML, and the minor of a device node may be
another number: an identifier means the same GPU to all.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from cri_proxy.cri.device_names.names import pci_address
from cri_proxy.cri.device_names.nvidia_gpus import Gpu
from cri_proxy.device_files.nvidia_driver import nvidia_gpus
from cri_proxy.file_workers import FileCalls, FilesFailed
from policies.devices import GPU, DeviceInventory, InventoryDevice, Statement

DRIVER_FILES: Final = "the NVIDIA driver"
READ_SECONDS: Final = 2.0
"""For a file for each GPU; one of a GPU that has fallen off its bus may never answer."""

_PREFIX: Final = "GPU-"


class DriverIdentifiers:
    """Asks the driver each time: at the start of the machine it may not know them yet."""

    def __init__(self, root: Path, files: FileCalls) -> None:
        """``root`` is the directory that holds ``proc``. Nothing is read yet."""
        self._root = root
        self._files = files
        self._gpus: tuple[Gpu, ...] = ()

    async def filled(self, inventory: DeviceInventory) -> DeviceInventory:
        """Return it filled in with what the driver said last where that does not answer now."""
        if not any(map(_is_known, inventory.devices)):
            return inventory
        # The driver hangs once a GPU has fallen off its bus. Without identifiers, containers would be given indices,
        # which NVML then counts without that GPU.
        with suppress(FilesFailed):
            self._gpus = await self._files.run(DRIVER_FILES, _gpus_of, self._root, within_seconds=READ_SECONDS)
        return with_identifiers(inventory, self._gpus)


def identified(inventory: DeviceInventory, root: Path) -> DeviceInventory:
    """Return the inventory as ``DriverIdentifiers`` fills it. Blocks, for a driver that hangs without an end."""
    return with_identifiers(inventory, _gpus_of(root)) if any(map(_is_known, inventory.devices)) else inventory


def with_identifiers(inventory: DeviceInventory, gpus: Iterable[Gpu]) -> DeviceInventory:
    """Return the inventory with what the driver states of each GPU at a known address; it fills in what is lacking.

    >>> from policies.devices.model import PciePath
    >>> listed = DeviceInventory((InventoryDevice("gpu", 0, path=PciePath(bus="0000:3b:00.0")),))
    >>> with_identifiers(listed, [Gpu("0000:3b:00.0", minor=1, uuid="gpu-5a")]).devices[0].uuid
    'GPU-5a'
    """
    uuids = {gpu.address: _PREFIX + gpu.uuid.removeprefix(_PREFIX.lower()) for gpu in gpus if gpu.uuid}
    devices = tuple(
        _identified(device, uuids.get(pci_address(device.path.bus) or "", "")) if _is_known(device) else device
        for device in inventory.devices
    )
    return replace(inventory, devices=devices)


def _identified(device: InventoryDevice, uuid: str) -> InventoryDevice:
    if not uuid:
        return device
    statements = (*device.stated, Statement(DRIVER_FILES, uuid=uuid))
    return replace(device, uuid=device.uuid or uuid, statements=statements)


def _is_known(device: InventoryDevice) -> bool:
    """Return whether the driver can be asked for it by its address."""
    return device.kind == GPU and bool(device.path.bus)


def _gpus_of(root: Path) -> tuple[Gpu, ...]:
    return nvidia_gpus(root, with_parts=False).gpus
