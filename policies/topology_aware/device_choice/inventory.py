"""Tell which devices a container may have: those that no other container holds, and those that it has already. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from policies.alignment import DeviceAmount
from policies.base import Grant
from policies.costs.catalog import DeviceCatalog
from policies.costs.model import type_of
from policies.device_grants import NOTHING_HELD, HeldDevices
from policies.topology_aware.supply.context import PlacementContext


@dataclass(frozen=True, slots=True)
class DeviceStock:
    """What there is for a container that asks for ``wanted``.

    ``free`` are the devices of each type that no other container holds, in the order of their names; ``holders`` the
    grants of the others, by device.
    """

    catalog: DeviceCatalog
    wanted: tuple[DeviceAmount, ...]
    free: Mapping[str, tuple[str, ...]]
    holders: Mapping[str, Grant]


def stock_of(
    context: PlacementContext, catalog: DeviceCatalog, wanted: tuple[DeviceAmount, ...] | None = None
) -> DeviceStock:
    """Return what there is of the types that the container asks for; ``wanted``: that its pod asks for."""
    amounts = context.request.preferences.devices if wanted is None else wanted
    held = holders(context.others)
    free = {
        amount.kind: tuple(name for name in catalog.devices.get(amount.kind, ()) if name not in held)
        for amount in amounts
    }
    return DeviceStock(catalog, amounts, free, held)


def holders(grants: Iterable[Grant]) -> dict[str, Grant]:
    """Return the grants that hold devices, by device."""
    return {device: grant for grant in grants for device in grant.devices}


def fixed_devices(context: PlacementContext) -> HeldDevices | None:
    """Return the devices of a container that runs, which nothing takes from it or adds to; None = they are chosen."""
    if context.devices is not None:
        return context.devices
    own, previous = context.own, context.request.previous
    runs = context.catalog is None or (previous is not None and previous.is_running)
    if own is not None and runs:
        return own.held
    return NOTHING_HELD if context.catalog is None else None


def earlier_devices(context: PlacementContext) -> tuple[str, ...]:
    """Return the devices of an earlier attempt of the container."""
    if context.own is not None:
        return context.own.devices
    previous = context.request.previous
    return () if previous is None else previous.devices


def still_serve(stock: DeviceStock, devices: tuple[str, ...]) -> bool:
    """Return whether these are exactly as many of each type as wanted, all of them present and free."""
    counts = Counter(map(type_of, devices))
    is_enough = counts == Counter({amount.kind: amount.count for amount in stock.wanted})
    return is_enough and all(name in stock.free.get(type_of(name), ()) for name in devices)


def nodes_of(catalog: DeviceCatalog, kind: str, every: int) -> dict[str, int | None]:
    """Return the mask of the NUMA nodes near each device of a type; None where no device's costs tell nodes apart.

    Where those of others do, a device that says nothing counts on ``every`` node.
    """
    found = {device: catalog.nodes(device) for device in catalog.devices.get(kind, ())}
    if not any(found.values()):
        return dict.fromkeys(found)
    return {device: nodes or every for device, nodes in found.items()}
