"""Decide which content of an inventory file counts, and join what it lists with what a scan of PCI finds."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from cri_proxy.in_force.file_state import EMPTY, FileState, JudgedFile, where_text
from cri_proxy.in_force.text_files import FoundFiles, TextFile, read_one
from cri_proxy.inventory.file import DIALECT, INVENTORY_FORM, read_inventory
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices.model import EMPTY_INVENTORY, DeviceInventory, InventoryDevice, PciePath
from sysfs.pci import is_address


@dataclass(frozen=True, slots=True)
class ListedDevices:
    """What an inventory file lists; ``files`` has the file, unless none is read."""

    inventory: DeviceInventory = EMPTY_INVENTORY
    files: tuple[JudgedFile, ...] = ()


def judge_inventory(found: FoundFiles, kept: Mapping[str, str]) -> ListedDevices:
    """Return what the file lists; ``kept`` has the text that was in force, which counts where this one is bad."""
    files = found.files or tuple(TextFile(name, "", found.problem) for name in kept)
    for file in files:
        try:
            return ListedDevices(_read(file), (JudgedFile(file.name, FileState.IN_FORCE),))
        except DocumentError as error:
            return _fallen_back(file.name, kept.get(file.name), error)
    return ListedDevices()


def inventory_problems(path: str) -> tuple[str, ...]:
    """Return why the file at this path ('' = none) cannot be used, with its line. Blocks on the disk."""
    if not path:
        return ()
    found = read_one(Path(path))
    return tuple(f"{where_text(found, f)}: {f.problem}" for f in judge_inventory(found, {}).files if f.problem)


def with_scanned(
    listed: DeviceInventory, scanned: DeviceInventory, before: DeviceInventory = EMPTY_INVENTORY
) -> DeviceInventory:
    """Return both inventories as one: a device at the same PCI address is the same one.

    The file's word counts, and the scan fills in what it leaves out. It adds no device of a type of which the file has
    one without a full address: that could be the same one, and would be given twice. Devices that only the scan finds
    keep the minor that they had ``before``: containers hold devices by these. Others get the next minor of their type,
    by address, that nothing has or had. A VF that the file lists as a device is no VF of another one.
    """
    by_bus = {device.path.bus: device for device in scanned.devices}
    devices = [_filled(device, by_bus.pop(device.path.bus, None)) for device in listed.devices]
    had = {(device.kind, device.path.bus): device.minor for device in before.devices if device.path.bus}
    taken = {device.key for device in devices}
    known = {key: minor for key, minor in had.items() if (key[0], minor) not in taken}
    taken |= {device.key for device in before.devices}
    nameless = {device.kind for device in listed.devices if not is_address(device.path.bus)}
    for device in by_bus.values():
        if device.kind in nameless:
            continue
        minor = known.get((device.kind, device.path.bus), device.minor)
        if (device.kind, device.path.bus) not in known:
            while (device.kind, minor) in taken:
                minor += 1
        taken.add((device.kind, minor))
        devices.append(replace(device, minor=minor))
    own = {device.path.bus for device in listed.devices if device.path.bus}
    return replace(listed, devices=tuple(_without_vfs(device, own) for device in devices))


def _without_vfs(device: InventoryDevice, own: Collection[str]) -> InventoryDevice:
    """Return the device without the VFs that the file lists as devices of their own."""
    if not any(vf.bus in own for group in device.vf_groups for vf in group.vfs):
        return device
    left = (replace(group, vfs=tuple(vf for vf in group.vfs if vf.bus not in own)) for group in device.vf_groups)
    return replace(device, vf_groups=tuple(group for group in left if group.vfs))


def _read(file: TextFile) -> DeviceInventory:
    """Return the inventory of a file. Raises DocumentError."""
    if file.problem:
        raise DocumentError(file.name, file.line, file.problem)
    if not file.text.strip():
        raise DocumentError(file.name, 0, EMPTY)
    with INVENTORY_FORM.redacted(file.text):
        roots = list(YamlField.documents(file.text, file.name, DIALECT))
        for root in roots[1:]:
            raise root.refuse("another document begins here: an inventory file holds one")
        return read_inventory(roots[0]) if roots else EMPTY_INVENTORY


def _fallen_back(name: str, kept: str | None, error: DocumentError) -> ListedDevices:
    """Return what the last good text lists, if there is any."""
    if kept is not None:
        try:
            before = _read(TextFile(name, kept))
        except DocumentError:
            pass
        else:
            return ListedDevices(before, (JudgedFile(name, FileState.KEPT, error.problem, error.line),))
    return ListedDevices(files=(JudgedFile(name, FileState.REJECTED, error.problem, error.line),))


def _filled(device: InventoryDevice, scanned: InventoryDevice | None) -> InventoryDevice:
    if scanned is None:
        return device
    path = PciePath(
        device.path.root or scanned.path.root, device.path.switches or scanned.path.switches, device.path.bus
    )
    return replace(
        device,
        numa=scanned.numa if device.numa is None else device.numa,
        pcie=device.pcie or scanned.pcie,
        path=path,
        vf_groups=device.vf_groups or scanned.vf_groups,
    )
