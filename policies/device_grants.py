"""Frozen values of a node's devices (GPUs, NICs, FPGAs): what a container holds of each of them.

How they are chosen is in ``policies.devices``.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

WHOLE: Final = 100
"""The units of a whole device."""

DeviceKey = tuple[str, int | str]
"""The type of a device and its id there: a minor, or the name of an instance that cost files alone list."""


class ExclusivePolicy(StrEnum):
    """Devices that no other container may use: none, the same device, a device of the same type on the same PCIe."""

    DEFAULT = ""
    DEVICE_LEVEL = "DeviceLevel"
    PCIE_LEVEL = "PCIeLevel"


@dataclass(frozen=True, slots=True)
class DeviceGrant:
    """The part of one device that a container holds.

    ``amount`` is its share of 100: of the core of a GPU, or of its memory where only that was asked. ``vf`` is the PCI
    address of its VF, '' where it has none. ``resources`` is what it has of each resource that it asked for, by name;
    empty: the amount says it all. ``exclusive`` is what it keeps others from. ``is_given``: others chose it (the
    kubelet, or the writer of its CDI name), so that it is counted and never refused. ``is_shared``: they give the
    device to several containers on purpose (time slicing, MPS).

    ``listed_as`` is its name in the cost files where it was asked for by their type and an inventory lists it too.
    ``known_as`` are the other identities under which its device, or VF, was known: it is held under each of them,
    whatever the sources list later.
    """

    kind: str
    minor: int | str
    amount: int
    vf: str = ""
    resources: tuple[tuple[str, int], ...] = ()
    exclusive: ExclusivePolicy = ExclusivePolicy.DEFAULT
    is_given: bool = False
    listed_as: str = ""
    known_as: tuple[str, ...] = field(default=(), compare=False)  # tells nothing of what is held
    is_shared: bool = False

    @property
    def key(self) -> DeviceKey:
        """The type of the device, and its minor or name."""
        return self.kind, self.minor

    @property
    def number(self) -> int:
        """Its minor; -1 for a device that cost files alone list."""
        return self.minor if isinstance(self.minor, int) else -1

    @property
    def cost_name(self) -> str:
        """Its name in the cost files, by whose type it was asked for; '' = it was asked for by a resource.

        >>> DeviceGrant("example.com/gpu", "gpu0", 100).cost_name, DeviceGrant("gpu", 0, 100).cost_name
        ('example.com/gpu/gpu0', '')
        """
        return f"{self.kind}/{self.minor}" if isinstance(self.minor, str) else self.listed_as

    @property
    def source(self) -> str:
        """The name under which its place stands among a request's localities."""
        return self.cost_name or f"{self.kind}/{self.minor}"

    @property
    def word(self) -> str:
        """Its text in a list of devices of its type.

        >>> [DeviceGrant("rdma", 1, *part).word for part in ((100,), (1, "0000:51:00.1"), (25,))]
        ['1', '1@0000:51:00.1', '1:25']
        """
        if self.vf:
            return f"{self.minor}@{self.vf}"
        return str(self.minor) if self.amount == 100 else f"{self.minor}:{self.amount}"

    def __str__(self) -> str:
        word = "part" if self.kind == "gpu" else "VF"
        return f"{self.kind} {self.minor}" + (f" {word} {self.vf}" if self.vf else "")


@dataclass(frozen=True, slots=True)
class DeviceHolding:
    """Devices of a container without a grant that counts: it has ended, or is left alone. ``holder`` is its name.

    ``pod_uid`` is the pod whose containers may have them all the same, '' where none may.
    """

    holder: str
    devices: tuple[DeviceGrant, ...]
    pod_uid: str = ""


def listed_only(name: str) -> DeviceGrant:
    """Return a whole device that cost files alone list, by its name there.

    >>> listed_only("example.com/gpu/gpu0").key
    ('example.com/gpu', 'gpu0')
    """
    kind, _, instance = name.rpartition("/")
    return DeviceGrant(kind, instance, 100)


def cost_names(devices: Iterable[DeviceGrant]) -> tuple[str, ...]:
    """Return the names of those devices that were asked for by the types of cost files."""
    return tuple(device.cost_name for device in devices if device.cost_name)


def by_cost(devices: Iterable[DeviceGrant]) -> tuple[DeviceGrant, ...]:
    """Return those devices that were asked for by the types of cost files."""
    return tuple(device for device in devices if device.cost_name)


def by_place(devices: Iterable[DeviceGrant]) -> tuple[DeviceGrant, ...]:
    """Return those devices that were asked for by resources of the inventory, or chosen by others."""
    return tuple(device for device in devices if not device.cost_name)


def with_given(devices: tuple[DeviceGrant, ...], given: Iterable[DeviceGrant]) -> tuple[DeviceGrant, ...]:
    """Return the devices of a container with those that others chose for it, unless it has them already."""
    had = {(grant.key, grant.vf) for grant in devices}
    return (*devices, *(grant for grant in given if (grant.key, grant.vf) not in had))


def sources_of(devices: Iterable[DeviceGrant]) -> tuple[str, ...]:
    """Return the names under which the places of these devices stand among a request's localities.

    >>> sources_of([DeviceGrant("gpu", 0, 100), DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")])
    ('gpu/0', 'rdma/1')
    """
    return tuple(device.source for device in devices)


def device_words(devices: Iterable[DeviceGrant]) -> tuple[str, ...]:
    """Return devices as logs, status and resource files name them: a share with its units, a VF with its address.

    >>> device_words([DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 1, 25), DeviceGrant("rdma", 1, 1, "0000:51:00.1")])
    ('gpu/0', 'gpu/1:25', 'rdma/1@0000:51:00.1')
    """
    return tuple(device.cost_name or f"{device.kind}/{device.word}" for device in devices)
