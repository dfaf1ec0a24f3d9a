"""Tell which containers hold devices of the inventory, and where one has what another was to have alone. Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace

from policies.base import Grant
from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.devices.allocate import DeviceAllocator
from policies.devices.model import WHOLE, InventoryDevice
from policies.devices.usage import taken
from policies.topology_aware.supply.context import PlacementContext


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """What one container holds of one device."""

    holder: Grant
    device: DeviceGrant


def claims_of(grants: Iterable[Grant]) -> tuple[DeviceClaim, ...]:
    """Return what these containers hold, in their order."""
    return tuple(DeviceClaim(grant, device) for grant in grants for device in grant.allocated)


def held_by_others(context: PlacementContext) -> tuple[DeviceGrant, ...]:
    """Return what other pods hold of the inventory's devices, and what containers without a grant have."""
    pod = context.request.container.pod_uid
    grants = (grant for grant in context.others if grant.container.pod_uid != pod)
    return (*(held for grant in grants for held in grant.allocated), *context.in_use)


def held_by_pod(context: PlacementContext) -> tuple[DeviceGrant, ...]:
    """Return what other containers of the pod hold, and what others chose for this one."""
    pod = context.request.container.pod_uid
    fellows = (grant for grant in context.others if grant.container.pod_uid == pod)
    return (*(held for grant in fellows for held in grant.allocated), *context.request.given)


def with_claims_counted(
    allocator: DeviceAllocator, allocated: tuple[DeviceGrant, ...], claims: Collection[DeviceClaim], pod: str
) -> tuple[tuple[DeviceGrant, ...], tuple[DeviceClaim, ...]]:
    """Return what a running container holds, and the claims of others that leave it too little of its devices.

    It has them open, so they stay counted: as devices that others chose, which it does not get again. What others
    chose for another container changes nothing for this one. ``pod`` is the uid of its pod.
    """
    claims = [claim for claim in claims if not claim.device.is_given]
    found: list[DeviceClaim] = []
    kept = []
    for device in allocated:
        others = () if device.is_given else tuple(rivals(allocator, device, claims, pod, groups=False))
        found += others
        kept.append(replace(device, is_given=True) if others else device)
    return tuple(kept), tuple(found)


def rivals(
    allocator: DeviceAllocator, device: DeviceGrant, claims: Collection[DeviceClaim], pod: str, *, groups: bool = True
) -> Iterator[DeviceClaim]:
    """Yield the claims of others that this one, of the pod with this uid, cannot stand beside.

    Either has the device alone, or its PCIe as against other pods. Shares stand beside each other up to a whole device;
    where they are more, all of them are meant. ``groups``: claims of other devices on the PCIe count, too.
    """
    here = next((found for found in allocator.inventory.devices if found.key == device.key), None)
    if here is None:
        return
    group_of = allocator.group_of
    group = group_of[device.key]
    is_full = _is_over(here, [device, *(claim.device for claim in claims if claim.device.key == device.key)])
    for claim in claims:
        policies = (device.exclusive, claim.device.exclusive)
        is_apart = ExclusivePolicy.PCIE_LEVEL in policies and claim.holder.container.pod_uid != pod
        if claim.device.key == device.key:
            is_same_vf = bool(device.vf) and claim.device.vf == device.vf
            if is_full or is_apart or is_same_vf or ExclusivePolicy.DEVICE_LEVEL in policies:
                yield claim
        elif groups and is_apart and claim.device.kind == device.kind and group_of.get(claim.device.key) == group:
            yield claim


def _is_over(here: InventoryDevice, grants: list[DeviceGrant]) -> bool:
    """Return whether these grants take more of a device than it has."""
    amounts = [taken(grant, here) for grant in grants]
    return sum(units for units, _ in amounts) > WHOLE or sum(memory for _, memory in amounts) > WHOLE
