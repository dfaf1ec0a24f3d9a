"""Read the annotations by which a pod asks for devices that go together, in Koordinator's format.

Source: Koordinator's "Device Allocate Hint API" (``device-joint-allocate``, ``device-allocate-hint``), and its
``gpu-partition-spec``.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeVar

from policies.device_grants import ExclusivePolicy
from policies.devices.fields import (
    AnnotationError,
    FieldError,
    list_of,
    mapping_of,
    object_of,
    shown,
    text_of,
    word_of,
)
from policies.devices.model import DEVICE_TYPES
from policies.devices.selector import LabelSelector, read_selector
from sysfs.quantity import parse_bytes

T = TypeVar("T")

DOMAIN: Final = "scheduling.koordinator.sh"
JOINT_ALLOCATE: Final = f"{DOMAIN}/device-joint-allocate"
ALLOCATE_HINT: Final = f"{DOMAIN}/device-allocate-hint"
PARTITION_SPEC: Final = f"{DOMAIN}/gpu-partition-spec"

SAME_PCIE: Final = "SamePCIe"
# The text of the proposal names the scope so where its constant has the other word.
_PCIE: Final = "PCIe"
_MAX_CHARACTERS: Final = 256 << 10  # Kubernetes allows a pod that much for all of its annotations


class AllocateStrategy(StrEnum):
    """What the amount of a request means. DEFAULT: an amount of one device, or 100 for each of several."""

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


@dataclass(frozen=True, slots=True)
class JointAllocate:
    """Device types to allocate by their place to each other, the primary one first."""

    types: tuple[str, ...]
    is_same_pcie: bool = False


@dataclass(frozen=True, slots=True)
class DeviceHint:
    """How devices of one type are allocated. A ``vf_selector``, be it empty, demands a VF of each device."""

    selector: LabelSelector = field(default_factory=LabelSelector)
    vf_selector: LabelSelector | None = None
    strategy: AllocateStrategy = AllocateStrategy.DEFAULT
    scope: RequiredScope = RequiredScope.DEFAULT
    exclusive: ExclusivePolicy = ExclusivePolicy.DEFAULT


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """How a pod wants partitions of GPUs. ``is_restricted``: only those with the largest score."""

    is_restricted: bool = False
    bandwidth: int | None = None


@dataclass(frozen=True, slots=True)
class DeviceAnnotations:
    """What the annotations of a pod say about devices; ``warnings`` are sentences for its owner."""

    joint: JointAllocate | None = None
    hints: Mapping[str, DeviceHint] = field(default_factory=dict)
    partition: PartitionSpec | None = None
    warnings: tuple[str, ...] = ()

    def hint(self, kind: str) -> DeviceHint:
        """Return the hint for a device type; one that asks for nothing where there is none."""
        return self.hints.get(kind, DeviceHint())


def read_annotations(annotations: Mapping[str, str]) -> DeviceAnnotations:
    """Return what a pod's annotations say; others than these three are left alone. Raises AnnotationError.

    >>> read_annotations({JOINT_ALLOCATE: '{"deviceTypes": ["gpu", "rdma"]}'}).joint
    JointAllocate(types=('gpu', 'rdma'), is_same_pcie=False)
    """
    warnings: list[str] = []
    joint = _read(annotations, JOINT_ALLOCATE, lambda value: _joint(value, warnings))
    hints = _read(annotations, ALLOCATE_HINT, _hints)
    return DeviceAnnotations(joint, hints or {}, _read(annotations, PARTITION_SPEC, _partition), tuple(warnings))


def _read(annotations: Mapping[str, str], key: str, read: Callable[[object], T]) -> T | None:
    text = annotations.get(key)
    if text is None:
        return None
    if len(text) > _MAX_CHARACTERS:
        raise AnnotationError(key, f"longer than {_MAX_CHARACTERS} characters; shorten it")
    try:
        return read(json.loads(text))
    except json.JSONDecodeError as error:
        raise AnnotationError(key, f"not JSON: {error.msg} in line {error.lineno}") from None
    except RecursionError:
        raise AnnotationError(key, "nested too deeply; leave out what is not needed") from None
    except ValueError as error:  # a FieldError, or a number of too many digits
        problem = str(error) if isinstance(error, FieldError) else "a number with too many digits; shorten it"
        raise AnnotationError(key, problem) from None


def _joint(value: object, warnings: list[str]) -> JointAllocate:
    fields = object_of(value, "the annotation", ("deviceTypes", "requiredScope"))
    if not fields.get("deviceTypes"):
        raise FieldError(f"deviceTypes: missing; give a list of {', '.join(DEVICE_TYPES)}, the primary type first")
    kinds = [_kind(item, "deviceTypes") for item in list_of(fields["deviceTypes"], "deviceTypes")]
    scope = text_of(fields.get("requiredScope", ""), "requiredScope")
    if scope == _PCIE:
        warnings.append(f"{JOINT_ALLOCATE}: requiredScope: {_PCIE} is read as {SAME_PCIE}; write {SAME_PCIE}")
    elif scope not in ("", SAME_PCIE):
        raise FieldError(f"requiredScope: expected {SAME_PCIE}, got {shown(scope)}; leave it out for a preference")
    return JointAllocate(tuple(dict.fromkeys(kinds)), bool(scope))


def _kind(value: object, what: str) -> str:
    kind = word_of(value, what, DEVICE_TYPES)
    if not kind:
        raise FieldError(f"{what}: an empty name; known are {', '.join(DEVICE_TYPES)}")
    return kind


def _hints(value: object) -> Mapping[str, DeviceHint]:
    return {_kind(kind, "device type"): _hint(item, kind) for kind, item in mapping_of(value, "the annotation").items()}


def _hint(value: object, kind: str) -> DeviceHint:
    known = ("selector", "vfSelector", "allocateStrategy", "requiredTopologyScope", "exclusivePolicy")
    fields = object_of(value, kind, known)

    def word(key: str, words: type[StrEnum]) -> str:
        return word_of(fields.get(key, ""), f"{kind}.{key}", [word for word in words if word])

    return DeviceHint(
        read_selector(fields.get("selector", {}), f"{kind}.selector"),
        read_selector(fields["vfSelector"], f"{kind}.vfSelector") if "vfSelector" in fields else None,
        AllocateStrategy(word("allocateStrategy", AllocateStrategy)),
        RequiredScope(word("requiredTopologyScope", RequiredScope)),
        ExclusivePolicy(word("exclusivePolicy", ExclusivePolicy)),
    )


def _partition(value: object) -> PartitionSpec:
    fields = object_of(value, "the annotation", ("allocatePolicy", "ringBusBandwidth"))
    policy = word_of(fields.get("allocatePolicy", ""), "allocatePolicy", ("Restricted", "BestEffort"))
    bandwidth = fields.get("ringBusBandwidth")
    if bandwidth is None:
        return PartitionSpec(policy == "Restricted")
    try:
        return PartitionSpec(policy == "Restricted", parse_bytes(str(bandwidth)))
    except ValueError as error:
        raise FieldError(f"ringBusBandwidth: {error}") from None
