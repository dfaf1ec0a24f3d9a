"""The file that lists the devices of a node: by type, or as Koordinator's Device object. Read it, and write it.

Every error names file, line, word and remedy. Koordinator's own names of keys are understood in both forms.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.foreign_files.form import FileForm
from cri_proxy.link_file import LINKS as LINK_TABLES
from cri_proxy.link_file import links_value, read_link_document
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices import (
    DEVICE_TYPES,
    EMPTY_INVENTORY,
    GPU,
    GPU_VENDOR,
    RESOURCES,
    DeviceInventory,
    GpuPartition,
    InventoryDevice,
    PciePath,
    VfGroup,
    VirtualFunction,
    full_name,
)
from sysfs.documents.forms import (
    MAX_NODE,
    TEXT,
    TRUTH,
    between,
    by_name,
    each,
    form,
    list_shape,
    one_of,
    scalar,
    scalar_shape,
)
from sysfs.documents.table import Form, KeyRow, Shape, Table
from sysfs.pci import parse_address
from sysfs.quantity import parse_bytes

# A NIC has up to 256 VFs; a node with 16 of them has some 20,000 keys and values.
DIALECT: Final = Dialect(max_bytes=4 << 20, max_depth=16, max_nodes=400_000, has_aliases=True)
PARTITIONS_ANNOTATION: Final = "scheduling.koordinator.sh/gpu-partitions"

_SHORT_RESOURCES: Final = tuple(dict.fromkeys(name.rpartition("/")[2] for name in RESOURCES))
_LABELS: Final = by_name(TEXT)


Lines = dict[tuple[str, str], int]
"""The lines on which minors, identifiers and addresses stand, so that none is there twice."""


def _note(lines: Lines, what: str, name: str, field: YamlField) -> None:
    """Note the line of a name. Raises DocumentError for a second one."""
    if (what, name) in lines:
        first = lines[what, name]
        raise field.refuse(f"{what} {name} stands twice, first on line {first}; give each device its own")
    lines[what, name] = field.line


def _once(what: str, parse: Callable[[str], str]) -> Form[str]:
    """Return the form of a text that no two devices have; an empty one is written as null."""

    def read(field: YamlField, name: str, lines: Lines) -> str:
        # Two devices with one address or identifier would be one piece of hardware that two containers get.
        if found := field.parsed(name, parse):
            _note(lines, what, found, field)
        return found

    return Form(read, lambda text: text or None, scalar_shape)


_number: Final = between(0, 65535)


_NO_NODE: Final = -1


def _node(text: str) -> int:
    """Return a NUMA node; -1 as the kernel writes it where the firmware names none."""
    return _NO_NODE if text == str(_NO_NODE) else between(0, MAX_NODE)(text)


def _resources(field: YamlField, what: str) -> Mapping[str, int]:
    """Return amounts by full name: of any domain, and of Koordinator's without it."""
    entries = field.entries(what)
    field.mapping((*_SHORT_RESOURCES, *(key for key in entries if "/" in key)), what)
    return {full_name(key): value.parsed(f"{what}.{key}", parse_bytes) for key, value in entries.items()}


def _resources_shape() -> Shape:
    named = f"^(?:{'|'.join(map(re.escape, _SHORT_RESOURCES))})$|/"
    return {"type": "object", "patternProperties": {named: scalar_shape()}, "additionalProperties": False}


def _vf_group(vfs: Iterable[tuple[int | None, str]] = (), labels: Mapping[str, str] | None = None) -> VfGroup:
    """Return the group; a VF without a number has that of its place."""
    numbered = (VirtualFunction(i if minor is None else minor, bus) for i, (minor, bus) in enumerate(vfs))
    return VfGroup(tuple(numbered), labels or {})


_NO_MINOR: Final = "minor is missing; give each device a number of its own"
_NO_ADDRESS: Final = "bus is missing; give the PCI address of the VF"
_BUS: Final = _once("the PCI address", lambda text: text and parse_address(text))
VF: Final = Table(
    lambda bus, minor=None: (minor, bus),
    KeyRow("minor", scalar(_number), "its number; left out: its place in the list, from 0"),
    KeyRow("bus", _once("the VF", parse_address), "its PCI address", _NO_ADDRESS, also=("busID",)),
)
VF_GROUP: Final = Table(
    _vf_group,
    KeyRow("labels", _LABELS, "what selectors of VFs look at"),
    KeyRow("vfs", each(VF), "the functions with these labels"),
)
DEVICE: Final = Table(
    lambda root="", switches=(), bus="", stated_node=None, **more: InventoryDevice(
        numa=None if stated_node == _NO_NODE else stated_node,
        is_nowhere=stated_node == _NO_NODE,
        path=PciePath(root, switches, bus),
        **more,
    ),
    KeyRow("minor", scalar(_number), "tells it from others of its type", _NO_MINOR),
    KeyRow(
        "numa",
        scalar(_node),
        "NUMA node; null: unknown; -1: none, whatever others state",
        also=("nodeID",),
        field="stated_node",
    ),
    KeyRow(
        "pcie",
        scalar(lambda text: text or None),
        "its PCIe, which those of the same name share; null: unknown",
        also=("pcieID",),
    ),
    KeyRow("bus", _BUS, "PCI address, as `lspci` or `nvidia-smi` prints it", also=("busID",), field="path.bus"),
    KeyRow("labels", _LABELS, "what selectors look at"),
    KeyRow("health", TRUTH, "false: it is given to no container", field="is_healthy"),
    KeyRow("vf_groups", each(VF_GROUP), "virtual functions (SR-IOV), by their labels", also=("vfGroups",)),
    KeyRow(
        "resources", form(_resources, shape=_resources_shape), "beside its 100 units; of GPUs: `{gpu-memory: 80Gi}`"
    ),
    KeyRow("root", TEXT, "root complex above it, as `pci0000:3a`", field="path.root", unwritten=""),
    KeyRow("switches", each(TEXT), "bridges and switches above it", field="path.switches", unwritten=()),
    KeyRow("uuid", _once("the uuid", str), "its driver's identifier", also=("id",), unwritten=""),
    KeyRow("parts", each(TEXT), "of a GPU, the identifiers of its MIG instances, `MIG-…`", unwritten=()),
    KeyRow(
        "part_of",
        scalar(lambda text: text and parse_address(text)),
        "of a partition of a GPU (AMD's), the PCI address of that GPU",
        unwritten="",
    ),
    KeyRow("vendor", TEXT, "of a GPU, as `nvidia` or `amd`; left out: resources of all vendors match", unwritten=""),
    ignored=("type", "moduleID", "topology", "conditions", "socketID"),  # of Koordinator's devices
)


def _minors(field: YamlField, what: str) -> tuple[int, ...]:
    minors = tuple(item.parsed(what, _number) for item in field.items(what))
    if len(set(minors)) < len(minors):
        raise field.refuse(f"{what}: a GPU stands twice in {list(minors)}")
    return tuple(sorted(minors))


PARTITION: Final = Table(
    GpuPartition,
    KeyRow(
        "minors",
        form(_minors, shape=list_shape),
        "its GPUs",
        "minors is missing; give the GPUs of the partition as a list",
    ),
    KeyRow("score", scalar(_number), "the larger, the better; default 1", also=("allocationScore",)),
    KeyRow("bandwidth", scalar(parse_bytes), "of its ring", also=("ringBusBandwidth",), unwritten=None),
    KeyRow("link", TEXT, "how its GPUs are linked", also=("gpuLinkType",), unwritten=""),
)


def _partitions(field: YamlField, what: str) -> tuple[GpuPartition, ...]:
    """Return the partitions of ``{SIZE: [{minors, score, bandwidth, link}]}``. Raises DocumentError."""
    found = []
    for size, items in field.entries(what).items():
        for item in items.items(f"{what}.{size}"):
            partition = PARTITION.read(item, f"{what}.{size}")
            count = len(partition.minors)
            if str(count) != size.strip():
                raise item.refuse(f"{what}.{size}: minors has {count} GPUs; give {size}, or move it to {count}")
            found.append(partition)
    return tuple(found)


def _by_size(partitions: Iterable[GpuPartition]) -> Mapping[str, object]:
    found: dict[str, list[object]] = {}
    for partition in partitions:
        found.setdefault(str(len(partition.minors)), []).append(PARTITION.write(partition))
    return found


def _annotated(field: YamlField, what: str) -> tuple[GpuPartition, ...]:
    """Return the partitions that an annotation has as JSON."""
    try:
        table = YamlField.only(field.text(what), what, DIALECT, "an annotation")
        if table is None:
            raise field.refuse("expected a JSON object, the sizes with their partitions, got nothing")
        return _partitions(table, "partitions")
    except DocumentError as error:
        raise field.refuse(f"{PARTITIONS_ANNOTATION}: {error.problem}") from None


LINKS: Final = form(lambda field, _: read_link_document(field), links_value, LINK_TABLES.shape)
NODE: Final = Table(
    partial(DeviceInventory, ()),
    KeyRow(
        "partitions",
        form(_partitions, _by_size, by_name(each(PARTITION)).shape),
        "by size, which GPUs may go together",
        unwritten=None,
    ),
    KeyRow("node_labels", _LABELS, "labels of the node that concern its devices", unwritten={}),
    KeyRow("links", LINKS, "how its GPUs are linked", unwritten=None),
    name="the inventory",
    ignored=DEVICE_TYPES,
)
_PARTITIONS: Final = KeyRow(PARTITIONS_ANNOTATION, form(_annotated), field="partitions")
_ANNOTATIONS: Final = Table(lambda partitions=None: partitions, _PARTITIONS, ignored=None)
METADATA: Final = Table(
    partial(DeviceInventory, ()),
    KeyRow("annotations", _ANNOTATIONS, field="partitions"),
    KeyRow("labels", _LABELS, field="node_labels"),
    ignored=None,
)


def _is_inventory(root: YamlField) -> bool:
    """Return whether a list of devices stands there, or Koordinator's object."""
    fields = {key: field for key, _, field in root.rows("")} if root.is_mapping else {}
    kind = fields.get("kind")
    return not fields.keys().isdisjoint((*DEVICE_TYPES, *NODE.keys)) or (
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
    # A file of the name -; standard input may be where the request comes from.
    name = "./-" if str(path) == "-" else str(path)
    found = read_inventory_text(YamlField.read_text(name, DIALECT.max_bytes), name)
    if found is EMPTY_INVENTORY:
        raise DocumentError(name, 0, "expected an inventory of devices, got an empty document")
    return found


def read_inventory_text(text: str, name: str) -> DeviceInventory:
    """Return the inventory of a file's text, EMPTY_INVENTORY where it holds no document; ``name`` is the file.

    Raises DocumentError.
    """
    root = YamlField.only(text, name, DIALECT, "an inventory file")
    return read_inventory(root) if root is not None else EMPTY_INVENTORY


def read_inventory(root: YamlField) -> DeviceInventory:
    """Return the inventory of a document, or of a part of one. Raises DocumentError."""
    entries = root.entries("the inventory")
    if "kind" in entries or "spec" in entries:
        return _device_object(root, entries)
    lines: Lines = {}
    items = [(kind, item) for kind in DEVICE_TYPES if kind in entries for item in entries[kind].items(kind)]
    return _with_vendor(replace(NODE.read(root), devices=tuple(_device(item, kind, lines) for kind, item in items)))


def _with_vendor(inventory: DeviceInventory) -> DeviceInventory:
    """Return the inventory with the vendor that Koordinator's label of the node names, where a GPU has none."""
    vendor = inventory.node_labels.get(GPU_VENDOR, "")
    if not vendor:
        return inventory
    named = (
        replace(device, vendor=vendor) if device.kind == GPU and not device.maker else device
        for device in inventory.devices
    )
    return replace(inventory, devices=tuple(named))


def _device(field: YamlField, kind: str, lines: Lines, place: Mapping[str, YamlField] | None = None) -> InventoryDevice:
    """Return a device; ``place`` are fields that stand in a mapping of their own. Raises DocumentError."""
    fields = DEVICE.fields(field, kind, place)
    # The number first: errors of the other fields name the device by it.
    minor = fields["minor"].parsed(f"{kind}.minor", _number)
    _note(lines, kind, str(minor), fields["minor"])
    return DEVICE.made(fields, f"{kind} {minor}", lines, kind=kind).stated_by(f"{field.source} line {field.line}")


def _device_object(root: YamlField, entries: Mapping[str, YamlField]) -> DeviceInventory:
    """Return the inventory of Koordinator's object ``kind: Device``, partition table and labels of its metadata too."""
    kind = entries["kind"].text("kind") if "kind" in entries else ""
    if kind != "Device" or "spec" not in entries:
        raise root.refuse(f"kind: expected Device with spec.devices, or lists {', '.join(DEVICE_TYPES)}, got {kind!r}")
    spec = entries["spec"].entries("spec")
    devices: list[InventoryDevice] = []
    lines: Lines = {}
    for item in spec["devices"].items("spec.devices") if "devices" in spec else ():
        fields = item.entries("spec.devices")
        if "type" not in fields:
            raise item.refuse(f"spec.devices: type is missing; give one of {', '.join(DEVICE_TYPES)}")
        place = fields["topology"].entries("topology") if "topology" in fields else {}
        devices.append(_device(item, fields["type"].parsed("type", one_of(DEVICE_TYPES)), lines, place))
    metadata = METADATA.read(entries["metadata"], "metadata") if "metadata" in entries else EMPTY_INVENTORY
    return _with_vendor(replace(metadata, devices=tuple(devices)))


def inventory_value(inventory: DeviceInventory) -> Mapping[str, object]:
    """Return the inventory as its file has it."""
    listed = {kind: [DEVICE.write(device) for device in inventory.of(kind)] for kind in DEVICE_TYPES}
    return {kind: devices for kind, devices in listed.items() if devices} | NODE.write(inventory)
