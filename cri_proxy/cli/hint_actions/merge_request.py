"""Read the document of ``hints merge``: the machine's nodes, and what each provider offers."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cri_proxy.cli.hint_requests.values import MAX_NODE, node_mask, node_number, whole
from cri_proxy.yaml_fields import YamlField, short_repr
from policies.hints.model import Amount, Hint, Hints, Nodes, Offers, Unlisted
from sysfs.cpuset import NodeSet

_KEYS: Final = ("nodes", "distances", "options", "providers")
_FAMILY_KEYS: Final = (
    "amounts",
    "preferred_size",
    "within",
    "required",
    "listed",
    "sockets",
    "preferred_sockets",
)
# The firmware's table (ACPI SLIT) has a byte for each pair.
_MAX_DISTANCE: Final = 255


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """What is to be merged."""

    nodes: Nodes
    offers: tuple[Offers, ...]


def read_merge_request(root: YamlField) -> MergeRequest:
    """Return the content of a document. Raises DocumentError."""
    fields = root.mapping(_KEYS, "the document")
    for key in ("nodes", "providers"):
        if key not in fields or fields[key].is_null:
            raise root.refuse(f"{key}: missing; give the number of NUMA nodes and a list of providers")
    count = fields["nodes"].parsed("nodes", _node_count)
    nodes = Nodes((1 << count) - 1, _distances(fields.get("distances"), count))
    return MergeRequest(nodes, tuple(_offers(item, count) for item in fields["providers"].items("providers")))


def _node_count(text: str) -> int:
    with suppress(ValueError):
        count = whole(text)
        if 0 < count <= MAX_NODE + 1:
            return count
    raise ValueError(f"expected a number from 1 to {MAX_NODE + 1}, got {short_repr(text)}")


def _distances(field: YamlField | None, count: int) -> tuple[tuple[int, ...], ...] | None:
    if field is None or field.is_null:
        return None
    rows = field.items("distances")
    if len(rows) != count:
        raise field.refuse(f"distances: expected {count} rows, got {len(rows)}")
    return tuple(_distance_row(row, count) for row in rows)


def _distance_row(row: YamlField, count: int) -> tuple[int, ...]:
    distances = tuple(item.parsed("distances", whole) for item in row.items("distances"))
    if len(distances) != count or max(distances) > _MAX_DISTANCE:
        raise row.refuse(f"distances: expected rows of {count} numbers up to {_MAX_DISTANCE}")
    return distances


def _offers(field: YamlField, count: int) -> Offers:
    if field.is_null:
        return None
    return {resource: _hints(hints, resource, count) for resource, hints in field.entries("providers").items()}


def _hints(field: YamlField, resource: str, count: int) -> Hints:
    if field.is_null:
        return None
    if field.is_mapping:
        fields = field.mapping(("unlisted",), resource)
        if not fields:
            raise field.refuse(f"{resource}: expected a list of hints, null for no preference, or unlisted:")
        return _family(fields["unlisted"], f"{resource}.unlisted", count)
    return tuple(_hint(item, resource) for item in field.items(resource))


def _hint(field: YamlField, resource: str) -> Hint:
    fields = field.mapping(("nodes", "preferred"), resource)
    for key, remedy in (("nodes", "a list, or null for any node"), ("preferred", "true or false")):
        if key not in fields:
            raise field.refuse(f"{resource}: a hint without {key}: give {remedy}")
    nodes, preferred = fields["nodes"], fields["preferred"].truth(f"{resource}.preferred")
    if nodes.is_null:
        return Hint(None, preferred)
    return Hint(
        NodeSet.of(item.parsed(f"{resource}.nodes", node_number) for item in nodes.items(f"{resource}.nodes")).mask,
        preferred,
    )


def _family(field: YamlField, what: str, count: int) -> Unlisted:
    """Return hints that are not listed, as ``hints generate`` prints them for machines of many nodes."""
    fields = field.mapping(_FAMILY_KEYS, what)
    for key in ("amounts", "preferred_size", "within"):
        if key not in fields:
            raise field.refuse(f"{what}: {key} is missing")
    machine = (1 << count) - 1
    return Unlisted(
        tuple(_amount(item, f"{what}.amounts", count) for item in fields["amounts"].items(f"{what}.amounts")),
        _number(fields, "preferred_size", what),
        node_mask(fields["within"], f"{what}.within", machine),
        node_mask(fields["required"], f"{what}.required", machine) if "required" in fields else 0,
        tuple(_hint(item, what) for item in fields["listed"].items(f"{what}.listed")) if "listed" in fields else (),
        tuple(node_mask(item, f"{what}.sockets", machine) for item in fields["sockets"].items(f"{what}.sockets"))
        if "sockets" in fields
        else (),
        _number(fields, "preferred_sockets", what),
    )


def _number(fields: Mapping[str, YamlField], key: str, what: str) -> int:
    return fields[key].parsed(f"{what}.{key}", whole) if key in fields else 0


def _amount(field: YamlField, what: str, count: int) -> Amount:
    fields = field.mapping(("free", "request"), what)
    if len(fields) < 2:
        raise field.refuse(f"{what}: give free, a number for each node, and request")
    free = tuple(item.parsed(f"{what}.free", whole) for item in fields["free"].items(f"{what}.free"))
    if len(free) != count:
        raise fields["free"].refuse(f"{what}.free: expected {count} numbers, one for each node, got {len(free)}")
    return Amount(free, fields["request"].parsed(f"{what}.request", whole))
