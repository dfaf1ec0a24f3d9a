"""Tell which devices a container may have: those that no other container holds, and those that it has already. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from policies.alignment import DeviceAmount
from policies.base import Grant, Request
from policies.costs.catalog import DeviceCatalog
from policies.costs.model import type_of
from policies.device_grants import DeviceGrant, DeviceKey, ExclusivePolicy
from policies.devices.allocate import DeviceAllocator
from policies.devices.model import EMPTY_INVENTORY, WHOLE
from policies.devices.sources import JoinedDevices, Piece
from policies.topology_aware.supply.context import PlacementContext

LEFT_ALONE: Final = "a container that is left alone"
UNHEALTHY: Final = "unhealthy"
"""In place of a holder: no container gets the device."""

_NO_ALLOCATOR: Final = DeviceAllocator(EMPTY_INVENTORY)


@dataclass(frozen=True, slots=True)
class DeviceStock:
    """What there is for a container that asks for ``wanted``.

    ``free`` are the devices of each type that no other container holds, in the order of their names; ``holders`` who
    has the others, by device.
    """

    catalog: DeviceCatalog
    wanted: tuple[DeviceAmount, ...]
    free: Mapping[str, tuple[str, ...]]
    holders: Mapping[str, str]


def stock_of(
    context: PlacementContext, catalog: DeviceCatalog, wanted: tuple[DeviceAmount, ...] | None = None
) -> DeviceStock:
    """Return what there is of the types that the container asks for; ``wanted``: that its pod asks for."""
    amounts = context.request.preferences.devices if wanted is None else wanted
    taken = _Taken(context)
    listed = {amount.kind: catalog.devices.get(amount.kind, ()) for amount in amounts}
    held = {name: who for names in listed.values() for name in names if (who := taken.by(name))}
    free = {kind: tuple(name for name in names if name not in held) for kind, names in listed.items()}
    return DeviceStock(catalog, amounts, _each_once(taken.allocator.joined, amounts, free), held)


class _Taken:
    """Who has which pieces of hardware, under whatever names they were given."""

    def __init__(self, context: PlacementContext) -> None:
        self.allocator = context.allocator or _NO_ALLOCATOR
        self._by_piece: dict[Piece, str] = {}
        self._by_name: dict[str, str] = {}
        self._in_part: dict[DeviceKey, str] = {}
        self._wholly: dict[DeviceKey, str] = {}
        self._apart: dict[tuple[int, str], str] = {}
        pod = context.request.container.pod_uid
        for grant in context.others:
            for device in grant.devices:
                self._note(holder_name(grant), device, is_apart=grant.container.pod_uid != pod)
        for device in context.in_use:
            self._note(LEFT_ALONE, device, is_apart=True)

    def _note(self, who: str, device: DeviceGrant, *, is_apart: bool) -> None:
        if device.cost_name:
            self._by_name.setdefault(device.cost_name, who)
        for piece in self.allocator.joined.held(device):
            self._by_piece.setdefault(piece, who)
        for here in self.allocator.joined.of_inventory((device,)):
            group = self.allocator.group_of.get(here.key)
            if group is None:
                continue
            self._in_part.setdefault(here.key, who)
            if (here.amount >= WHOLE and not here.vf) or here.exclusive is ExclusivePolicy.DEVICE_LEVEL:
                self._wholly.setdefault(here.key, who)
            if is_apart and here.exclusive is ExclusivePolicy.PCIE_LEVEL:
                self._apart.setdefault((group, here.kind), who)

    def by(self, name: str) -> str:
        """Return who has the device of this name, or a part of it, or its PCIe alone; '' = no container."""
        piece = self.allocator.joined.named(name)
        who = self._by_piece.get(piece) or self._by_name.get(name, "")
        device = piece.device
        if who or device is None:
            return who
        if not device.is_healthy:
            return UNHEALTHY
        parts = self._wholly if piece.vf else self._in_part
        return parts.get(device.key) or self._apart.get((self.allocator.group_of[device.key], device.kind), "")


def _each_once(
    joined: JoinedDevices, wanted: Iterable[DeviceAmount], free: Mapping[str, tuple[str, ...]]
) -> Mapping[str, tuple[str, ...]]:
    """Return these names without those of devices that another one names; the type that has fewest to spare is first.

    No container can have a device and a virtual function of it: the functions are more.
    """
    if joined.is_one_to_one:
        return free
    spare = {amount.kind: len(free[amount.kind]) - amount.count for amount in wanted}
    kept: dict[str, tuple[str, ...]] = {}
    seen: list[Piece] = []
    for kind in sorted(free, key=lambda kind: (spare[kind], kind)):
        pieces = {name: joined.named(name) for name in free[kind]}
        names = set()
        for name in sorted(pieces, key=lambda name: not pieces[name].vf):
            if not any(pieces[name].overlaps(other) for other in seen):
                seen.append(pieces[name])
                names.add(name)
        kept[kind] = tuple(name for name in free[kind] if name in names)
    return {kind: kept[kind] for kind in free}


def holder_name(grant: Grant) -> str:
    """Return the name of a container in sentences about what it holds."""
    return str(grant.request.full_name)


def asks_for_devices(request: Request) -> bool:
    """Return whether devices are to be chosen for a container, or others chose some."""
    asked = request.preferences
    return bool(asked.devices or request.given) or asked.allocation is not None


def fixed_devices(context: PlacementContext) -> tuple[DeviceGrant, ...] | None:
    """Return the devices of a container that runs, which nothing takes from it or adds to; None = they are chosen."""
    if context.devices is not None:
        return context.devices
    own, previous = context.own, context.request.previous
    runs = context.catalog is None or (previous is not None and previous.is_running)
    if own is not None and runs:
        return own.devices
    return () if context.catalog is None else None


def earlier_devices(context: PlacementContext) -> tuple[DeviceGrant, ...]:
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
