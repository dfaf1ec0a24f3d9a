"""Decide which content of an inventory file counts, and join what it lists with what a scan of PCI finds."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from cri_proxy.in_force.file_state import Judged, judge_one
from cri_proxy.in_force.text_files import FoundFiles, OneTextFile
from cri_proxy.inventory.file import INVENTORY_FORM, read_inventory_text
from cri_proxy.inventory.numbers import scan_name
from policies.device_grants import DeviceKey
from policies.devices import EMPTY_INVENTORY, DeviceInventory, InventoryDevice, PciePath


@dataclass(frozen=True, slots=True)
class InventoryFile(OneTextFile):
    """The file that lists a node's devices."""

    def judge(self, found: FoundFiles, kept: Mapping[str, str]) -> Judged[DeviceInventory]:
        """Return what it lists, or did when it could be used last."""
        return judge_one(found, kept, _read, EMPTY_INVENTORY)


def with_scanned(
    listed: DeviceInventory, scanned: DeviceInventory, before: DeviceInventory = EMPTY_INVENTORY
) -> DeviceInventory:
    """Return both inventories as one: a device at the same PCI address is the same one.

    The file's word counts, and the scan fills in what it leaves out. It adds no device of a type of which the file has
    one without a full address, or of a type that the file may mean. Devices that only the scan finds keep the minor
    that they had ``before``. Others get the next minor of their type, by address, that nothing has or had. One that had
    another type is known by that, too. A VF that the file lists as a device is no VF of another one.
    """
    by_name = {scan_name(device): device for device in scanned.devices}
    devices = [_filled(device, by_name.pop(scan_name(device), None)) for device in listed.devices]
    had = {(device.kind, name): device.minor for device in before.devices if (name := scan_name(device))}
    taken = {device.key for device in devices}
    # The file may use a number that a scan has given: its word counts.
    known = {key: minor for key, minor in had.items() if (key[0], minor) not in taken}
    # A number that another device had stays free: a container that holds that device would hold this one by it.
    taken |= {device.key for device in before.devices}
    nameless = {device.kind for device in listed.devices if not scan_name(device)}
    for device in by_name.values():
        # It may be the one that the file has without an address, and would be given twice.
        if not nameless.isdisjoint((device.kind, *device.alike)):
            continue
        # Containers hold devices by their minors.
        minor = known.get((device.kind, scan_name(device)), device.minor)
        if (device.kind, scan_name(device)) not in known:
            while (device.kind, minor) in taken:
                minor += 1
        taken.add((device.kind, minor))
        devices.append(replace(device, minor=minor))
    # The scan has such a VF as a function of its physical device too: two containers could get it.
    own = {device.path.bus for device in listed.devices if device.path.bus}
    found = tuple(_without_vfs(device, own) for device in devices)
    return replace(listed, devices=_with_former_keys(found, before))


def _with_former_keys(devices: Sequence[InventoryDevice], before: DeviceInventory) -> tuple[InventoryDevice, ...]:
    """Return the devices with types and minors by which their addresses were known before, and nothing else is now."""
    here = {device.key for device in devices}
    former: dict[str, set[DeviceKey]] = {}
    for device in before.devices:
        if name := scan_name(device):
            former.setdefault(name, set()).update({device.key, *device.formerly} - here)
    return tuple(replace(device, formerly=tuple(sorted(former.get(scan_name(device), ())))) for device in devices)


def _without_vfs(device: InventoryDevice, own: Collection[str]) -> InventoryDevice:
    """Return the device without the VFs that the file lists as devices of their own."""
    if not any(vf.bus in own for group in device.vf_groups for vf in group.vfs):
        return device
    left = (replace(group, vfs=tuple(vf for vf in group.vfs if vf.bus not in own)) for group in device.vf_groups)
    return replace(device, vf_groups=tuple(group for group in left if group.vfs))


def _read(name: str, text: str) -> DeviceInventory:
    with INVENTORY_FORM.redacted(text):
        return read_inventory_text(text, name)


def _filled(device: InventoryDevice, scanned: InventoryDevice | None) -> InventoryDevice:
    if scanned is None:
        return device
    path = PciePath(
        device.path.root or scanned.path.root, device.path.switches or scanned.path.switches, device.path.bus
    )
    return replace(
        device,
        numa=scanned.numa if device.stated_node is None else device.numa,
        pcie=device.pcie or scanned.pcie,
        path=path,
        vf_groups=device.vf_groups or scanned.vf_groups,
        vendor=device.vendor or scanned.vendor,
        part_of=device.part_of or scanned.part_of,
        statements=(*device.stated, *scanned.statements),
    )
