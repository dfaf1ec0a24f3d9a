"""Tell which containers hold devices of the inventory, and where one has what another was to have alone. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from policies.base import Grant
from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.devices.allocate import DeviceAllocator
from policies.devices.model import WHOLE, InventoryDevice
from policies.devices.usage import taken
from policies.topology_aware.supply.context import PlacementContext


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """What one container holds of one device. One that no source lists any more is no rival (``is_here``)."""

    holder: Grant
    device: DeviceGrant
    is_here: bool = True


def claims_of(grants: Iterable[Grant], allocator: DeviceAllocator | None) -> tuple[DeviceClaim, ...]:
    """Return what these containers hold of the devices that are here, in their order."""
    held = ((grant, device) for grant in grants for device in grant.devices)
    if allocator is None:
        return tuple(DeviceClaim(grant, device) for grant, device in held)
    found = ((grant, device, allocator.joined.likely_here(device)) for grant, device in held)
    return tuple(DeviceClaim(grant, here or device, here is not None) for grant, device, here in found)


def held_by_others(context: PlacementContext) -> tuple[DeviceGrant, ...]:
    """Return what other pods hold, and what containers without a grant have."""
    pod = context.request.container.pod_uid
    grants = (grant for grant in context.others if grant.devices and grant.container.pod_uid != pod)
    return (*(held for grant in grants for held in grant.devices), *context.in_use)


def held_by_pod(context: PlacementContext) -> tuple[DeviceGrant, ...]:
    """Return what other containers of the pod hold, and what this one has: others chose it, or it is chosen by cost."""
    pod = context.request.container.pod_uid
    fellows = (grant for grant in context.others if grant.container.pod_uid == pod)
    return (*(held for grant in fellows for held in grant.devices), *context.request.given, *context.chosen)


def with_claims_counted(
    allocator: DeviceAllocator, devices: tuple[DeviceGrant, ...], claims: Collection[DeviceClaim], pod: str
) -> tuple[tuple[DeviceGrant, ...], Mapping[DeviceGrant, tuple[DeviceClaim, ...]]]:
    """Return what a running container holds, and by device the claims of others that leave it too little of it.

    It has them open, so they stay counted: shares as devices that others chose, which it does not get again. What
    others chose for another container changes nothing for this one. ``pod`` is the uid of its pod.
    """
    claims = [claim for claim in claims if not claim.device.is_given]
    found: dict[DeviceGrant, tuple[DeviceClaim, ...]] = {}
    kept = []
    for device in devices:
        here = None if device.is_given else allocator.joined.likely_here(device)
        others = () if here is None else tuple(rivals(allocator, here, claims, pod, groups=False))
        if others:
            found[device] = others
        kept.append(replace(device, is_given=True) if others and not device.cost_name else device)
    return tuple(kept), found


def rivals(
    allocator: DeviceAllocator, device: DeviceGrant, claims: Collection[DeviceClaim], pod: str, *, groups: bool = True
) -> Iterator[DeviceClaim]:
    """Yield the claims of others that this one, of the pod with this uid, cannot stand beside.

    Either has the device alone, or its PCIe as against other pods. Shares stand beside each other up to a whole device;
    where they are more, all of them are meant. ``groups``: claims of other devices on the PCIe count, too.
    """
    claims = [claim for claim in claims if claim.is_here]
    here = next((found for found in allocator.inventory.devices if found.key == device.key), None)
    if here is None:
        same = [claim for claim in claims if isinstance(device.minor, str) and claim.device.key == device.key]
        yield from same if device.amount + sum(claim.device.amount for claim in same) > WHOLE else ()
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
