"""Read the document of ``devices allocate`` and ``devices hints``: inventory, what is asked for, what is in use."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from cri_proxy.cri.annotations.cpu_memory_rows import POOL_CHOICE
from cri_proxy.cri.annotations.device_resources import device_quantity
from cri_proxy.cri.annotations.rules import DOMAINS
from cri_proxy.inventory.file import read_inventory, read_inventory_file
from cri_proxy.yaml_fields import YamlField
from policies.device_grants import WHOLE, DeviceGrant, DeviceKey, ExclusivePolicy
from policies.devices import (
    DEVICE_TYPES,
    RESOURCES,
    VF_UNITS,
    DeviceInventory,
    DeviceQuestion,
    InventoryDevice,
    full_name,
    read_annotations,
    type_named,
)
from policies.preferences import PoolStrategy
from sysfs.documents.forms import FIELD, TEXT, TEXT_OR_JSON, by_name, form, one_of, scalar, whole
from sysfs.documents.table import Form, KeyRow, Table
from sysfs.known_words import TYPING_ERROR, question, similar
from sysfs.quantity import parse_bytes


@dataclass(frozen=True, slots=True)
class DeviceDocument:
    """A document: the inventory, and what containers hold of it."""

    inventory: DeviceInventory
    held: tuple[DeviceGrant, ...]


def _inventory(field: YamlField, what: str) -> DeviceInventory:
    if not field.is_scalar:
        return read_inventory(field)
    return read_inventory_file(Path(field.source).parent / field.text(what))


def _amounts(field: YamlField, what: str) -> dict[str, int]:
    """Return the quantities of devices; a container also asks for CPUs, memory and what others hand out."""
    found: dict[str, int] = {}
    for text, value in field.entries(what).items():
        name = full_name(text)
        if name in RESOURCES:
            if name in found:
                raise value.refuse(f"{what}: {name} stands twice")
            found[name] = value.parsed(f"{what}.{text}", partial(device_quantity, name))
        elif near := similar(name, RESOURCES, TYPING_ERROR):
            raise value.refuse(f"{what}: {text!r} is not known; {question(near)}")
    if not found:
        raise field.refuse(f"{what}: none of them is a device; those are {', '.join(RESOURCES)}")
    return found


_NO_INVENTORY: Final = "inventory is missing; give the devices of the node, or the path of a file that has them"
_LABELS: Final = "labels of the node that concern its devices"
DOCUMENT: Final = Table(
    lambda **given: given,
    KeyRow("inventory", form(_inventory), "the devices of the node, or the path of a file", _NO_INVENTORY),
    KeyRow("requests", form(_amounts), "quantities of one container: `{nvidia.com/gpu: 4}`"),
    KeyRow("annotations", by_name(TEXT_OR_JSON), "of the pod; a value may be a mapping"),
    KeyRow("node_labels", by_name(TEXT_OR_JSON), _LABELS),
    KeyRow("in_use", FIELD, "what containers hold: an answer of the command, or a list of them"),
    KeyRow("options", FIELD, "options of the command by their names; the command line beats them"),
    name="the document",
)


def _bus_or_minor(bus: str = "", minor: str = "") -> str:
    if not (bus or minor):
        raise ValueError("give its bus")
    return bus or minor


_VF_NAME: Final = Table(_bus_or_minor, KeyRow("minor", TEXT), KeyRow("bus", TEXT, also=("busID",)))


def _vf(field: YamlField, what: str, device: InventoryDevice) -> str:
    """Return the address of a VF that its address, its minor, or a mapping of both names."""
    text = (_VF_NAME.read(field, what) if field.is_mapping else field.text(what)).lower()
    vfs = [vf for group in device.vf_groups for vf in group.vfs]
    found = [vf.bus for vf in vfs if vf.bus == text] or [vf.bus for vf in vfs if str(vf.minor) == text]
    if len(found) != 1:
        known = ", ".join(vf.bus for vf in vfs) or "none"
        raise field.refuse(f"{what}: {text!r} is no VF of {device.kind} {device.minor}; it has {known}")
    return found[0]


def _resources(field: YamlField, what: str) -> tuple[tuple[str, int], ...]:
    amounts = by_name(scalar(parse_bytes)).read(field, what, None)
    return tuple(sorted((full_name(name), amount) for name, amount in amounts.items()))


HELD: Final = Table(
    # Without an amount the whole device is held, or only its VF, which leaves the device to no one as a whole.
    lambda kind, minor, amount=None, vf="", **more: DeviceGrant(
        kind, minor, amount if amount is not None else VF_UNITS if vf else WHOLE, vf, **more
    ),
    KeyRow("minor", scalar(whole), "the device", "minor is missing; name the device"),
    KeyRow("amount", scalar(parse_bytes), "its share of 100; left out: all, or the VF alone"),
    KeyRow("vf", Form(_vf), "a virtual function, by its address or minor", unwritten=""),
    KeyRow("resources", form(_resources, dict), "amounts of resources by name", unwritten=()),
    KeyRow(
        "exclusive",
        scalar(one_of(ExclusivePolicy), str),
        "what it keeps others from",
        unwritten=ExclusivePolicy.DEFAULT,
    ),
)


def read_document(root: YamlField) -> tuple[DeviceDocument, Mapping[str, YamlField]]:
    """Return the inventory and its use, and the fields of the document. Raises DocumentError."""
    if not root.entries("the document").keys().isdisjoint((*DEVICE_TYPES, "kind")):
        raise root.refuse(
            "the document: an inventory alone; give its path as inventory: beside what is asked for, as in"
            " {inventory: devices.yaml, requests: {nvidia.com/gpu: 1}}"
        )
    fields = DOCUMENT.fields(root)
    inventory = _inventory(fields["inventory"], "inventory")
    devices = {device.key: device for device in inventory.devices}
    return DeviceDocument(inventory, _in_use(fields["in_use"], devices) if "in_use" in fields else ()), fields


def read_question(root: YamlField, fields: Mapping[str, YamlField]) -> DeviceQuestion:
    """Return the question of the document. Raises DocumentError, and AnnotationError for annotations of the pod."""
    if "requests" not in fields:
        raise root.refuse("the document: requests is missing; give quantities of one container: {nvidia.com/gpu: 1}")
    given = DOCUMENT.made({key: field for key, field in fields.items() if key != "inventory"})
    told = given.get("annotations", {})
    annotations = read_annotations(told)
    warnings = (*annotations.warnings, *_left_out(fields["requests"].entries("requests")))
    spreads = told.get(f"{DOMAINS[0]}/{POOL_CHOICE.key}") == PoolStrategy.SPREAD
    labels = given.get("node_labels", {})
    return DeviceQuestion(given["requests"], replace(annotations, warnings=warnings), labels, spreads)


def _left_out(names: Iterable[str]) -> Iterator[str]:
    """Yield a sentence for each extended resource that its name says is of devices, and that is not known here."""
    for name in names:
        kind = type_named(name) if "/" in name and full_name(name) not in RESOURCES else ""
        if kind:
            yield f"requests: {name} is left out: no resource of {kind} devices here; known: {', '.join(RESOURCES)}"


def _in_use(field: YamlField, devices: Mapping[DeviceKey, InventoryDevice]) -> tuple[DeviceGrant, ...]:
    """Return the devices in use, by one mapping or by a list of them with one for each container."""
    found = []
    for container in field.listed("in_use"):
        # An answer of ``devices allocate`` may have warnings beside the types.
        entries = container.mapping((*DEVICE_TYPES, "warnings"), "in_use")
        for kind in (kind for kind in DEVICE_TYPES if kind in entries):
            found += [_held(entry, kind, devices) for entry in entries[kind].items(f"in_use.{kind}")]
    return tuple(found)


def _held(field: YamlField, kind: str, devices: Mapping[DeviceKey, InventoryDevice]) -> DeviceGrant:
    what = f"in_use.{kind}"
    fields = HELD.fields(field, what)
    minor = fields["minor"].parsed(f"{what}.minor", whole)
    device = devices.get((kind, minor))
    if device is None:
        known = ", ".join(str(number) for name, number in sorted(devices) if name == kind)
        raise fields["minor"].refuse(f"{what}: the inventory has no {kind} {minor}; it has {known or 'none'}")
    return HELD.made(fields, what, device, kind=kind)
