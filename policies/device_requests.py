"""``DeviceAsk``: what a container asks for of the node's devices, in either of its two spellings."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class DeviceAmount:
    """How many whole devices of a type that cost files list, such as ``example.com/gpu``."""

    kind: str
    count: int


@dataclass(frozen=True, slots=True)
class DeviceAsk:
    """The devices that it asks for: whole ones by the types of cost files, and amounts by resources of the inventory.

    ``annotations`` are those of the pod that say how the amounts are allocated (``policies.devices.annotations``). All
    are sorted by name.
    """

    counts: tuple[DeviceAmount, ...] = ()
    requests: tuple[tuple[str, int], ...] = ()
    annotations: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        """Return whether anything is asked for."""
        return bool(self.counts or self.requests)


NOTHING_ASKED = DeviceAsk()


def summed(asks: Iterable[DeviceAsk]) -> tuple[DeviceAmount, ...]:
    """Return how many whole devices of each type several containers ask for together.

    Amounts do not add up so: two of 60 units do not fit on one GPU.

    >>> summed([DeviceAsk((DeviceAmount("gpu", 1),)), DeviceAsk((DeviceAmount("gpu", 2),))])
    (DeviceAmount(kind='gpu', count=3),)
    """
    total: Counter[str] = Counter()
    for amount in (amount for ask in asks for amount in ask.counts):
        total[amount.kind] += amount.count
    return tuple(DeviceAmount(kind, total[kind]) for kind in sorted(total))
