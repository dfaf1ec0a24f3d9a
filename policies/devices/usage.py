"""The use of devices by containers, and the rest that it leaves to others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from policies.device_grants import WHOLE, DeviceGrant, DeviceKey, ExclusivePolicy
from policies.devices.device_types import GPU
from policies.devices.model import GPU_MEMORY, DeviceInventory, InventoryDevice, PcieGroup
from policies.devices.resources import GPU_CORE, GPU_MEMORY_RATIO, GPU_UNITS, WHOLE_GPUS


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """The use of one device: units of the core (of the whole, if it is no GPU) and of the memory, and VFs."""

    units: int = 0
    memory: Fraction = Fraction(0)
    vfs: frozenset[str] = frozenset()

    @property
    def is_idle(self) -> bool:
        """Whether nothing is taken."""
        return not self.units and not self.memory and not self.vfs

    @property
    def part(self) -> Fraction:
        """The units that are taken: of the core or of the memory, whichever are more."""
        return max(Fraction(self.units), self.memory) if self.units else self.memory

    def plus(self, grant: DeviceGrant, device: InventoryDevice) -> "DeviceUse":
        """Return the use with this grant; more than 100 units of a device count as all of it."""
        units, memory = taken(grant, device)
        vfs = self.vfs | {grant.vf} if grant.vf else self.vfs
        return DeviceUse(min(WHOLE, self.units + units), min(Fraction(WHOLE), self.memory + memory), vfs)


_UNUSED: Final = DeviceUse()


def taken(grant: DeviceGrant, device: InventoryDevice) -> tuple[int, Fraction]:
    """Return the units and the units of memory that a grant takes of its device.

    >>> taken(DeviceGrant("gpu", 0, 50), InventoryDevice("gpu", 0))
    (50, Fraction(50, 1))
    >>> taken(DeviceGrant("gpu", 0, 50, resources=((GPU_MEMORY_RATIO, 50),)), InventoryDevice("gpu", 0))
    (0, Fraction(50, 1))
    """
    if grant.exclusive is ExclusivePolicy.DEVICE_LEVEL:
        return WHOLE, Fraction(WHOLE)
    resources = dict(grant.resources)
    if grant.kind != GPU or not resources:
        return grant.amount, Fraction(grant.amount if grant.kind == GPU else 0)
    both = sum(WHOLE * resources.get(name, 0) for name in WHOLE_GPUS) + resources.get(GPU_UNITS, 0)
    memory = Fraction(both + resources.get(GPU_MEMORY_RATIO, 0))
    if GPU_MEMORY in resources:
        total = device.resources.get(GPU_MEMORY, 0)
        memory += Fraction(resources[GPU_MEMORY] * WHOLE, total) if total else grant.amount
    return both + resources.get(GPU_CORE, 0), memory


@dataclass(frozen=True, slots=True)
class Usage:
    """The use of every device that is in use, and the types of which each PCIe group is in use.

    Of these groups, ``by_others`` are those that other pods use, ``exclusive`` those that other pods hold exclusively.
    Groups go by their number among all groups of the inventory.
    """

    by_device: Mapping[DeviceKey, DeviceUse]
    used: frozenset[tuple[int, str]]
    by_others: frozenset[tuple[int, str]]
    exclusive: frozenset[tuple[int, str]]

    def of(self, device: InventoryDevice) -> DeviceUse:
        """Return what is taken of a device."""
        return self.by_device.get(device.key, _UNUSED)


def usage_of(
    held: Iterable[DeviceGrant],
    inventory: DeviceInventory,
    groups: Sequence[PcieGroup],
    own: Iterable[DeviceGrant] = (),
) -> Usage:
    """Return what grants take; one of a device that the inventory no longer has takes nothing.

    ``own`` are those of the pod that asks: what they take is not free, and their PCIe is none that others use.
    """
    devices = {device.key: device for device in inventory.devices}
    group_of = {device.key: number for number, group in enumerate(groups) for device in group.devices}
    by_device: dict[DeviceKey, DeviceUse] = {}

    def used_with(grants: Iterable[DeviceGrant]) -> frozenset[tuple[int, str]]:
        for grant in grants:
            by_device[grant.key] = by_device.get(grant.key, _UNUSED).plus(grant, devices[grant.key])
        return frozenset((group_of[key], key[0]) for key, use in by_device.items() if not use.is_idle)

    others = [grant for grant in held if grant.key in devices]
    pcie_level = (grant for grant in others if grant.exclusive is ExclusivePolicy.PCIE_LEVEL)
    exclusive = frozenset((group_of[grant.key], grant.kind) for grant in pcie_level)
    # PCIeLevel is about other pods, as in Koordinator: a pod's own devices keep it from no PCIe.
    by_others = exclusive | used_with(others)
    used = by_others | used_with(grant for grant in own if grant.key in devices)
    return Usage(by_device, used, by_others, exclusive)
