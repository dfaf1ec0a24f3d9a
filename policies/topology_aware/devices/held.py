"""Tell what containers hold of the node's devices, and which of it others cannot stand beside. Pure."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from policies.base import Allocations, Grant, Request
from policies.device_grants import WHOLE, DeviceGrant, DeviceHolding, DeviceKey, ExclusivePolicy
from policies.devices import CUT, GPU, DeviceAllocator, InventoryDevice, JoinedDevices, Piece, Usage, taken
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.cpuset import gathered

UNHEALTHY = "unhealthy"
"""In place of a holder: no container gets the device."""


def asks_for_devices(request: Request) -> bool:
    """Return whether devices are to be chosen for a container, or others chose some."""
    asked = request.preferences.devices
    return bool(asked.counts or asked.requests or request.given)


def fixed_devices(context: PlacementContext) -> tuple[DeviceGrant, ...] | None:
    """Return the devices of a container that runs, which nothing takes from it or adds to; None = they are chosen."""
    if context.devices is not None:
        return context.devices
    if context.own is not None and (context.machine_devices is None or context.runs):
        return context.own.devices
    return () if context.machine_devices is None else None


def earlier_devices(context: PlacementContext) -> tuple[DeviceGrant, ...]:
    """Return the devices of an earlier attempt of the container."""
    if context.own is not None:
        return context.own.devices
    previous = context.request.previous
    return () if previous is None else previous.devices


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """The claim of one container on one device. One that no source lists any more is no rival (``is_here``)."""

    holder: str
    pod_uid: str
    device: DeviceGrant
    is_here: bool = True


@dataclass(frozen=True)
class HeldDevices:
    """The devices of others while one container is placed, and those that it ``has``: others chose it, or costs did."""

    context: PlacementContext
    node: MachineDevices
    has: tuple[DeviceGrant, ...] = ()

    @cached_property
    def by_others(self) -> tuple[DeviceGrant, ...]:
        """The devices of other pods, and of containers without a grant."""
        pod = self.context.request.container.pod_uid
        grants = (grant.devices for grant in self.context.others if grant.devices and grant.container.pod_uid != pod)
        return tuple(chain.from_iterable((*grants, *(holding.devices for holding in self._apart))))

    @property
    def _apart(self) -> Iterator[DeviceHolding]:
        """Yield what containers without a grant have: what an ended one had its pod may have."""
        pod = self.context.request.container.pod_uid
        return (holding for holding in self.context.holdings if holding.pod_uid != pod)

    @property
    def left_to_pod(self) -> tuple[DeviceGrant, ...]:
        """The devices of ended containers of its pod that none of the pod has got since."""
        pod = self.context.request.container.pod_uid
        left = (device for holding in self.context.holdings if holding.pod_uid == pod for device in holding.devices)
        return tuple(device for device in left if not device.is_given)

    @cached_property
    def claims(self) -> tuple[DeviceClaim, ...]:
        """The devices of others, by holder."""
        joined = self.node.joined
        return (*claims_of(self.context.others, joined), *claims_apart(self._apart, joined))

    @cached_property
    def by_pod(self) -> tuple[DeviceGrant, ...]:
        """The devices of the pod's containers."""
        pod = self.context.request.container.pod_uid
        siblings = (grant for grant in self.context.others if grant.container.pod_uid == pod)
        return (*(held for grant in siblings for held in grant.devices), *self.has)

    @cached_property
    def usage(self) -> Usage:
        """The use of the inventory by all of them."""
        # Apart, as PCIeLevel keeps other pods away and not the pod's own containers.
        return self.node.allocator.usage(self.by_others, self.by_pod)

    @cached_property
    def _pieces(self) -> Mapping[Piece, str]:
        """The holder of each piece that is held, or may be, under whatever name it was given."""
        found: dict[Piece, str] = {}
        for holder, device in self._holdings():
            for piece in self.node.joined.held(device):
                found.setdefault(piece, holder)
        return found

    def _holdings(self) -> Iterator[tuple[str, DeviceGrant]]:
        yield from ((holder_name(grant), device) for grant in self.context.others for device in grant.devices)
        yield from ((holding.holder, device) for holding in self._apart for device in holding.devices)

    def is_free(self, piece: Piece) -> bool:
        """Return whether the container can have this device, or VF, as a whole."""
        device = piece.device
        if piece in self._pieces or device is None:
            return piece not in self._pieces
        use = self.usage.of(device)
        is_apart = (self.node.allocator.group_of[device.key], device.kind) in self.usage.exclusive
        # A GPU that is cut into MIG instances is none as a whole, however few of them are held.
        is_left = use.units < WHOLE and piece.vf not in use.vfs if piece.vf else use.is_idle and not device.parts
        return device.is_healthy and is_left and not is_apart

    def holder(self, piece: Piece) -> str:
        """Return who has a piece that is not free, or a part of it, or its PCIe alone."""
        device = piece.device
        if piece in self._pieces or device is None:
            return self._pieces.get(piece, "")
        if not device.is_healthy:
            return UNHEALTHY
        here = [(who, part) for who, each in self._holdings() for part in self.node.joined.of_inventory((each,))]
        apart = [(who, part) for who, part in here if part.exclusive is ExclusivePolicy.PCIE_LEVEL]
        group, group_of = self.node.allocator.group_of[device.key], self.node.allocator.group_of
        parts = (who for who, part in here if part.key == device.key)
        alone = (who for who, part in apart if part.kind == device.kind and group_of.get(part.key) == group)
        return next(chain(parts, alone), CUT if device.parts else "")


def holder_name(grant: Grant) -> str:
    """Return the name of a container in sentences about what it holds."""
    return str(grant.request.full_name)


def claims_of(grants: Iterable[Grant], joined: JoinedDevices) -> tuple[DeviceClaim, ...]:
    """Return what these containers hold of the devices that are here, in their order."""
    held = ((grant, device) for grant in grants for device in grant.devices)
    return tuple(_claim(holder_name(grant), grant.container.pod_uid, device, joined) for grant, device in held)


def claims_apart(holdings: Iterable[DeviceHolding], joined: JoinedDevices) -> Iterator[DeviceClaim]:
    """Yield what containers without a grant hold, in their order."""
    return (_claim(each.holder, each.pod_uid, device, joined) for each in holdings for device in each.devices)


def _claim(holder: str, pod_uid: str, device: DeviceGrant, joined: JoinedDevices) -> DeviceClaim:
    here = joined.likely_here(device)
    return DeviceClaim(holder, pod_uid, here or device, here is not None)


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
        # As one that others chose it stays counted while it runs, and is not chosen for it again.
        kept.append(replace(device, is_given=True) if others and not device.cost_name else device)
    return tuple(kept), found


def rivals(
    allocator: DeviceAllocator, device: DeviceGrant, claims: Collection[DeviceClaim], pod: str, *, groups: bool = True
) -> Iterator[DeviceClaim]:
    """Yield the claims of others that this one, of the pod with this uid, cannot stand beside.

    Either has the device alone, or its PCIe as against other pods. Shares stand beside each other up to a whole device;
    where they are more, all of them are meant. ``groups``: claims of other devices on the PCIe count, too.
    """
    # Their plugin lets containers share the device on purpose (time slicing, MPS).
    claims = [claim for claim in claims if claim.is_here and not (device.is_shared and claim.device.is_shared)]
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
        # PCIeLevel is about other pods: in Koordinator the annotation, and the devices, are the pod's.
        is_apart = ExclusivePolicy.PCIE_LEVEL in policies and claim.pod_uid != pod
        if claim.device.key == device.key:
            is_same_vf = bool(device.vf) and claim.device.vf == device.vf
            is_parted = _has_parts_and_more((device, claim.device))
            if is_full or is_apart or is_same_vf or is_parted or ExclusivePolicy.DEVICE_LEVEL in policies:
                yield claim
        elif groups and is_apart and claim.device.kind == device.kind and group_of.get(claim.device.key) == group:
            yield claim


def held_twice(held: Allocations, joined: JoinedDevices) -> Iterator[tuple[DeviceClaim, ...]]:
    """Yield for each device, or VF, that containers hold which should not stand beside each other, what they hold.

    What the kubelet gives to containers of one pod, one after the other or on purpose, is its own matter. What an ended
    container had counts no more beside a container of its pod that has the device: it is handed on.
    """
    known = {device.key: device for device in joined.inventory.devices}
    granted = claims_of(held.grants, joined)
    has = {(claim.pod_uid, claim.device.key) for claim in granted}
    apart = (each for each in claims_apart(held.holdings, joined) if (each.pod_uid, each.device.key) not in has)
    by_device: dict[DeviceKey, list[DeviceClaim]] = {}
    for claim in (*granted, *apart):
        if claim.is_here:
            by_device.setdefault(claim.device.key, []).append(claim)
    for key, claims in by_device.items():
        counted = _not_shared(claims)
        if _holders(counted) > 1 and _is_too_much(known.get(key), counted):
            yield tuple(claims)
            continue
        # Others may have other VFs of the device, as many as it has.
        for same in gathered((claim.device.vf, claim) for claim in claims if claim.device.vf).values():
            if _holders(_not_shared(same)) > 1:
                yield tuple(same)


def _holders(claims: Iterable[DeviceClaim]) -> int:
    return len({claim.holder for claim in claims})


def _not_shared(claims: Iterable[DeviceClaim]) -> Collection[DeviceClaim]:
    """Return these claims, one for all that others let share the device."""
    found: dict[tuple[str | int, str], DeviceClaim] = {}
    for number, claim in enumerate(claims):
        pod = claim.pod_uid if claim.device.is_given else ""
        found.setdefault(("" if claim.device.is_shared else pod or number, claim.device.vf), claim)
    return found.values()


def _is_too_much(here: InventoryDevice | None, claims: Collection[DeviceClaim]) -> bool:
    """Return whether these are more than a device has; ``here`` None: cost files alone list it."""
    grants = [claim.device for claim in claims]
    is_over = sum(grant.amount for grant in grants) > WHOLE if here is None else _is_over(here, grants)
    return is_over or _has_parts_and_more(grants)


def _has_parts_and_more(grants: Collection[DeviceGrant]) -> bool:
    """Return whether these have parts of a GPU (MIG) beside all of it, or a share: it is cut into parts as a whole."""
    return len({bool(grant.vf) for grant in grants if grant.kind == GPU}) > 1


def _is_over(here: InventoryDevice, grants: list[DeviceGrant]) -> bool:
    """Return whether these grants take more of a device than it has."""
    amounts = [taken(grant, here) for grant in grants]
    return sum(units for units, _ in amounts) > WHOLE or sum(memory for _, memory in amounts) > WHOLE
