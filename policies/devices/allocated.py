"""The devices of an inventory that Koordinator's scheduler has chosen for a pod. Pure."""

from collections.abc import Iterator, Mapping

from policies.device_grants import DeviceKey
from policies.devices.annotations import AllocatedDevice, DeviceAnnotations
from policies.devices.identity import address_in, identities_of, uuid_in
from policies.devices.model import DeviceInventory


def named_only(inventory: DeviceInventory, annotations: DeviceAnnotations) -> Mapping[DeviceKey, str] | None:
    """Return the devices that may be taken, each with the VF to take of it or ''; None where none were chosen.

    Devices of types that were not chosen may all be. What was chosen is known by its identifier where the inventory has
    that, else by its number.
    """
    if annotations.allocated is None:
        return None
    kinds = {each.kind for each in annotations.allocated}
    free = {device.key: "" for device in inventory.devices if device.kind not in kinds}
    return free | dict(_chosen(inventory, annotations.allocated))


def _chosen(inventory: DeviceInventory, allocated: tuple[AllocatedDevice, ...]) -> Iterator[tuple[DeviceKey, str]]:
    for each in allocated:
        told = address_in(each.id) or uuid_in(each.id)
        alike = [device for device in inventory.devices if device.kind == each.kind]
        by_id = [device for device in alike if told and told in identities_of(device)]
        for device in by_id or [device for device in alike if device.minor == each.minor]:
            known = (vf.bus for group in device.vf_groups for vf in group.vfs)
            vf = next((bus for bus in known if each.vf and address_in(bus) == address_in(each.vf)), "")
            if vf or not each.vf:  # a virtual function that is not listed cannot be given
                yield device.key, vf
