"""Read the inventory of devices from a YAML file: lists by type, or Koordinator's Device object as it is.

Every error names file, line, word and remedy. Koordinator's own names of keys are understood in both forms.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, TypeVar

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.cri.device_names.names import pci_address
from cri_proxy.foreign_files.form import FileForm
from cri_proxy.link_file import read_link_document
from cri_proxy.yaml_fields import DocumentError, YamlField, short_repr
from policies.devices.model import (
    DEVICE_TYPES,
    DeviceInventory,
    GpuPartition,
    InventoryDevice,
    PciePath,
    VfGroup,
    VirtualFunction,
)
from policies.devices.resources import RESOURCES, full_name
from sysfs.quantity import parse_bytes

T = TypeVar("T")

# A NIC has up to 256 VFs; a node with 16 of them has some 20,000 keys and values.
DIALECT: Final = Dialect(max_bytes=4 << 20, max_depth=16, max_nodes=400_000, has_aliases=True)
PARTITIONS_ANNOTATION: Final = "scheduling.koordinator.sh/gpu-partitions"
INVENTORY_KEYS: Final = (*DEVICE_TYPES, "partitions", "node_labels", "links")

# Our key of a device to that of Koordinator, where it has another.
_DEVICE_NAMES: Final[Mapping[str, str]] = {
    "minor": "",
    "numa": "nodeID",
    "pcie": "pcieID",
    "bus": "busID",
    "root": "",
    "switches": "",
    "labels": "",
    "health": "",
    "resources": "",
    "vf_groups": "vfGroups",
    "uuid": "id",
}
# The same for partitions.
_PARTITION_NAMES: Final[Mapping[str, str]] = {
    "minors": "",
    "score": "allocationScore",
    "bandwidth": "ringBusBandwidth",
    "link": "gpuLinkType",
}
# Of Koordinator's devices, what has no use here.
_IGNORED: Final = ("type", "moduleID", "topology", "conditions", "socketID")
_SHORT_RESOURCES: Final = tuple(name.rpartition("/")[2] for name in RESOURCES)
_MAX_MINOR: Final = 65535
_MAX_NODE: Final = 1023  # CONFIG_NODES_SHIFT=10, the most that kernels are built for


def _is_inventory(root: YamlField) -> bool:
    """Return whether a list of devices stands there, or Koordinator's object."""
    fields = {key: field for key, _, field in root.rows("")} if root.is_mapping else {}
    kind = fields.get("kind")
    return not fields.keys().isdisjoint(INVENTORY_KEYS) or (
        kind is not None and kind.is_scalar and kind.text("") == "Device"
    )


INVENTORY_FORM: Final = FileForm(
    "an inventory",
    f"lists {', '.join(DEVICE_TYPES)}, or kind: Device",
    "cri-proxy devices list",
    DIALECT,
    _is_inventory,
)


def read_inventory_file(path: Path) -> DeviceInventory:
    """Return the inventory of a file with one document. Raises DocumentError."""
    name = str(path)
    if name == "-":  # a file of that name; standard input may be where the request comes from
        name = "./-"
    return read_inventory_text(YamlField.read_text(name, DIALECT.max_bytes), name)


def read_inventory_text(text: str, name: str) -> DeviceInventory:
    """Return the inventory of a file's text, of which ``name`` is the file. Raises DocumentError."""
    found = list(YamlField.documents(text, name, DIALECT))
    if len(found) != 1:
        raise DocumentError(name, 0, f"expected one document, an inventory of devices, got {len(found)}")
    return read_inventory(found[0])


def read_inventory(root: YamlField) -> DeviceInventory:
    """Return the inventory of a document, or of a part of one. Raises DocumentError."""
    entries = root.entries("the inventory")
    if "kind" in entries or "spec" in entries:
        return _device_object(root, entries)
    fields = root.mapping(INVENTORY_KEYS, "the inventory")
    devices: list[InventoryDevice] = []
    seen = _Seen()
    for kind in DEVICE_TYPES:
        items = fields[kind].items(kind) if kind in fields else ()
        devices += (_device(item, kind, seen) for item in items)
    partitions = _given(fields, "partitions", _partitions)
    labels = _given(fields, "node_labels", lambda field: _labels(field, "node_labels"))
    links = _given(fields, "links", read_link_document)
    return DeviceInventory(tuple(devices), partitions, labels or {}, links)


class _Seen:
    """The lines on which minors, identifiers and addresses stand, so that none is there twice."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, str], int] = {}

    def add(self, what: str, name: str, field: YamlField) -> None:
        """Take note of a name. Raises DocumentError for a second one."""
        if (what, name) in self._lines:
            first = self._lines[what, name]
            raise field.refuse(f"{what} {name} stands twice, first on line {first}; give each device its own")
        self._lines[what, name] = field.line


def _given(fields: Mapping[str, YamlField], key: str, read: Callable[[YamlField], T]) -> T | None:
    field = fields.get(key)
    return None if field is None or field.is_null else read(field)


def _device(field: YamlField, kind: str, seen: _Seen, place: Mapping[str, YamlField] | None = None) -> InventoryDevice:
    """Return a device; ``place`` are fields that stand in a mapping of their own."""
    fields = field.mapping((*_known(_DEVICE_NAMES), *_IGNORED), kind)
    ours = _by_our_names({**fields, **(place or {})}, _DEVICE_NAMES)
    if "minor" not in ours:
        raise field.refuse(f"{kind}: minor is missing; give each device a number of its own")
    minor = ours["minor"].parsed(f"{kind}.minor", _number)
    what = f"{kind} {minor}"
    seen.add(kind, str(minor), ours["minor"])
    switches = _given(ours, "switches", lambda field: _texts(field, f"{what}.switches"))
    health = _given(ours, "health", lambda field: field.truth(f"{what}.health"))
    bus = _given(ours, "bus", lambda field: _address(field, f"{what}.bus", "the PCI address", seen)) or ""
    uuid = _text(ours, "uuid", what)
    if uuid:
        seen.add("the uuid", uuid, ours["uuid"])
    return InventoryDevice(
        kind,
        minor,
        _given(ours, "numa", lambda field: field.parsed(f"{what}.numa", _node)),
        _text(ours, "pcie", what) or None,
        PciePath(_text(ours, "root", what), switches or (), bus),
        _given(ours, "labels", lambda field: _labels(field, f"{what}.labels")) or {},
        health is not False,
        _given(ours, "resources", lambda field: _resources(field, f"{what}.resources")) or {},
        _given(ours, "vf_groups", lambda field: _vf_groups(field, what, seen)) or (),
        uuid,
    )


def _text(fields: Mapping[str, YamlField], key: str, what: str) -> str:
    return _given(fields, key, lambda field: field.text(f"{what}.{key}")) or ""


def _address(field: YamlField, what: str, name: str, seen: _Seen) -> str:
    """Return a PCI address as sysfs writes it, '' for an empty text; ``name`` tells its kind from others that are seen.

    NVIDIA's tools write the domain with eight digits, and lspci leaves it out where all devices have the same.
    """
    text = field.text(what)
    address = pci_address(text) or pci_address(f"0000:{text}")
    if text and address is None:
        raise field.refuse(f"{what}: expected a PCI address like 0000:3b:00.0, got {short_repr(text)}")
    if address is not None:
        seen.add(name, address, field)
    return address or ""


def _vf_groups(field: YamlField, what: str, seen: _Seen) -> tuple[VfGroup, ...]:
    return tuple(_vf_group(item, f"{what}.vf_groups", seen) for item in field.items(f"{what}.vf_groups"))


def _vf_group(field: YamlField, what: str, seen: _Seen) -> VfGroup:
    fields = field.mapping(("labels", "vfs"), what)
    labels = _given(fields, "labels", lambda field: _labels(field, f"{what}.labels"))
    items = fields["vfs"].items(f"{what}.vfs") if "vfs" in fields else []
    return VfGroup(tuple(_vf(item, number, f"{what}.vfs", seen) for number, item in enumerate(items)), labels or {})


def _vf(field: YamlField, number: int, what: str, seen: _Seen) -> VirtualFunction:
    fields = field.mapping(("minor", "bus", "busID"), what)
    bus = fields.get("bus") or fields.get("busID")
    address = "" if bus is None or bus.is_null else _address(bus, f"{what}.bus", "the VF", seen)
    if not address:
        raise field.refuse(f"{what}: bus is missing; give the PCI address of the VF")
    minor = _given(fields, "minor", lambda field: field.parsed(f"{what}.minor", _number))
    return VirtualFunction(number if minor is None else minor, address)


def _device_object(root: YamlField, entries: Mapping[str, YamlField]) -> DeviceInventory:
    """Return the inventory of Koordinator's object ``kind: Device``, partition table and labels of its metadata too."""
    kind = _given(entries, "kind", lambda field: field.text("kind"))
    if kind != "Device" or "spec" not in entries:
        raise root.refuse(f"kind: expected Device with spec.devices, or lists {', '.join(DEVICE_TYPES)}, got {kind!r}")
    spec = entries["spec"].entries("spec")
    devices: list[InventoryDevice] = []
    seen = _Seen()
    for item in spec["devices"].items("spec.devices") if "devices" in spec else ():
        fields = item.entries("spec.devices")
        type_field = fields.get("type")
        if type_field is None:
            raise item.refuse(f"spec.devices: type is missing; give one of {', '.join(DEVICE_TYPES)}")
        name = type_field.text("type")
        if name not in DEVICE_TYPES:
            raise type_field.refuse(f"type: expected one of {', '.join(DEVICE_TYPES)}, got {name!r}")
        place = _given(fields, "topology", lambda field: field.entries("topology")) or {}
        devices.append(_device(item, name, seen, place))
    metadata = _given(entries, "metadata", lambda field: field.entries("metadata")) or {}
    labels = _given(metadata, "labels", lambda field: _labels(field, "metadata.labels"))
    annotations = _given(metadata, "annotations", lambda field: field.entries("metadata.annotations")) or {}
    return DeviceInventory(tuple(devices), _given(annotations, PARTITIONS_ANNOTATION, _annotated), labels or {})


def _annotated(field: YamlField) -> tuple[GpuPartition, ...]:
    """Return the partitions that an annotation has as JSON."""
    text = field.text(PARTITIONS_ANNOTATION)
    try:
        (table,) = YamlField.documents(text, PARTITIONS_ANNOTATION, DIALECT)
        return _partitions(table)
    except ValueError:
        raise field.refuse(
            f"{PARTITIONS_ANNOTATION}: expected one JSON object, the sizes with their partitions"
        ) from None
    except DocumentError as error:
        raise field.refuse(f"{PARTITIONS_ANNOTATION}: {error.problem}") from None


def _known(names: Mapping[str, str]) -> tuple[str, ...]:
    return (*names, *filter(None, names.values()))


def _by_our_names(fields: Mapping[str, YamlField], names: Mapping[str, str]) -> dict[str, YamlField]:
    """Return the fields that are not null by our keys, whichever keys they stand under."""
    pairs = [(ours, name) for ours, other in names.items() for name in (other, ours) if name in fields]
    return {ours: fields[name] for ours, name in pairs if not fields[name].is_null}


def _partitions(field: YamlField) -> tuple[GpuPartition, ...]:
    """Return the partitions of ``{SIZE: [{minors, score, bandwidth, link}]}``. Raises DocumentError."""
    found = []
    for size, items in field.entries("partitions").items():
        for item in items.items(f"partitions.{size}"):
            partition = _partition(item, f"partitions.{size}")
            if str(len(partition.minors)) != size.strip():
                count = len(partition.minors)
                raise item.refuse(f"partitions.{size}: minors has {count} GPUs; give {size}, or move it to {count}")
            found.append(partition)
    return tuple(found)


def _partition(field: YamlField, what: str) -> GpuPartition:
    ours = _by_our_names(field.mapping(_known(_PARTITION_NAMES), what), _PARTITION_NAMES)
    if "minors" not in ours:
        raise field.refuse(f"{what}: minors is missing; give the GPUs of the partition as a list")
    minors = tuple(item.parsed(f"{what}.minors", _number) for item in ours["minors"].items(f"{what}.minors"))
    if len(set(minors)) < len(minors):
        raise ours["minors"].refuse(f"{what}.minors: a GPU stands twice in {list(minors)}")
    return GpuPartition(
        tuple(sorted(minors)),
        ours["score"].parsed(f"{what}.score", _number) if "score" in ours else 1,
        ours["bandwidth"].parsed(f"{what}.bandwidth", parse_bytes) if "bandwidth" in ours else None,
        ours["link"].text(f"{what}.link") if "link" in ours else "",
    )


def _labels(field: YamlField, what: str) -> Mapping[str, str]:
    return {key: value.text(f"{what}.{key}") for key, value in field.entries(what).items()}


def _resources(field: YamlField, what: str) -> Mapping[str, int]:
    """Return amounts by full name: of any domain, and of Koordinator's without it."""
    entries = field.entries(what)
    field.mapping((*_SHORT_RESOURCES, *(key for key in entries if "/" in key)), what)
    return {full_name(key): value.parsed(f"{what}.{key}", parse_bytes) for key, value in entries.items()}


def _texts(field: YamlField, what: str) -> tuple[str, ...]:
    return tuple(item.text(what) for item in field.items(what))


def _number(text: str, most: int = _MAX_MINOR) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 9 and int(text) <= most):
        raise ValueError(f"expected a number from 0 to {most}, got {text[:20]!r}")
    return int(text)


def _node(text: str) -> int | None:
    """Return a NUMA node; None for -1, as the kernel writes it where the firmware names none."""
    return None if text == "-1" else _number(text, _MAX_NODE)
