"""Name the identities of hardware: those that a source tells of a device, and those that a grant was known under. Pure.

An identity is a PCI address, an identifier of a driver, a type with a number, or a name of a cost file. Two of one
device are told apart by no letter case, and cost files drop the dash before a number: ``GPU-5a-1`` is ``GPU-5a1``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from policies.device_grants import DeviceGrant
from policies.devices.device_types import AMD_PARTS, DEVICE_TYPES, GPU, OWN_DOMAIN
from policies.devices.model import InventoryDevice
from policies.devices.resources import GPU_UNITS, OTHERS, WHOLE_GPUS

_OWN_KINDS: Final = {f"{OWN_DOMAIN}/{kind}": kind for kind in DEVICE_TYPES}
_KINDS: Final = dict.fromkeys((*WHOLE_GPUS, *AMD_PARTS, GPU_UNITS), GPU) | dict(OTHERS) | _OWN_KINDS
"""The types of cost files whose instances are named by the numbers of an inventory, and its type."""

_ADDRESS: Final = re.compile(r"(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE)
_UNDERSCORED: Final = re.compile(r"[0-9a-f]{4,8}_[0-9a-f]{2}_[0-9a-f]{2}\.[0-7]", re.IGNORECASE)
_UUID: Final = re.compile(r"(?:(?:gpu|mig)-?)?[0-9a-f]{8}(?:-?[0-9a-f]{4}){3}-?[0-9a-f]{12}", re.IGNORECASE)
_PART_BY_INDEX: Final = re.compile(r"nvidia\.com/(?:gpu|mig-[\w.+-]+)/(?:gpu-?)?(\d{1,4}):(\d{1,4})", re.ASCII)
_PART_OF_UUID: Final = re.compile(r"[^/]+/[^/]+/(MIG-(GPU-[0-9a-fA-F-]+)/\d{1,4}/\d{1,4})", re.ASCII)
_PART_BY_UUID: Final = re.compile(r"[^/]+/[^/]+/(MIG-[0-9a-fA-F-]+)", re.ASCII)
_SHORT_UUID: Final = re.compile(r"(?:GPU|MIG)-?[0-9a-fA-F-]+")


def identities_of(device: InventoryDevice) -> tuple[str, ...]:
    """Return the identities that an inventory tells of a device, the strongest first.

    >>> identities_of(InventoryDevice("gpu", 0, uuid="GPU-5A"))
    ('gpu5a', 'gpu 0')
    """
    uuid = device.uuid and (address_in(device.uuid) or uuid_in(device.uuid) or _id_of(device.kind, device.uuid))
    numbers = (f"{kind} {minor}" for kind, minor in (device.key, *device.formerly))
    return tuple(filter(None, (address_in(device.path.bus), uuid, *numbers)))


@lru_cache(maxsize=4096)
def identities_named(name: str) -> tuple[str, ...]:
    """Return the identities that a name of a cost file tells, the strongest first; the last one is the name.

    >>> identities_named("nvidia.com/gpu/gpu0")
    ('gpu=gpu0', 'gpu 0', 'nvidia.com/gpu/gpu0')
    >>> identities_named("example.com/nic/0000:51:00.1")
    ('0000:51:00.1', 'example.com/nic/0000:51:00.1')
    """
    kind, _, instance = name.rpartition("/")
    told = [address_in(instance) or uuid_in(instance)]
    if of := _KINDS.get(kind):
        number = re.fullmatch(rf"(?:{of}-?)?(0|[1-9][0-9]{{0,8}})", instance, re.ASCII)
        told += [_id_of(of, instance), f"{of} {number[1]}" if number else ""]
    return (*filter(None, told), name)


def identities_held(grant: DeviceGrant) -> tuple[str, ...]:
    """Return the identities under which a container holds a device, or a virtual function of one.

    >>> identities_held(DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")), identities_held(DeviceGrant("gpu", 0, 50))
    (('0000:51:00.1',), ('gpu 0',))
    """
    if grant.vf:
        own: tuple[str, ...] = (address_in(grant.vf) or grant.vf,)
    elif isinstance(grant.minor, str):
        own = identities_named(grant.cost_name)
    else:
        own = (f"{grant.kind} {grant.minor}",)
    return (*own, *grant.known_as, *(identities_named(grant.listed_as) if grant.listed_as else ()))


@dataclass(frozen=True, slots=True)
class ProvedDevice:
    """A piece of hardware that files of the node prove to be behind a name; ``is_part``: a part of it (MIG).

    ``identities`` are those that are known of it, the most exact one first.
    """

    identities: tuple[str, ...]
    is_part: bool = False


def proved(texts: Iterable[str], *, is_part: bool = False) -> ProvedDevice:
    """Return the hardware with these PCI addresses, identifiers of NVIDIA's driver, and names of partitions of a GPU.

    >>> proved(["00000000:3B:00.0", "GPU-5A"]).identities, proved(["amdgpu_xcp_1"]).identities
    (('0000:3b:00.0', 'gpu5a'), ('gpu=amdgpu_xcp_1',))
    """
    found = (address_in(text) or uuid_in(text) or _id_of(GPU, text) for text in texts)
    return ProvedDevice(tuple(dict.fromkeys(found)), is_part)


@dataclass(frozen=True, slots=True)
class GpuPart:
    """A part of a GPU (MIG instance) by its own name; ``parent`` is an identity of the GPU, '' where none is told."""

    name: str
    parent: str = ""


def gpu_part(name: str) -> GpuPart | None:
    """Return the part of a GPU that a name in the form of cost files is of; None for a name of none.

    Sources: ``nvidia-ctk cdi generate`` (``nvidia.com/gpu=0:1``, GPU and instance by index), NVIDIA's device plugin
    (resources as ``nvidia.com/mig-1g.10gb``, ids ``MIG-UUID``, of drivers before R470 ``MIG-GPU-UUID/1/0``).

    >>> gpu_part("nvidia.com/mig-1g.10gb/0:1"), gpu_part("nvidia.com/gpu/MIG-5a-7c")
    (GpuPart(name='0:1', parent='gpu 0'), GpuPart(name='MIG-5a-7c', parent=''))
    >>> gpu_part("nvidia.com/gpu/0")
    """
    if (found := _PART_BY_INDEX.fullmatch(name)) is not None:
        return GpuPart(f"{found[1]}:{found[2]}", f"{GPU} {int(found[1])}")
    if (found := _PART_OF_UUID.fullmatch(name)) is not None:
        return GpuPart(found[1], uuid_in(found[2]))
    # Since R470 the name of an instance does not contain that of its GPU.
    found = _PART_BY_UUID.fullmatch(name)
    return GpuPart(found[1]) if found is not None else None


def strength(identity: str) -> int:
    """Return a key that sorts identities by what they prove: addresses and identifiers, then names, then numbers.

    >>> sorted(["gpu 0", "nvidia.com/gpu/gpu0", "0000:51:00.0"], key=strength)
    ['0000:51:00.0', 'nvidia.com/gpu/gpu0', 'gpu 0']
    """
    # A number is the weakest: drivers and inventories may count in different orders.
    return 2 if " " in identity else 1 if "/" in identity else 0


def kind_of_proof(identity: str) -> str:
    """Return which of the identities that prove something this one is, '' where it proves nothing.

    Two of one kind that differ are of two pieces of hardware.

    >>> [kind_of_proof(identity) for identity in ("0000:51:00.0", "gpu5a", "gpu=amdgpu_xcp_1", "gpu 0")]
    ['address', 'uuid', 'name', '']
    """
    if strength(identity):
        return ""
    return "address" if ":" in identity and "=" not in identity else "name" if "=" in identity else "uuid"


def address_in(text: str) -> str:
    """Return the PCI address that this text is, as sysfs writes it; '' for another text.

    Names of Kubernetes take no colon, so those that follow from an address may have underscores in its place.

    >>> address_in("00000000:3B:00.0"), address_in("3b:00.0"), address_in("0000_3b_00.0"), address_in("gpu0")
    ('0000:3b:00.0', '0000:3b:00.0', '0000:3b:00.0', '')
    """
    found = _ADDRESS.fullmatch(text.replace("_", ":") if _UNDERSCORED.fullmatch(text) else text)
    if found is None:
        return ""
    # NVIDIA's tools write eight digits of the domain; sysfs writes four, and more only where it needs them (VMD).
    domain = (found[1] or "").lstrip("0")
    return f"{domain:0>4}:{found[2]}".lower()


def uuid_in(text: str) -> str:
    """Return the identifier of NVIDIA's driver that this text is, without dashes; '' for another text.

    >>> uuid_in("GPU-5A-1"), uuid_in("gpu0")
    ('gpu5a1', '')
    """
    is_uuid = _UUID.fullmatch(text) or _SHORT_UUID.fullmatch(text)
    return text.lower().replace("-", "") if is_uuid else ""


def _id_of(kind: str, text: str) -> str:
    return f"{kind}={text.lower().replace('-', '')}"
