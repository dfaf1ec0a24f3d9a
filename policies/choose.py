"""Take devices of one resource: "choose k of a set, these included", and the order in which the kubelet takes them.

What is behind a ``Chooser`` (links between devices, PCI bridges, costs, a plugin's GetPreferredAllocation) stays there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol


class Chooser(Protocol):
    """Knows which devices go well together, beyond their NUMA nodes."""

    def choose(self, available: Sequence[str], included: Sequence[str], size: int) -> tuple[str, ...]:
        """Return the preferred set of this size, with all of ``included``; empty where there is none.

        ``included`` is part of ``available``. Source: GetPreferredAllocation of the device plugin API.
        """


@dataclass(frozen=True, slots=True)
class Stock:
    """The devices that a container can have, in the order in which they are taken without a preference.

    ``nodes`` has the mask of each device's NUMA nodes; None: not known. ``reusable`` are the devices of init containers
    of the pod; ``free`` has none of them.
    """

    free: tuple[str, ...]
    nodes: Mapping[str, int | None]
    reusable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TakenDevices:
    """The devices taken, in the order of the steps; ``unaligned`` are those that are on no node of the affinity."""

    devices: tuple[str, ...] = ()
    unaligned: tuple[str, ...] = ()


def take_devices(stock: Stock, size: int, affinity: int | None = None, chooser: Chooser | None = None) -> TakenDevices:
    """Return the devices for a container, none at all where there are too few.

    ``affinity`` is the merged mask of nodes; None: hints are not merged, or any node will do. The order is that of the
    kubelet's device manager (v1.36): reusable devices; devices on the affinity's nodes; then those on other nodes and
    those without a node. The chooser is asked where it has a choice, and what it may not give is left out.

    >>> stock = Stock(("a", "b", "c"), {"a": 1, "b": 2, "c": 2})
    >>> take_devices(stock, 2).devices, take_devices(stock, 2, 0b10).devices, take_devices(stock, 2, 0b1).devices
    (('a', 'b'), ('b', 'c'), ('a', 'b'))
    """
    if size > len(stock.free) + len(stock.reusable):
        return TakenDevices()
    aligned, others = _split(stock, affinity)
    taken = stock.reusable[:size]
    candidates = aligned
    if size - len(taken) >= len(aligned):
        taken, candidates = (*taken, *aligned), others
    chosen = _chosen(candidates, taken, size, chooser)
    devices = tuple(dict.fromkeys((*taken, *chosen, *candidates)))[:size]
    unaligned = tuple(device for device in devices if _is_elsewhere(stock.nodes.get(device), affinity))
    return TakenDevices(devices, unaligned)


def _split(stock: Stock, affinity: int | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the free devices on nodes of the affinity, and the others: those without a known node last."""
    if affinity is None:
        return (), stock.free
    aligned = tuple(device for device in stock.free if (stock.nodes.get(device) or 0) & affinity)
    others = (device for device in stock.free if not (stock.nodes.get(device) or 0) & affinity)
    return aligned, tuple(sorted(others, key=lambda device: stock.nodes.get(device) is None))


def _chosen(candidates: Sequence[str], taken: tuple[str, ...], size: int, chooser: Chooser | None) -> tuple[str, ...]:
    """Return the candidates that the chooser adds to what is taken; empty where there is nothing to choose."""
    needed = size - len(taken)
    if chooser is None or not 0 < needed < len(candidates):
        return ()
    allowed = frozenset(candidates)
    answer = chooser.choose((*taken, *candidates), taken, size)
    return tuple(device for device in dict.fromkeys(answer) if device in allowed)[:needed]


def _is_elsewhere(nodes: int | None, affinity: int | None) -> bool:
    return affinity is not None and nodes is not None and not nodes & affinity
