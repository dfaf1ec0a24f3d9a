"""Choose shares of GPUs that a plugin offers, by the rule by which shares are given from the inventory. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from policies.device_grants import WHOLE, DeviceGrant, DeviceKey
from policies.devices.allocate import DeviceAllocation, DeviceAllocator, DeviceAttempt, DeviceQuestion
from policies.devices.demand import DemandError
from policies.devices.device_types import GPU
from policies.devices.model import DeviceInventory
from policies.devices.plugin.offer import Chooser, OfferedDevice, OfferedDevices
from policies.devices.resources import GPU_UNITS
from sysfs.cpuset import gathered


@dataclass(frozen=True)
class ShareChooser:
    """Prefers shares of one GPU, up to a whole one: of the GPU most in use that has room, or of that least in use.

    More shares than a GPU has are those of so many whole GPUs. Where no GPU has room for all of them, and where they
    are no number of whole ones, it is what ``otherwise`` prefers.
    """

    offered: OfferedDevices
    otherwise: Chooser

    @cached_property
    def _allocator(self) -> DeviceAllocator:
        every = (device for group in self.offered.groups for device in group.devices)
        return DeviceAllocator(DeviceInventory(tuple(every)))

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none."""
        return self._of_gpus(available, included, size) or self.otherwise.choose(available, included, size)

    def _of_gpus(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return shares of as few GPUs as can have them, of each as many; empty where none can."""
        devices, offer, must = self.offered.devices, self.offered.offer, set(included)
        free = [devices[name] for name in dict.fromkeys(available) if name in devices]
        held = {device.part.number for device in free if device.id in must}
        question = DeviceQuestion({GPU_UNITS: size * WHOLE // offer.shares}, spreads=offer.spreads)
        try:
            chosen = self._chosen(question, free, held)
        except DemandError:
            return ()
        gpus = [grant.number for grant in chosen.grants] if chosen is not None else []
        if not gpus or not held.issubset(gpus):
            return ()
        of_each = gathered((device.part.number, device) for device in free)
        count = size // len(gpus)
        return tuple(device.id for gpu in gpus for device in _first(of_each[gpu], must)[:count])

    def _chosen(
        self, question: DeviceQuestion, free: Sequence[OfferedDevice], held: set[int]
    ) -> DeviceAllocation | None:
        """Return the GPUs to take shares of, those ``held`` alone where they are enough."""
        usage = self._allocator.usage(self._in_use(free))
        (demand,) = self._allocator.demands(question)
        only: Mapping[DeviceKey, str] | None = None
        # The included ids are those that an init container of the pod had: its GPUs are taken where they are enough.
        if len(held) == demand.count:
            only = {(GPU, minor): "" for minor in held}
        found = DeviceAttempt(self._allocator, question, usage, only=only).run()
        return found if isinstance(found, DeviceAllocation) else None

    def _in_use(self, free: Sequence[OfferedDevice]) -> list[DeviceGrant]:
        """Return the shares that are not free, so that others have them."""
        names = {device.id for device in free}
        return [device.part for device in self.offered.devices.values() if device.id not in names]


def _first(shares: Sequence[OfferedDevice], must: set[str]) -> list[OfferedDevice]:
    """Return shares in the order in which they are taken: what must be there, then the others."""
    return sorted(shares, key=lambda device: (device.id not in must, device.order))
