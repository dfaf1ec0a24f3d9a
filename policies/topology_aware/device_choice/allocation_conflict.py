"""Tell which containers hold devices of the inventory, and where one has what another was to have alone. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from policies.base import Grant
from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.devices.allocate import DeviceAllocator
from policies.devices.model import WHOLE, InventoryDevice
from policies.devices.usage import taken


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """What one container holds of one device."""

    holder: Grant
    device: DeviceGrant


def claims_of(grants: Iterable[Grant]) -> tuple[DeviceClaim, ...]:
    """Return what these containers hold, in their order."""
    return tuple(DeviceClaim(grant, device) for grant in grants for device in grant.allocated)


def with_claims_counted(
    allocator: DeviceAllocator, allocated: tuple[DeviceGrant, ...], claims: Collection[DeviceClaim]
) -> tuple[tuple[DeviceGrant, ...], tuple[DeviceClaim, ...]]:
    """Return what a running container holds, and the claims of others that leave it too little of its devices.

    It has them open, so they stay counted: as devices that others chose, which it does not get again. What others
    chose for another container changes nothing for this one.
    """
    claims = [claim for claim in claims if not claim.device.is_given]
    found: list[DeviceClaim] = []
    kept = []
    for device in allocated:
        others = () if device.is_given else tuple(rivals(allocator, device, claims, groups=False))
        found += others
        kept.append(replace(device, is_given=True) if others else device)
    return tuple(kept), tuple(found)


def rivals(
    allocator: DeviceAllocator, device: DeviceGrant, claims: Collection[DeviceClaim], *, groups: bool = True
) -> Iterator[DeviceClaim]:
    """Yield the claims of others that this one cannot stand beside, by what either is to have alone.

    Shares stand beside each other up to a whole device; where they are more, all of them are meant. ``groups``: claims
    count, too, that exclude others from a PCIe.
    """
    known = {found.key: found for found in allocator.inventory.devices}
    here = known.get(device.key)
    if here is None:
        return
    same = [claim for claim in claims if claim.device.key == device.key]
    is_full = _is_over(here, [device, *(claim.device for claim in same)])
    for claim in claims:
        if claim.device.key == device.key:
            if is_full or (device.vf and claim.device.vf == device.vf):
                yield claim
        elif groups and claim.device.kind == device.kind and claim.device.key in known:
            policies = (device.exclusive, claim.device.exclusive)
            is_near = allocator.group_of[claim.device.key] == allocator.group_of[device.key]
            if is_near and ExclusivePolicy.PCIE_LEVEL in policies:
                yield claim


def _is_over(here: InventoryDevice, grants: list[DeviceGrant]) -> bool:
    """Return whether these grants take more of a device than it has, or one of several is to have it alone."""
    amounts = [taken(grant, here) for grant in grants]
    is_alone = len(grants) > 1 and any(grant.exclusive for grant in grants)
    return is_alone or sum(units for units, _ in amounts) > WHOLE or sum(memory for _, memory in amounts) > WHOLE
