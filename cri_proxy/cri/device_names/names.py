"""A device by the name that a CRI request, a CDI specification, a variable or a claim calls it. Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from policies.base import DeviceLocality

NameKind = Literal["path", "pci", "gpu", "mediated", "auxiliary", "interface"]
"""The text's kind: a path of the host; a PCI address; an NVIDIA GPU by index, UUID or address; the UUID of a mediated
device; an auxiliary device; a network interface of the host."""

MAX_NAMES: Final = 128
"""The bound of a container's variables, and of its claims: far more than a node has GPUs and a NIC virtual functions.

Each device named is looked up and weighs in every pool's key, and the author of a pod may write as many as fit.
"""

_ADDRESS: Final = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])", re.IGNORECASE)
# A DRA driver's device is a DNS label: gpu-0000-3b-00-0.
_ADDRESS_IN_LABEL: Final = re.compile(
    r"(?<![0-9a-f])([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])(?![0-9a-f-])", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class DeviceName:
    """A device by one of its names; ``via`` is what wrote it, '' for the request's own devices and mounts."""

    kind: NameKind
    text: str
    via: str = ""


@dataclass(frozen=True, slots=True)
class Named:
    """Devices in the order in which they were named, and a sentence for each source that did not count as a whole.

    ``cdi`` are names of CDI devices, which stand for what their specifications name.
    """

    names: tuple[DeviceName, ...] = ()
    problems: tuple[str, ...] = ()
    cdi: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AllocatedDevices:
    """Devices of one resource whose place the kubelet reports, and their ids as the plugin names them."""

    place: DeviceLocality
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToldDevices:
    """A container's devices by the kubelet.

    ``names`` are devices of its claims, ``cdi`` the CDI names of these, each with what names it
    (``podresapi:DRIVER/POOL/DEVICE``). ``allocated`` are devices of plugins, RESOURCE/ID. ``is_known``: the kubelet has
    answered about the container, as it does of all but init containers.
    """

    places: tuple[AllocatedDevices, ...] = ()
    names: tuple[DeviceName, ...] = ()
    cdi: tuple[tuple[str, str], ...] = ()
    allocated: tuple[str, ...] = ()
    is_known: bool = False


NOTHING_TOLD: Final = ToldDevices()


def pci_address(text: str) -> str | None:
    """Return a PCI address as sysfs writes it; None for other text. NVML writes the domain with eight digits.

    >>> pci_address("00000000:3B:00.0"), pci_address("10000:01:00.0"), pci_address("3b:00.0")
    ('0000:3b:00.0', '10000:01:00.0', None)
    """
    found = _ADDRESS.fullmatch(text)
    return None if found is None else _address(*found.groups())


def pci_address_in_label(text: str) -> str | None:
    """Return the PCI address in the name of a device of Dynamic Resource Allocation; None where there is none.

    >>> pci_address_in_label("pci-0000-3b-00-1"), pci_address_in_label("gpu-0")
    ('0000:3b:00.1', None)
    """
    found = _ADDRESS_IN_LABEL.search(text)
    return None if found is None else _address(*found.groups())


def each_once(names: Iterable[DeviceName]) -> tuple[DeviceName, ...]:
    """Return these without those that an earlier one spells the same, whatever names them."""
    first: dict[tuple[NameKind, str], DeviceName] = {}
    for name in names:
        first.setdefault((name.kind, name.text), name)
    return tuple(first.values())


def _address(domain: str, bus: str, device: str, function: str) -> str:
    return f"{int(domain, 16):04x}:{bus}:{device}.{function}".lower()
