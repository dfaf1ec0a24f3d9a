"""Find the devices that can serve what is asked of a type, and say of each other one why it cannot.

GPUs are given in shares those most in use first, so that whole ones stay free, or those least in use.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from policies.device_grants import WHOLE, DeviceGrant, DeviceKey, ExclusivePolicy
from policies.devices.annotations import AllocatedDevice, DeviceAnnotations
from policies.devices.demand import DeviceDemand
from policies.devices.device_types import GPU
from policies.devices.identity import address_in, identities_of, uuid_in
from policies.devices.model import (
    GPU_MEMORY,
    DeviceInventory,
    InventoryDevice,
    PcieGroup,
    VirtualFunction,
    natural_order,
)
from policies.devices.usage import DeviceUse, Usage
from sysfs.cpuset import NodeSet, gathered
from sysfs.quantity import bytes_text
from sysfs.text import some

_SHOWN: Final = 4

_NONE: Final[Mapping[DeviceKey, str]] = {}


@dataclass(frozen=True, slots=True)
class DeviceCandidate:
    """A device that can serve, the number of its PCIe group, and the VF that it would give ('' without one).

    ``in_use`` are the units that are taken of it. ``is_kept``: the pod keeps it, so that it is taken before others.
    """

    device: InventoryDevice
    group: int
    vf: str = ""
    in_use: Fraction = Fraction(0)
    is_kept: bool = False

    def grant(self, demand: DeviceDemand) -> DeviceGrant:
        """Return what a container gets of it."""
        hint, memory = demand.hint, demand.memory_of(self.device) or 0
        amount = demand.units if demand.units is not None else -(-memory.numerator // memory.denominator)
        # Full for all others, whatever amount was asked for.
        if hint.exclusive is ExclusivePolicy.DEVICE_LEVEL:
            amount = WHOLE
        resources = tuple(sorted(demand.resources.items()))
        return DeviceGrant(demand.kind, self.device.minor, amount, self.vf, resources, hint.exclusive)


@dataclass(frozen=True, slots=True)
class FoundDevices:
    """The devices that can serve, by PCIe group, use and minor; why others that match the selectors cannot, by minor.

    ``matching`` are the devices that ApplyForAll is about; ``unmatched`` counts the others.
    """

    usable: tuple[DeviceCandidate, ...]
    matching: tuple[InventoryDevice, ...]
    reasons: Mapping[str, tuple[int, ...]]

    def shortage(self) -> str:
        """Return why the other devices cannot serve: ``2-3: in use; 4: unhealthy``."""
        return "; ".join(f"{NodeSet.of(minors)}: {reason}" for reason, minors in self.reasons.items())


@dataclass(frozen=True, slots=True)
class Preselected:
    """Devices that may be taken, each with the VF to take of it, '' where it gives any or none.

    ``only`` these may be, of others the reason is ``beyond``; None: any. ``kept`` are those that its pod keeps.
    """

    only: Mapping[DeviceKey, str] | None
    beyond: str
    kept: Mapping[DeviceKey, str]


def find_candidates(
    demand: DeviceDemand,
    groups: Sequence[PcieGroup],
    usage: Usage,
    within: int | None,
    preselected: Preselected,
) -> FoundDevices:
    """Return the candidates for a type. ``within`` is a mask of NUMA nodes; devices without a known one are in any."""
    only, kept = preselected.only, preselected.kept
    usable, matching = [], []
    reasons: dict[str, list[int]] = {}
    for number, group in enumerate(groups):
        for device in group.devices:
            if device.kind != demand.kind:
                continue
            reason = _mismatch(demand, device)
            if not reason:
                # Before health and use: ApplyForAll is about these too, and is refused where one cannot be given.
                matching.append(device)
                reason = "" if device.is_healthy else ailment_of(device)
                reason = reason or _place_reason(demand, number, group, usage, within)
                reason = reason or _lack(demand, device, usage.of(device))
                if not reason and only is not None and device.key not in only:
                    reason = preselected.beyond
            wanted = kept.get(device.key, "") or (only or _NONE).get(device.key, "")
            vf = None if reason else free_vf(demand, device, usage.of(device), wanted)
            # Else a NIC whose only function that will do is in use would be a candidate without one.
            if not reason and vf is None and demand.hint.vf_selector is not None:
                reason = _lack_of_vf(wanted, usage.of(device))
            if reason:
                reasons.setdefault(reason, []).append(device.minor)
                continue
            is_kept = device.key in kept
            usable.append(DeviceCandidate(device, number, vf.bus if vf else "", usage.of(device).part, is_kept))
    # A NIC is in use by few units long before it is full: an idle one on the same PCIe has more to give.
    usable.sort(key=lambda found: (found.group, not found.is_kept, found.in_use, found.device.minor))
    return FoundDevices(tuple(usable), tuple(matching), {reason: tuple(minors) for reason, minors in reasons.items()})


def named_only(inventory: DeviceInventory, annotations: DeviceAnnotations) -> Mapping[DeviceKey, str] | None:
    """Return the devices that may be taken, each with the VF to take of it or ''; None where none were chosen.

    Devices of types that were not chosen may all be. What was chosen is known by its identifier where the inventory has
    that, else by its number, unless the device with that number has another identifier of this form.
    """
    if annotations.allocated is None:
        return None
    kinds = {each.kind for each in annotations.allocated}
    free = {device.key: "" for device in inventory.devices if device.kind not in kinds}
    return free | dict(_chosen(inventory, annotations.allocated))


def _chosen(inventory: DeviceInventory, allocated: tuple[AllocatedDevice, ...]) -> Iterator[tuple[DeviceKey, str]]:
    named = gathered(
        ((device.kind, identity), device) for device in inventory.devices for identity in set(identities_of(device))
    )
    numbered = gathered((device.key, device) for device in inventory.devices)
    known: dict[DeviceKey, Mapping[str, str]] = {}
    for each in allocated:
        told = address_in(each.id) or uuid_in(each.id)
        by_number = (d for d in numbered.get((each.kind, each.minor), ()) if not _is_another(d, told))
        for device in named.get((each.kind, told)) or by_number:
            if not each.vf:
                yield device.key, ""
                continue
            if device.key not in known:
                known[device.key] = {address_in(vf.bus): vf.bus for group in device.vf_groups for vf in group.vfs}
            if vf := known[device.key].get(address_in(each.vf)):  # one that is not listed cannot be given
                yield device.key, vf


def _is_another(device: InventoryDevice, told: str) -> bool:
    """Return whether a device has another identity of the form of this address or identifier.

    The beginning of an identifier is short for it.
    """
    found = (address_in(text) or uuid_in(text) for text in (device.path.bus, device.uuid))
    alike = [each for each in found if each and told and _form(each) == _form(told)]
    return any(not each.startswith(told) and not told.startswith(each) for each in alike)


def _form(identity: str) -> str:
    """Return which addresses or identifiers this one can be compared with."""
    if address_in(identity):
        return "address"
    return next((word for word in ("gpu", "mig") if identity.startswith(word)), "")


def free_vf(demand: DeviceDemand, device: InventoryDevice, use: DeviceUse, wanted: str = "") -> VirtualFunction | None:
    """Return the VF with the lowest bus address of those that match and are free; None if none is asked for or free.

    ``wanted`` is the address of the only one that will do; '': any.
    """
    free = [vf for vf in _matching_vfs(demand, device) if vf.bus not in use.vfs and wanted in ("", vf.bus)]
    return min(free, key=lambda vf: (natural_order(vf.bus), vf.minor), default=None)


def _lack_of_vf(wanted: str, use: DeviceUse) -> str:
    """Return why a device does not give this VF, the only one that will do."""
    return f"VF {wanted} is in use" if wanted in use.vfs else f"VF {wanted} does not match the vfSelector"


def _matching_vfs(demand: DeviceDemand, device: InventoryDevice) -> Iterator[VirtualFunction]:
    selector = demand.hint.vf_selector
    for group in device.vf_groups:
        if selector is not None and (not selector.conditions or selector.matches(group.labels)):
            yield from group.vfs


CUT: Final = "cut into parts (MIG)"
"""Why a GPU that lists its MIG instances is neither given as a whole nor shared."""


def ailment_of(device: InventoryDevice) -> str:
    """Return that a device is unhealthy, with the reason where a source tells it."""
    return f"unhealthy ({device.ailment})" if device.ailment else "unhealthy"


def _mismatch(demand: DeviceDemand, device: InventoryDevice) -> str:
    """Return why a device is not meant at all."""
    if demand.vendor and device.maker not in ("", demand.vendor):
        return f"made by {device.maker}, not by {demand.vendor}"
    selector = demand.hint.selector
    if selector.conditions and not selector.matches(device.labels):  # most have none
        return "its labels do not match the selector"
    if demand.hint.vf_selector is not None and not any(_matching_vfs(demand, device)):
        return "none of its VFs matches the vfSelector" if device.vf_groups else "it has no VFs"
    return ""


def _place_reason(demand: DeviceDemand, number: int, group: PcieGroup, usage: Usage, within: int | None) -> str:
    """Return why nothing on this PCIe can be given."""
    if within is not None and group.numa is not None and not within >> group.numa & 1:
        return "on another NUMA node"
    if (number, demand.kind) in usage.exclusive:
        return "another pod has its PCIe exclusively (PCIeLevel)"
    is_shared = demand.hint.exclusive is ExclusivePolicy.PCIE_LEVEL and (number, demand.kind) in usage.by_others
    return f"other pods use {demand.kind} on its PCIe (PCIeLevel)" if is_shared else ""


def _lack(demand: DeviceDemand, device: InventoryDevice, use: DeviceUse) -> str:
    """Return what the device itself has too little of."""
    if demand.hint.exclusive is ExclusivePolicy.DEVICE_LEVEL and not use.is_idle:
        return "in use (DeviceLevel asks for an idle one)"
    # The kubelet names MIG instances by GPU and index, which no inventory lists as parts.
    if device.kind == GPU and use.vfs:
        return f"parts of it (MIG) are in use: {some(sorted(use.vfs), _SHOWN)}"
    if device.parts:
        return CUT
    if (demand.units or 0) + use.units > WHOLE:
        return f"in use: {WHOLE - use.units} of {WHOLE} units free" if use.units < WHOLE else "in use"
    if demand.hint.vf_selector is not None and all(vf.bus in use.vfs for vf in _matching_vfs(demand, device)):
        return "all of its VFs that match are in use"
    return _lack_of_memory(demand, device, use)


def _lack_of_memory(demand: DeviceDemand, device: InventoryDevice, use: DeviceUse) -> str:
    memory = demand.memory_of(device)
    if memory is None:
        return f"the inventory does not say its {GPU_MEMORY}"
    if memory > WHOLE:
        return f"its memory is smaller than the {bytes_text(demand.memory_bytes or 0)} asked for"
    free = WHOLE - use.memory
    if memory <= free:
        return ""
    return f"in use: {float(free):g} of {WHOLE} units of memory free" if free else "in use"


def is_share(demand: DeviceDemand) -> bool:
    """Return whether a demand leaves a part of its GPUs to others, and has a choice of them."""
    return demand.kind == GPU and not demand.is_whole and not demand.is_all


def most_used_first(usable: Sequence[DeviceCandidate], count: int) -> Iterator[tuple[DeviceCandidate, ...]]:
    """Yield the GPUs to choose so many of: the fewest that have the most in use, then ever more, at last all."""
    return _parts([(-candidate.in_use,) for candidate in usable], usable, count)


def least_used_first(
    usable: Sequence[DeviceCandidate], count: int, usage: Usage, groups: Sequence[PcieGroup]
) -> Iterator[tuple[DeviceCandidate, ...]]:
    """Yield the GPUs to choose so many of: the fewest that have the least in use, then ever more, at last all.

    Of those that have as little, one comes first on whose NUMA node, then on whose PCIe, the least is in use.
    """
    on_group = [
        sum((usage.of(device).part for device in group.devices if device.kind == GPU), Fraction(0)) for group in groups
    ]
    on_node: dict[int | None, Fraction] = {}
    for group, in_use in zip(groups, on_group, strict=True):
        on_node[group.numa] = on_node.get(group.numa, Fraction(0)) + in_use
    ranks = [(c.in_use, on_node[groups[c.group].numa], on_group[c.group]) for c in usable]
    return _parts(ranks, usable, count)


def _parts(
    ranks: Sequence[tuple[Fraction, ...]], usable: Sequence[DeviceCandidate], count: int
) -> Iterator[tuple[DeviceCandidate, ...]]:
    """Yield those with ranks up to each one that is there, from the lowest with which there are ``count`` of them.

    Of a group those come first that the pod keeps, then the lowest ranks.
    """

    def order(pair: tuple[tuple[Fraction, ...], DeviceCandidate]) -> tuple[int, bool, tuple[Fraction, ...], int]:
        rank, candidate = pair
        # The joint search takes the first ones of each group.
        return candidate.group, not candidate.is_kept, rank, candidate.device.minor

    ranked = sorted(zip(ranks, usable, strict=True), key=order)
    for limit in sorted(set(ranks)):
        part = tuple(candidate for rank, candidate in ranked if rank <= limit)
        if len(part) >= count:
            yield part
