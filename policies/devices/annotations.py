"""Read the annotations by which a pod asks for devices that go together, in Koordinator's format.

Source: Koordinator's "Device Allocate Hint API" (``device-joint-allocate``, ``device-allocate-hint``), and its
``gpu-partition-spec`` and ``device-allocated`` (apis/extension/device_share.go), in which its scheduler names the
devices that it has chosen for a pod.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from policies.device_grants import ExclusivePolicy
from policies.devices.device_types import DEVICE_TYPES
from policies.devices.label_selector import SELECTOR, AnnotationError, JsonValue, LabelSelector
from sysfs.documents.forms import form, one_of, scalar
from sysfs.documents.table import Form, Table, keyed
from sysfs.quantity import parse_bytes

T = TypeVar("T")
W = TypeVar("W", bound=StrEnum)

DOMAIN: Final = "scheduling.koordinator.sh"
JOINT_ALLOCATE: Final = f"{DOMAIN}/device-joint-allocate"
ALLOCATE_HINT: Final = f"{DOMAIN}/device-allocate-hint"
PARTITION_SPEC: Final = f"{DOMAIN}/gpu-partition-spec"
DEVICE_ALLOCATED: Final = f"{DOMAIN}/device-allocated"

SAME_PCIE: Final = "SamePCIe"
# The text of the proposal names the scope so where its constant has the other word.
_PCIE: Final = "PCIe"
_WHOLE: Final = "the annotation"
_MAX_MINOR: Final = 65535
# Any author of a pod writes them, and a decision reads them.
_MAX_BYTES: Final = 16 << 10
_MAX_CHOSEN: Final = 256  # of a type; each one is looked up in the inventory by every attempt to allocate


class AllocateStrategy(StrEnum):
    """The meaning of the amount of a request. DEFAULT: an amount of one device, or 100 for each of several."""

    DEFAULT = ""
    APPLY_FOR_ALL = "ApplyForAll"
    REQUESTS_AS_COUNT = "RequestsAsCount"


class RequiredScope(StrEnum):
    """Where all devices of a type have to be. DEFAULT and NODE: anywhere on the machine."""

    DEFAULT = ""
    DEVICE = "Device"
    PCIE = "PCIe"
    NUMA_NODE = "NUMANode"
    NODE = "Node"


def _kinds(field: JsonValue, what: str) -> tuple[str, ...]:
    kinds = tuple(item.parsed(what, one_of(DEVICE_TYPES)) for item in field.items(what))
    if not kinds:
        raise field.refuse(f"{what}: {_LIST}")
    return tuple(dict.fromkeys(kinds))


def _scope(field: JsonValue, what: str, warnings: list[str]) -> bool:
    scope = field.text(what)
    if scope == _PCIE:
        warnings.append(f"{JOINT_ALLOCATE}: {what}: {_PCIE} is read as {SAME_PCIE}; write {SAME_PCIE}")
    elif scope not in ("", SAME_PCIE):
        raise field.refuse(f"{what}: expected {SAME_PCIE}, got {field.shown()}; leave it out for a preference")
    return bool(scope)


def _bandwidth(field: JsonValue, what: str) -> int:
    try:
        return parse_bytes(str(field.plain()))
    except ValueError as error:
        raise field.refuse(f"{what}: {error}") from None


def word(words: type[W], text: str, name: str) -> W:
    """Return a field for one of these words, by default the empty one."""
    return keyed(scalar(one_of(words)), text, words(""), name=name)


def _is_restricted(text: str) -> bool:
    return one_of(("Restricted", "BestEffort", ""))(text) == "Restricted"


_LIST: Final = f"give a list of {', '.join(DEVICE_TYPES)}, the primary type first"
_TYPES: Final = form(_kinds)


@dataclass(frozen=True, slots=True)
class JointAllocate:
    """Device types to allocate by their place to each other, the primary one first."""

    types: tuple[str, ...] = keyed(
        _TYPES, "types that go together", name="deviceTypes", missing=f"deviceTypes is missing; {_LIST}"
    )
    is_same_pcie: bool = keyed(Form(_scope), "SamePCIe: all on the PCIe of the first type", False, name="requiredScope")


@dataclass(frozen=True, slots=True)
class DeviceHint:
    """How devices of one type are allocated. A ``vf_selector``, be it empty, demands a VF of each device."""

    selector: LabelSelector = keyed(SELECTOR, "labels of devices", LabelSelector())
    vf_selector: LabelSelector | None = keyed(
        SELECTOR, "labels of VFs; be it empty, it demands one of each device", None, name="vfSelector"
    )
    strategy: AllocateStrategy = word(AllocateStrategy, "the meaning of the amount", "allocateStrategy")
    scope: RequiredScope = word(RequiredScope, "where all have to be", "requiredTopologyScope")
    exclusive: ExclusivePolicy = word(ExclusivePolicy, "what it keeps others from", "exclusivePolicy")


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How a pod wants partitions of GPUs. ``is_restricted``: only those with the largest score."""

    is_restricted: bool = keyed(scalar(_is_restricted), "Restricted or BestEffort", False, name="allocatePolicy")
    bandwidth: int | None = keyed(form(_bandwidth), "the least bandwidth of its ring", None, name="ringBusBandwidth")


@dataclass(frozen=True, slots=True)
class AllocatedDevice:
    """A device that Koordinator's scheduler has chosen for a pod; ``id`` is its identifier or PCI address, '' = none.

    ``vf`` is the PCI address of its virtual function, '' where it is none.
    """

    kind: str
    minor: int
    id: str = ""
    vf: str = ""


@dataclass(frozen=True, slots=True)
class DeviceAnnotations:
    """The annotations of a pod about devices; ``warnings`` are sentences for its owner.

    ``allocated`` are the devices that were chosen for it, None where none were.
    """

    joint: JointAllocate | None = None
    hints: Mapping[str, DeviceHint] = field(default_factory=dict)
    partition: PartitionSpec | None = None
    warnings: tuple[str, ...] = ()
    allocated: tuple[AllocatedDevice, ...] | None = None

    def hint(self, kind: str) -> DeviceHint:
        """Return the hint for a device type; one that asks for nothing where there is none."""
        return self.hints.get(kind, DeviceHint())


JOINT: Final = Table(JointAllocate, name=_WHOLE)
HINT: Final = Table(DeviceHint)
SPEC: Final = Table(PartitionSpec, name=_WHOLE)


def _hints(value: JsonValue) -> Mapping[str, DeviceHint]:
    entries = value.mapping(DEVICE_TYPES, _WHOLE)
    return {kind: HINT.read(item, kind) for kind, item in entries.items() if not item.is_null}


def _allocated(value: JsonValue) -> tuple[AllocatedDevice, ...]:
    entries = value.mapping(DEVICE_TYPES, _WHOLE)
    chosen = {kind: item.items(kind) for kind, item in entries.items()}
    for kind, items in chosen.items():
        if len(items) > _MAX_CHOSEN:
            raise ValueError(f"{kind}: {len(items)} devices; expected at most {_MAX_CHOSEN}")
    return tuple(_allocated_device(kind, item) for kind, items in chosen.items() for item in items)


def _allocated_device(kind: str, entry: JsonValue) -> AllocatedDevice:
    found = entry.plain()
    fields = found if isinstance(found, dict) else {}
    minor, name, extension = fields.get("minor"), fields.get("id") or "", fields.get("extension") or {}
    # JSON's true is an int to Python, and would be minor 1.
    if isinstance(minor, bool) or not isinstance(minor, int) or not 0 <= minor <= _MAX_MINOR:
        raise entry.refuse(f"{kind}: expected an object with the minor of a device, got {entry.shown()}")
    vfs = (extension.get("vfs") or []) if isinstance(extension, dict) else None
    first = vfs[0] if isinstance(vfs, list) and vfs else {}
    address = first.get("busID") or "" if isinstance(first, dict) else None
    if not isinstance(name, str) or not isinstance(vfs, list) or not isinstance(address, str):
        raise entry.refuse(f"{kind} {minor}: expected texts as id and busID of extension.vfs, got {entry.shown()}")
    return AllocatedDevice(kind, minor, name, address)


def read_annotations(annotations: Mapping[str, str]) -> DeviceAnnotations:
    """Return what a pod's annotations say; others than these four are left alone. Raises AnnotationError.

    >>> read_annotations({JOINT_ALLOCATE: '{"deviceTypes": ["gpu", "rdma"]}'}).joint
    JointAllocate(types=('gpu', 'rdma'), is_same_pcie=False)
    """
    warnings: list[str] = []
    joint = _read(annotations, JOINT_ALLOCATE, lambda value: JOINT.read(value, within=warnings))
    hints = _read(annotations, ALLOCATE_HINT, _hints)
    spec = _read(annotations, PARTITION_SPEC, SPEC.read)
    allocated = _read(annotations, DEVICE_ALLOCATED, _allocated)
    return DeviceAnnotations(joint, hints or {}, spec, tuple(warnings), allocated)


def _read(annotations: Mapping[str, str], key: str, read: Callable[[JsonValue], T]) -> T | None:
    text = annotations.get(key)
    if text is None:
        return None
    # Characters first: to encode what is far too long would take longer than anything else here.
    if len(text) > _MAX_BYTES or len(text.encode(errors="surrogatepass")) > _MAX_BYTES:
        raise AnnotationError(key, f"longer than {_MAX_BYTES} bytes; shorten it")
    try:
        value = JsonValue(json.loads(text))
    except json.JSONDecodeError as error:
        raise AnnotationError(key, f"not JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise AnnotationError(key, "nested too deeply; leave out what is not needed") from None
    except ValueError:
        raise AnnotationError(key, "a number with too many digits; shorten it") from None
    try:
        return read(value)
    except ValueError as error:
        raise AnnotationError(key, str(error)) from None
