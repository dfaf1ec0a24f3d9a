"""Read the document of ``devices allocate`` and ``devices hints``: inventory, what is asked for, what is in use."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from cri_proxy.cli.documents import OPTIONS_KEY, whole_number
from cri_proxy.cri.annotations.device_resources import device_quantity
from cri_proxy.inventory.file import read_inventory, read_inventory_file
from cri_proxy.yaml_fields import YamlField
from policies.device_grants import DeviceGrant, DeviceKey, ExclusivePolicy
from policies.devices.allocate import DeviceQuestion
from policies.devices.annotations import read_annotations
from policies.devices.model import (
    DEVICE_TYPES,
    WHOLE,
    DeviceInventory,
    InventoryDevice,
)
from policies.devices.plugin_variables import VF_UNITS
from policies.devices.resources import RESOURCES, full_name
from sysfs.known_words import TYPING_ERROR, question, similar
from sysfs.quantity import parse_bytes

REQUEST_KEYS: Final = ("inventory", "requests", "annotations", "node_labels", "in_use", OPTIONS_KEY)


@dataclass(frozen=True, slots=True)
class DeviceDocument:
    """A document: the inventory, and what containers hold of it."""

    inventory: DeviceInventory
    held: tuple[DeviceGrant, ...]


def read_document(root: YamlField, directory: Path) -> tuple[DeviceDocument, Mapping[str, YamlField]]:
    """Return the inventory and its use, and the fields of the document. Raises DocumentError.

    ``directory`` is where a path of an inventory starts.
    """
    if not {*root.entries("the document")}.isdisjoint((*DEVICE_TYPES, "kind")):
        raise root.refuse(
            "the document: an inventory alone; give its path as inventory: beside what is asked for, as in"
            " {inventory: devices.yaml, requests: {nvidia.com/gpu: 1}}"
        )
    fields = root.mapping(REQUEST_KEYS, "the document")
    inventory_field = fields.get("inventory")
    if inventory_field is None or inventory_field.is_null:
        raise root.refuse("inventory: missing; give the devices of the node, or the path of a file that has them")
    if inventory_field.is_scalar:
        inventory = read_inventory_file(directory / inventory_field.text("inventory"))
    else:
        inventory = read_inventory(inventory_field)
    devices = {device.key: device for device in inventory.devices}
    return DeviceDocument(inventory, _in_use(fields.get("in_use"), devices)), fields


def read_question(root: YamlField, fields: Mapping[str, YamlField]) -> DeviceQuestion:
    """Return what the document asks for. Raises DocumentError, and AnnotationError for annotations of the pod."""
    requests = fields.get("requests")
    if requests is None or requests.is_null:
        raise root.refuse("requests: missing; give quantities of one container: {nvidia.com/gpu: 1}")
    amounts = _amounts(requests)
    texts = _texts(fields.get("annotations"), "annotations")
    return DeviceQuestion(amounts, read_annotations(texts), _texts(fields.get("node_labels"), "node_labels"))


def _amounts(field: YamlField) -> dict[str, int]:
    """Return the quantities of devices; a container also asks for CPUs, memory and what others hand out."""
    found: dict[str, int] = {}
    for text, value in field.entries("requests").items():
        name = full_name(text)
        if name in RESOURCES:
            if name in found:
                raise value.refuse(f"requests: {name} stands twice")
            found[name] = value.parsed(f"requests.{text}", partial(device_quantity, name))
        elif near := similar(name, RESOURCES, TYPING_ERROR):
            raise value.refuse(f"requests: {text!r} is not known; {question(near)}")
    if not found:
        raise field.refuse(f"requests: none of them is a device; those are {', '.join(RESOURCES)}")
    return found


def _texts(field: YamlField | None, what: str) -> dict[str, str]:
    """Return texts by name; what is written as a mapping or list is the JSON text of it."""
    if field is None or field.is_null:
        return {}
    return {
        name: value.text(f"{what}.{name}") if value.is_scalar else json.dumps(value.plain())
        for name, value in field.entries(what).items()
    }


def _in_use(field: YamlField | None, devices: Mapping[DeviceKey, InventoryDevice]) -> tuple[DeviceGrant, ...]:
    """Return what one mapping, or a list of them with one for each container, says is in use."""
    if field is None or field.is_null:
        return ()
    found = []
    for container in field.items("in_use") if field.is_list else [field]:
        # An answer of ``devices allocate`` may have warnings beside the types.
        entries = container.mapping((*DEVICE_TYPES, "warnings"), "in_use")
        for kind in (kind for kind in DEVICE_TYPES if kind in entries):
            found += [_held(entry, kind, devices) for entry in entries[kind].items(f"in_use.{kind}")]
    return tuple(found)


def _held(field: YamlField, kind: str, devices: Mapping[DeviceKey, InventoryDevice]) -> DeviceGrant:
    what = f"in_use.{kind}"
    fields = field.mapping(("minor", "amount", "vf", "resources", "exclusive"), what)
    given = {key: value for key, value in fields.items() if not value.is_null}
    if "minor" not in given:
        raise field.refuse(f"{what}: minor is missing; name the device")
    minor = given["minor"].parsed(f"{what}.minor", whole_number)
    device = devices.get((kind, minor))
    if device is None:
        known = ", ".join(str(number) for name, number in sorted(devices) if name == kind)
        raise given["minor"].refuse(f"{what}: the inventory has no {kind} {minor}; it has {known or 'none'}")
    resources = given["resources"].entries(f"{what}.resources") if "resources" in given else {}
    vf = _vf(given["vf"], what, device) if "vf" in given else ""
    amount = given["amount"].parsed(f"{what}.amount", parse_bytes) if "amount" in given else None
    return DeviceGrant(
        kind,
        minor,
        # Without an amount the whole device is held, or only its VF, which leaves the device to no one as a whole.
        (VF_UNITS if vf else WHOLE) if amount is None else amount,
        vf,
        tuple(sorted(_resources(resources, what).items())),
        given["exclusive"].parsed(f"{what}.exclusive", _exclusive) if "exclusive" in given else ExclusivePolicy.DEFAULT,
    )


def _resources(entries: Mapping[str, YamlField], what: str) -> dict[str, int]:
    return {full_name(name): value.parsed(f"{what}.resources.{name}", parse_bytes) for name, value in entries.items()}


def _vf(field: YamlField, what: str, device: InventoryDevice) -> str:
    """Return the address of a VF that its address, its minor, or a mapping of both names."""
    name = field
    if field.is_mapping:
        fields = field.mapping(("minor", "bus", "busID"), f"{what}.vf")
        bus = fields.get("bus") or fields.get("busID") or fields.get("minor")
        if bus is None:
            raise field.refuse(f"{what}.vf: give its bus")
        name = bus
    text = name.text(f"{what}.vf").lower()
    vfs = [vf for group in device.vf_groups for vf in group.vfs]
    found = [vf.bus for vf in vfs if vf.bus == text] or [vf.bus for vf in vfs if str(vf.minor) == text]
    if len(found) != 1:
        known = ", ".join(vf.bus for vf in vfs) or "none"
        raise name.refuse(f"{what}.vf: {text!r} is no VF of {device.kind} {device.minor}; it has {known}")
    return found[0]


def _exclusive(text: str) -> ExclusivePolicy:
    try:
        return ExclusivePolicy(text)
    except ValueError:
        known = ", ".join(policy for policy in ExclusivePolicy if policy)
        raise ValueError(f"expected one of {known}, got {text!r}") from None
