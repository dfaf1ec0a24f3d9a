"""The use of each device of the inventory by containers, and devices with too many holders."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from cri_proxy.node.status.inventory import HolderView, InventoryDeviceView
from policies.base import Allocations
from policies.device_grants import WHOLE, DeviceGrant, DeviceKey
from policies.devices import GPU, DeviceInventory, InventoryDevice, JoinedDevices, taken
from policies.topology_aware import DeviceClaim, held_twice
from sysfs.cpuset import NodeSet
from sysfs.model import Machine
from sysfs.text import numbered, some

_NAMES_SHOWN: Final = 4


def inventory_views(joined: JoinedDevices, allocations: Allocations) -> tuple[InventoryDeviceView, ...]:
    """Return every device, by type and minor, with who holds it."""
    held: dict[DeviceKey, list[tuple[str, DeviceGrant]]] = {}
    for name, devices in allocations.device_holders():
        for device in (joined.likely_here(held) or held for held in devices):
            if not isinstance(device.minor, str):  # cost files alone list that one
                held.setdefault(device.key, []).append((name, device))
    known = {device.key: device for device in joined.inventory.devices}
    every = sorted({(kind, minor) for kind, minor in (*known, *held) if isinstance(minor, int)})
    return tuple(_view(key, known.get(key), held.get(key, ())) for key in every)


def held_twice_texts(joined: JoinedDevices, allocations: Allocations) -> tuple[str, ...]:
    """Return a sentence about each device that containers hold which should not stand beside each other."""
    return tuple(map(_held_twice_text, held_twice(allocations, joined)))


def _held_twice_text(claims: Sequence[DeviceClaim]) -> str:
    device = claims[0].device
    by_holder = {c.holder: f"{c.holder} (chosen by others)" if c.device.is_given else c.holder for c in claims}
    is_one_vf = len({claim.device.vf for claim in claims}) == 1
    what = device.cost_name or (str(device) if is_one_vf else f"{device.kind} {device.minor}")
    return f"{what} has {len(by_holder)} holders: {some(sorted(by_holder.values()), _NAMES_SHOWN)}"


def misplaced_warning(inventory: DeviceInventory, machine: Machine) -> tuple[str, ...]:
    """Return a warning about devices on NUMA nodes that the machine does not have, else nothing."""
    nodes = NodeSet.of(node.id for node in machine.nodes)
    away = [device for device in inventory.devices if device.numa is not None and device.numa not in nodes]
    if not away:
        return ()
    named = some([f"{device.kind} {device.minor} (node {device.numa})" for device in away], _NAMES_SHOWN)
    return (
        f"inventory: {named}: this machine has {numbered('NUMA node', nodes)}, so that their place counts as unknown; "
        "correct numa in the inventory, or leave it out",
    )


def _view(
    key: tuple[str, int], device: InventoryDevice | None, held: Sequence[tuple[str, DeviceGrant]]
) -> InventoryDeviceView:
    holders = tuple(HolderView(name, part.amount, part.vf, part.is_given, str(part.exclusive)) for name, part in held)
    if device is None:
        return InventoryDeviceView(*key, is_missing=True, free=0, holders=holders)
    units, memory = 0, Fraction(0)
    for _, part in held:
        of_core, of_memory = taken(part, device)
        units, memory = units + of_core, memory + of_memory
    used = max(Fraction(units), memory) if device.kind == GPU else Fraction(units)
    vfs = {vf.bus for group in device.vf_groups for vf in group.vfs}
    is_cut = bool(device.parts) or (device.kind == GPU and any(part.vf for _, part in held))
    return InventoryDeviceView(
        *key,
        device.numa,
        device.pcie or "",
        device.is_healthy,
        free=0 if is_cut else max(0, int(WHOLE - used)),
        vfs=len(vfs),
        free_vfs=len(vfs - {part.vf for _, part in held}),
        holders=holders,
        ailment=device.ailment,
    )
