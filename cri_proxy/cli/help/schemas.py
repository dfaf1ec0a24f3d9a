"""JSON schemas (draft 07) of what people write and of what the daemon answers, from the rows of their readers."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import NoneType, UnionType
from typing import Final, Literal, Union, get_args, get_origin, get_type_hints

from cri_proxy import link_file
from cri_proxy.codec import FLAT
from cri_proxy.config.model import known_options
from cri_proxy.config.option import Known, values_text
from cri_proxy.costs.cost_file import COSTS, listing_shape
from cri_proxy.inventory import file as inventory
from cri_proxy.node.status.decision_views import ExplainView
from cri_proxy.node.status.model import StatusView
from policies.devices import DEVICE_TYPES
from sysfs.cpuset import IdSet
from sysfs.documents.forms import list_shape, scalar_shape
from sysfs.documents.table import Shape, Table, or_null

DRAFT: Final = "http://json-schema.org/draft-07/schema#"
_SCALARS: Final[Mapping[type, str]] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    NoneType: "null",
}
_WORD: Final[Shape] = {"type": ["string", "number", "boolean"]}
_TRUTH: Final = ("true", "false", "yes", "no", "on", "off")


def _titled(title: str, shape: Shape) -> Shape:
    return {"$schema": DRAFT, "title": title, **shape}


def any_case(words: Iterable[str], around: str = "") -> str:
    """Return an expression for one of these words as a whole, whatever the case of its letters; ``around`` may be too.

    >>> any_case(["a1"])
    '^(?:[Aa]1)$'
    """
    letters = [
        "".join(f"[{each.upper()}{each.lower()}]" if each.isalpha() else re.escape(each) for each in word)
        for word in words
    ]
    return f"^{around}(?:{'|'.join(letters)}){around}$"


def configuration() -> Shape:
    """Return the schema of a configuration in our layout; the layouts of peers and ConfigMap objects have none."""
    return _titled("The configuration of cri-proxy", _group(tuple(known_options()), 0))


def _group(options: tuple[Known, ...], depth: int) -> Shape:
    """Return the shape of a mapping of options; keys are matched whatever their case, as the reader does."""
    below: dict[str, list[Known]] = {}
    for known in options:
        below.setdefault(known.path[depth], []).append(known)
    properties: dict[str, Shape] = {}
    patterns: dict[str, Shape] = {}
    for key, inside in below.items():
        is_group = len(inside[0].path) > depth + 1
        shape = or_null(_group(tuple(inside), depth + 1)) if is_group else _described(inside[0])
        properties[key] = shape
        patterns[any_case([key, *(() if is_group else inside[0].option.was)])] = (
            _option(inside[0]) if not is_group else shape
        )
    return {"type": "object", "properties": properties, "patternProperties": patterns, "additionalProperties": False}


def _described(known: Known) -> Shape:
    text = f"{known.option.text}. Takes {values_text(known).replace('`', '')}"
    return {"description": text}


def _option(known: Known) -> Shape:
    """Return the shape of an option's value."""
    option = known.option
    item = _item(known)
    entry: Shape = {"type": "object", "additionalProperties": _WORD}
    if option.item_fields:
        words: Shape = {"anyOf": [{"type": "array", "items": _WORD}, scalar_shape()]}
        entry = {
            "type": "object",
            "patternProperties": {any_case([name]): words for name in option.item_fields},
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "null"}, entry, {"type": "array", "items": entry}]}
    shapes: list[Shape] = [{"type": "null"}, item]
    if known.is_list:
        shapes.append({"type": "array", "items": item})
    if option.takes_mapping:
        shapes.append(entry if known.is_list else {**entry, "minProperties": 1, "maxProperties": 1})
    return {"anyOf": shapes}


def _item(known: Known) -> Shape:
    """Return the shape of a single value of an option."""
    if known.option.read is not None:
        return _WORD
    if known.choices:
        return {
            "type": ["string", "boolean"],
            "pattern": any_case(known.choices, r"\s*"),
        }
    if known.type is bool:
        return {
            "type": ["string", "boolean"],
            "pattern": any_case(_TRUTH, r"\s*"),
        }
    if known.type is int or known.type is float:
        return _number(known)
    return _WORD


def _number(known: Known) -> Shape:
    option, kind = known.option, "integer" if known.type is int else "number"
    bounds: dict[str, object] = {"type": kind, "minimum": option.least}
    if option.most is not None:
        bounds["maximum"] = option.most
    digits: Shape = {"type": "string", "pattern": r"^\s*[+]?[0-9]+(\.[0-9]+)?\s*$"}
    return {"anyOf": [bounds, digits, *([{"const": 0}] if option.is_zero_off else [])]}


def inventory_file() -> Shape:
    """Return the schema of an inventory: devices by type, or Koordinator's Device object."""
    node, device = inventory.NODE.shape(), inventory.DEVICE.shape()
    lists = {kind: list_shape(lambda: device) for kind in DEVICE_TYPES}
    by_type = {**node, "properties": {**_properties(node), **lists}}
    return _titled(
        "Devices of a node, as cri-proxy devices list prints them", {"anyOf": [by_type, _device_object(device)]}
    )


def _device_object(device: Shape) -> Shape:
    """Return the shape of Koordinator's object, in which the place of a device may stand in a mapping of its own."""
    place: Shape = {"type": "object", "properties": _properties(device)}
    properties = {**_properties(device), "type": {"enum": list(DEVICE_TYPES)}, "topology": place}
    numbered: Shape = {"required": ["minor"], "properties": {"minor": {"not": {"type": "null"}}}}
    item: Shape = {
        "type": "object",
        "properties": properties,
        "required": ["type"],
        "anyOf": [numbered, {"properties": {"topology": numbered}, "required": ["topology"]}],
        "additionalProperties": False,
    }
    spec: Shape = {"type": "object", "properties": {"devices": list_shape(lambda: item)}}
    return {
        "type": "object",
        "properties": {"kind": {"const": "Device"}, "spec": spec, "metadata": inventory.METADATA.shape()},
        "required": ["kind", "spec"],
    }


def _properties(shape: Shape) -> Mapping[str, Shape]:
    found = shape["properties"]
    return found if isinstance(found, Mapping) else {}


def costs() -> Shape:
    """Return the schema of a cost file: the listing alone, or with the instances that are present."""
    keys = Table(lambda **given: given, *COSTS)
    both: Shape = {"anyOf": [keys.shape(), listing_shape()]}
    return _titled("Costs between devices, CPUs and memory, as cri-proxy costs derive prints them", both)


def links() -> Shape:
    """Return the schema of links between GPUs; a file may also hold what the vendor's tool prints."""
    return _titled("Links between GPUs", link_file.LINKS.shape())


def answer(title: str, view: type) -> Callable[[], Shape]:
    """Return what makes the schema of an answer; later versions may have more keys."""
    return lambda: _titled(title, _answer(view))


def _answer(kind: object) -> Shape:
    """Return the shape of a value of this type, as ``codec.encode`` writes it."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return {"anyOf": [_answer(each) for each in inner]}
    if origin is tuple:
        return _tuple(inner)
    if origin is Literal:
        return {"enum": list(inner)}
    return _class(kind) if isinstance(kind, type) else {}


def _tuple(kinds: tuple[object, ...]) -> Shape:
    if kinds[1:] == (...,):
        return {"type": "array", "items": _answer(kinds[0])}
    return {"type": "array", "items": [*map(_answer, kinds)], "minItems": len(kinds), "maxItems": len(kinds)}


def _class(kind: type) -> Shape:
    if issubclass(kind, IdSet):
        return {"type": "string", "pattern": r"^([0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*)?$"}
    if is_dataclass(kind):
        return _object(kind)
    if issubclass(kind, Enum):
        return {"enum": [each.value for each in kind]}
    return {"type": _SCALARS[kind]}


def _object(kind: type) -> Shape:
    properties = _members(kind)
    return {"type": "object", "properties": properties, "required": list(properties)}


def _members(kind: type) -> dict[str, Shape]:
    """Return the shapes of a dataclass's fields by their keys, those of a flat one beside the others."""
    hints = get_type_hints(kind)
    found: dict[str, Shape] = {}
    for field in fields(kind):
        hint = hints[field.name]
        found |= _members(hint) if field.metadata == FLAT else {field.name: _answer(hint)}
    return found


SCHEMAS: Mapping[str, Callable[[], Shape]] = {
    "configuration": configuration,
    "inventory": inventory_file,
    "costs": costs,
    "links": links,
    "status": answer("What cri-proxy status -o json prints", StatusView),
    "explain": answer("What cri-proxy explain -o json prints", ExplainView),
}
