"""The numbers of the node's devices that a scan goes by: those in force, and those of devices that are gone."""

from collections.abc import Callable

from cri_proxy.inventory.numbers import DeviceNumbers
from policies.devices.model import DeviceInventory


class KnownNumbers:
    """The numbers known so far; ``keep`` saves them for the next start."""

    def __init__(self, found: DeviceNumbers, keep: Callable[[DeviceNumbers], object]) -> None:
        """``found`` are those of the last process."""
        self._known = found
        self._keep = keep

    def beside(self, inventory: DeviceInventory) -> DeviceInventory:
        """Return this inventory, which is in force, with the devices that are gone, for a scan to go by."""
        return self._known.after(inventory).beside(inventory)

    def use(self, inventory: DeviceInventory) -> None:
        """Note the numbers of this inventory, which is in force from now on."""
        now = self._known.after(inventory)
        if now != self._known:
            self._known = now
            self._keep(now)


def no_numbers() -> KnownNumbers:
    """Return those of a node without a daemon, which keeps none."""
    return KnownNumbers(DeviceNumbers(), lambda numbers: None)
