"""The devices of an inventory as a device plugin offers them to the kubelet: by ids, of which it asks for a number.

A device is offered as a whole (``gpu-0``), by its virtual functions (``0000:51:00.1``) or in equal shares
(``gpu-1-share-0``). So that nothing is given twice, a type is offered in one form only. The id of a virtual function
is its PCI address because Multus hands the ids of a pod to the SR-IOV CNI plugin, which takes nothing else.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import groupby
from typing import Final, Protocol

from policies.device_grants import WHOLE, DeviceGrant
from policies.devices.device_types import GPU, RDMA
from policies.devices.model import VF_UNITS, DeviceInventory, InventoryDevice, PcieGroup, natural_order, pcie_groups

_SHARES: Final = re.compile(r"shares:([1-9]\d{0,2})(:spread)?", re.ASCII)


class OfferForm(StrEnum):
    """In which form devices of a type are offered."""

    WHOLE = "whole"
    VFS = "vfs"
    SHARES = "shares"


@dataclass(frozen=True, slots=True)
class DeviceOffer:
    """The form in which devices of a type are offered; ``shares`` is into how many each is cut.

    ``spreads``: shares of GPUs are preferred of those least in use, not of those most in use.
    """

    form: OfferForm = OfferForm.WHOLE
    shares: int = 1
    spreads: bool = False


WHOLE_DEVICES: Final = DeviceOffer()


@dataclass(frozen=True, slots=True)
class OfferedDevice:
    """The device of one id. ``part`` is the grant of this id alone.

    ``node`` is the NUMA node, None where it is unknown, ``group`` the number of the PCIe group among those of the whole
    inventory. ``order`` is the place among the ids of the device. ``uuid`` and ``vendor`` are those of the device.
    ``bus`` is the PCI address of what it alone stands for, '' where that is not known, and for a share.
    """

    id: str
    part: DeviceGrant
    node: int | None
    group: int
    order: int = 0
    is_healthy: bool = True
    uuid: str = ""
    vendor: str = ""
    bus: str = ""


@dataclass(frozen=True, slots=True)
class OfferedDevices:
    """All ids of a type by id, in the order of minors, and the PCIe groups of the inventory."""

    kind: str
    offer: DeviceOffer
    devices: Mapping[str, OfferedDevice]
    groups: tuple[PcieGroup, ...]

    def parts(self, ids: Iterable[str]) -> tuple[DeviceGrant, ...]:
        """Return the devices that these ids stand for, by minor and address; shares of one device are one part of it.

        Raises KeyError for an id that is not offered.
        """
        parts = sorted((self.devices[name].part for name in ids), key=lambda p: (p.number, natural_order(p.vf)))
        # Shares of one device are equal grants, and so one group.
        return tuple(self._joined(list(same)) for _, same in groupby(parts))

    def _joined(self, parts: Sequence[DeviceGrant]) -> DeviceGrant:
        first = parts[0]
        if self.offer.form is not OfferForm.SHARES:
            return first
        return replace(first, amount=len(parts) * WHOLE // self.offer.shares)


class Chooser(Protocol):
    """Knows which devices go well together: by their links, their costs, or their place on the machine."""

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none.

        ``included`` is part of ``available``. Source: GetPreferredAllocation of the device plugin API.
        """


def offer_of(kind: str, text: str) -> DeviceOffer:
    """Return the form that a text names: ``whole``, ``vfs``, ``shares:N`` or ``shares:N:spread``. Raises ValueError.

    >>> offer_of("gpu", "shares:4")
    DeviceOffer(form=<OfferForm.SHARES: 'shares'>, shares=4, spreads=False)
    """
    found = _SHARES.fullmatch(text)
    if found is None:
        if text not in (OfferForm.WHOLE, OfferForm.VFS):
            raise ValueError(f"expected whole, vfs, shares:N or shares:N:spread, got {text!r:.40}")
        return DeviceOffer(OfferForm(text))
    if kind not in (GPU, RDMA):
        raise ValueError(f"{kind} cannot be offered in shares, only {GPU} and {RDMA} can; offer it whole or by its vfs")
    offer = DeviceOffer(OfferForm.SHARES, int(found[1]), spreads=bool(found[2]))
    if offer.shares > WHOLE:
        raise ValueError(f"{text}: a device has {WHOLE} units, so at most as many shares")
    if kind == GPU and WHOLE % offer.shares:
        even = [number for number in range(1, WHOLE + 1) if not WHOLE % number]
        below, above = max(n for n in even if n < offer.shares), min(n for n in even if n > offer.shares)
        raise ValueError(f"{text}: {WHOLE} units are no even parts of {offer.shares}; offer {below} or {above} shares")
    if kind != GPU and offer.spreads:
        raise ValueError(f"{text}: only shares of {GPU} are spread; offer shares:{offer.shares}")
    return offer


def offered_devices(inventory: DeviceInventory, kind: str, offer: DeviceOffer) -> OfferedDevices:
    """Return what is offered of a type; by virtual functions, nothing of a device that has none.

    Nothing is offered of a GPU that is cut into parts (MIG): others give these. A device whose NUMA node is unknown is
    on that of its PCIe group.
    """
    groups = pcie_groups(inventory.devices)
    place = {device.key: number for number, group in enumerate(groups) for device in group.devices}
    placed = ((device, place[device.key]) for device in inventory.of(kind) if not device.parts)
    offered = (each for device, group in placed for each in _ids_of(device, offer, groups[group].numa, group))
    return OfferedDevices(kind, offer, {each.id: each for each in offered}, groups)


def listed_devices(inventory: DeviceInventory) -> tuple[OfferedDevice, ...]:
    """Return the parts in which devices are listed: virtual functions of those that have any, the others whole."""
    found = list[OfferedDevice]()
    for kind in dict.fromkeys(device.kind for device in inventory.devices):
        parts = offered_devices(inventory, kind, DeviceOffer(OfferForm.VFS)).devices.values()
        split = {each.part.key for each in parts}
        whole = offered_devices(inventory, kind, WHOLE_DEVICES).devices.values()
        found += [*(each for each in whole if each.part.key not in split), *parts]
    return tuple(found)


def _ids_of(device: InventoryDevice, offer: DeviceOffer, node: int | None, group: int) -> Iterator[OfferedDevice]:
    for order, (name, bus, units) in enumerate(_pieces(device, offer)):
        vf = bus if offer.form is OfferForm.VFS else ""
        grant = DeviceGrant(device.kind, device.minor, units, vf, is_given=True)
        yield OfferedDevice(name, grant, node, group, order, device.is_healthy, device.uuid, device.maker, bus)


def _pieces(device: InventoryDevice, offer: DeviceOffer) -> Iterator[tuple[str, str, int]]:
    """Yield the ids of a device, each with the PCI address that it alone has, and the units."""
    name = f"{device.kind}-{device.minor}"
    if offer.form is OfferForm.WHOLE:
        yield name, device.path.bus, WHOLE
    elif offer.form is OfferForm.SHARES:
        yield from ((f"{name}-share-{number}", "", WHOLE // offer.shares) for number in range(offer.shares))
    else:
        addresses = (vf.bus for group in device.vf_groups for vf in group.vfs)
        yield from ((bus, bus, VF_UNITS) for bus in sorted(addresses, key=natural_order))
