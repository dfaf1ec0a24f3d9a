"""Frozen values of a node's devices (GPUs, NICs, FPGAs): what a container asks for, and what it holds of each of them.

How they are chosen is in ``policies.devices``.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

DeviceKey = tuple[str, int]
"""The type and minor of a device: its name on this node."""


class ExclusivePolicy(StrEnum):
    """What no other container may use: nothing, the same device, a device of the same type on the same PCIe."""

    DEFAULT = ""
    DEVICE_LEVEL = "DeviceLevel"
    PCIE_LEVEL = "PCIeLevel"


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """What a container holds of one device.

    ``amount`` is its share of 100: of the core of a GPU, or of its memory where only that was asked. ``vf`` is the PCI
    address of its VF, '' where it has none. ``resources`` is what it has of each resource that it asked for, by name;
    empty: the amount says it all. ``exclusive`` is what it keeps others from. ``is_given``: others chose it (the
    kubelet, or the writer of its CDI name), so that it is counted and never refused.
    """

    kind: str
    minor: int
    amount: int
    vf: str = ""
    resources: tuple[tuple[str, int], ...] = ()
    exclusive: ExclusivePolicy = ExclusivePolicy.DEFAULT
    is_given: bool = False

    @property
    def key(self) -> DeviceKey:
        """The type and minor of the device."""
        return self.kind, self.minor

    def __str__(self) -> str:
        return f"{self.kind} {self.minor}" + (f" VF {self.vf}" if self.vf else "")


@dataclass(frozen=True, slots=True)
class DeviceAsk:
    """What a container asks for of the node's devices: amounts by resource, and the annotations that say how.

    Both are sorted by name; the texts are those of the pod, which ``policies.devices.annotations`` reads.
    """

    requests: tuple[tuple[str, int], ...]
    annotations: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """All devices of one container: ``names`` are those of cost files, ``allocated`` those of the inventory."""

    names: tuple[str, ...] = ()
    allocated: tuple[DeviceGrant, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.names or self.allocated)


NOTHING_HELD = HeldDevices()


def with_given(allocated: tuple[DeviceGrant, ...], given: Iterable[DeviceGrant]) -> tuple[DeviceGrant, ...]:
    """Return the devices of a container with those that others chose for it, unless it has them already."""
    had = {(grant.key, grant.vf) for grant in allocated}
    return (*allocated, *(grant for grant in given if (grant.key, grant.vf) not in had))


def sources_of(allocated: Iterable[DeviceGrant]) -> tuple[str, ...]:
    """Return the names under which the places of these devices stand among a request's hints.

    >>> sources_of([DeviceGrant("gpu", 0, 100), DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")])
    ('gpu/0', 'rdma/1')
    """
    return tuple(f"{grant.kind}/{grant.minor}" for grant in allocated)
