"""Write down the devices that our device plugin has allocated to a container, and read them where it is created.

There is one text per type: ``0,1`` for whole devices, ``1@0000:51:00.1`` for a virtual function of device 1,
``1:25`` for 25 of the 100 units of device 1. The plugin's answer to Allocate has it twice. The environment variable
``CRI_PROXY_ALLOCATED_GPU`` is for the container, and a pod can write one too; the annotation of the container,
``allocated.cri-proxy.io/gpu``, comes from the kubelet and plugins alone. Source: ContainerAllocateResponse of the
device plugin API v1beta1.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from policies.device_grants import WHOLE, DeviceGrant
from policies.devices.device_types import DEVICE_TYPES
from policies.devices.model import VF_UNITS
from policies.errors import PolicyBaseError
from sysfs.cpuset import gathered

VARIABLE_PREFIX: Final = "CRI_PROXY_ALLOCATED_"
"""The beginning of the names of the variables; the type follows in capitals."""

ANNOTATION_PREFIX: Final = "allocated.cri-proxy.io/"
"""The beginning of the names of the annotations; the type follows."""

_MAX_DEVICES: Final = 1024  # 256 virtual functions on each of some NICs
_EXPECTED: Final = "expected MINOR, MINOR@VF or MINOR:UNITS, separated by commas, as the device plugin writes them"
# Addresses have the characters that CDI allows in the name of a device.
_DEVICE: Final = re.compile(r"(?P<minor>\d{1,9})(?:@(?P<vf>[A-Za-z0-9_.:-]{1,64})|:(?P<units>\d{1,3}))?", re.ASCII)


@dataclass(eq=False)
class PluginVariableError(PolicyBaseError):
    """A variable or annotation that the device plugin has not written: its name, its value, what is wrong."""

    name: str
    value: str
    problem: str

    def __str__(self) -> str:
        return f"{self.name}: cannot use {self.value[:80]!r}: {self.problem}"


def allocated_variables(devices: Iterable[DeviceGrant]) -> dict[str, str]:
    """Return the environment variable of each type; the devices stand in their order.

    >>> allocated_variables([DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 1, 100)])
    {'CRI_PROXY_ALLOCATED_GPU': '0,1'}
    """
    return {f"{VARIABLE_PREFIX}{kind.upper()}": text for kind, text in _texts(devices).items()}


def allocated_annotations(devices: Iterable[DeviceGrant]) -> dict[str, str]:
    """Return the annotation of each type, which says the same as the variable.

    >>> allocated_annotations([DeviceGrant("gpu", 1, 100)])
    {'allocated.cri-proxy.io/gpu': '1'}
    """
    return {f"{ANNOTATION_PREFIX}{kind}": text for kind, text in _texts(devices).items()}


def read_annotated(annotations: Mapping[str, str]) -> tuple[DeviceGrant, ...]:
    """Return the devices in a container's annotations, by type, as they stand there; others are no matter.

    A container has these annotations from plugins only: those of its pod stand on the sandbox. Raises
    PluginVariableError.

    >>> [str(d) for d in read_annotated({"allocated.cri-proxy.io/rdma": "1@0000:51:00.1", "io.kubernetes.x": "/"})]
    ['rdma 1 VF 0000:51:00.1']
    """
    names = ((kind, f"{ANNOTATION_PREFIX}{kind}") for kind in DEVICE_TYPES)
    here = ((kind, name, annotations[name]) for kind, name in names if name in annotations)
    return tuple(device for kind, name, text in here for device in _devices(kind, name, text))


def _texts(devices: Iterable[DeviceGrant]) -> dict[str, str]:
    words = gathered((device.kind, device.word) for device in devices)
    return {kind: ",".join(found) for kind, found in words.items()}


def _devices(kind: str, name: str, text: str) -> Iterable[DeviceGrant]:
    """Return the devices of one text; none of an empty one."""
    if not text:
        return ()
    # Bounded here already: a text that is too long is not cut into all of its words.
    words = text.split(",", _MAX_DEVICES)
    if len(words) > _MAX_DEVICES:
        raise PluginVariableError(name, text, f"more than {_MAX_DEVICES} devices")
    found: dict[tuple[int, str], DeviceGrant] = {}
    for word in words:
        match = _DEVICE.fullmatch(word)
        if match is None:
            raise PluginVariableError(name, text, _EXPECTED)
        minor, vf = int(match["minor"]), (match["vf"] or "").lower()
        units = VF_UNITS if vf else int(match["units"] or WHOLE)
        if not 0 < units <= WHOLE:
            raise PluginVariableError(name, text, f"{word}: a device has 1 to {WHOLE} units")
        if (minor, vf) in found:
            raise PluginVariableError(name, text, f"{kind} {minor}{vf and ' ' + vf} stands twice")
        found[minor, vf] = DeviceGrant(kind, minor, units, vf, is_given=True)
    return found.values()
