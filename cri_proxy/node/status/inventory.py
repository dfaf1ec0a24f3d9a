"""The inventory of devices as the status shows it: the file that lists them, and what containers hold of each."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Final

from cri_proxy.codec import FLAT
from cri_proxy.in_force.file_state import FilesReport
from policies.base import Allocations
from policies.device_grants import DeviceGrant, DeviceKey
from policies.devices import GPU, WHOLE, DeviceInventory, InventoryDevice, JoinedDevices, taken
from policies.topology_aware import DeviceClaim, held_twice
from sysfs.cpuset import NodeSet
from sysfs.model import Machine
from sysfs.text import numbered, some

_NAMES_SHOWN: Final = 4


@dataclass(frozen=True, slots=True)
class InventoryFileView:
    """The inventory ``file``, '' where none is read; ``scans``: devices that are found on PCI are given out too.

    ``disagreements`` are sentences about devices of which two sources state different facts. ``shows_gpus``: there are
    GPUs of NVIDIA's, which containers without one may see by their own NVIDIA_VISIBLE_DEVICES.
    """

    file: str
    scans: bool
    report: FilesReport = field(metadata=FLAT)
    disagreements: tuple[str, ...] = ()
    shows_gpus: bool = False
    health_problem: str = ""


@dataclass(frozen=True, slots=True)
class HolderView:
    """A container that holds a device, or ``amount`` of its 100 units; ``is_given``: others chose it.

    ``exclusive`` is what it keeps others from: the same device, or the PCIe (``ExclusivePolicy``), '' where neither.
    Behind its name stands why it has no grant, where it has none: it has ended, or is left alone.
    """

    container: str
    amount: int
    vf: str = ""
    is_given: bool = False
    exclusive: str = ""


@dataclass(frozen=True, slots=True)
class InventoryDeviceView:
    """A device of the inventory, or one that is held and ``is_missing`` there.

    ``free`` is what is left of its 100 units (of a GPU the smaller of core and memory), ``free_vfs`` of its ``vfs``.
    ``ailment`` is why it is unhealthy, as far as a source tells that.
    """

    type: str
    minor: int
    numa_node: int | None = None
    pcie: str = ""
    is_healthy: bool = True
    is_missing: bool = False
    free: int = WHOLE
    vfs: int = 0
    free_vfs: int = 0
    holders: tuple[HolderView, ...] = ()
    ailment: str = ""


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


def state_of(device: InventoryDeviceView) -> str:
    """Return the state of a device: missing, held, unhealthy or free."""
    if device.is_missing:
        return "missing"
    if device.holders:
        return "held"
    return "free" if device.is_healthy else "unhealthy"


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
    return InventoryDeviceView(
        *key,
        device.numa,
        device.pcie or "",
        device.is_healthy,
        free=max(0, int(WHOLE - used)),
        vfs=len(vfs),
        free_vfs=len(vfs - {part.vf for _, part in held}),
        holders=holders,
        ailment=device.ailment,
    )
