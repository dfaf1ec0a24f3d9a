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


def read_merge_request(root: YamlField, node_count: int | None = None) -> MergeRequest:
    """Return the content of a document; ``node_count`` beats its ``nodes``. Raises DocumentError.

    A mapping of resources, as ``hints generate -o json`` prints it, is the only provider.
    """
    entries = root.entries("the document")
    if entries and not entries.keys() & {*_KEYS}:
        return _of_one_provider(root, entries, node_count)
    fields = root.mapping(_KEYS, "the document")
    given = {key for key, field in fields.items() if not field.is_null} | ({"nodes"} if node_count else set())
    for key in ("nodes", "providers"):
        if key not in given:
            raise root.refuse(f"{key}: missing; give the number of NUMA nodes and a list of providers")
    count = node_count or fields["nodes"].parsed("nodes", read_node_count)
    nodes = Nodes((1 << count) - 1, _distances(fields.get("distances"), count))
    return MergeRequest(nodes, tuple(_offers(item, count) for item in fields["providers"].items("providers")))


def _of_one_provider(root: YamlField, entries: Mapping[str, YamlField], node_count: int | None) -> MergeRequest:
    """Return the hints of a provider; the number of nodes is known where hints are not listed."""
    wrong = next(
        (name for name, hints in entries.items() if not (hints.is_null or hints.is_list or hints.is_mapping)), ""
    )
    if wrong:
        raise entries[wrong].refuse(f"{wrong}: no key of a document ({', '.join(_KEYS)}), and no list of hints")
    count = node_count or next(filter(None, map(_described_count, entries.values())), None)
    if count is None:
        raise root.refuse("hints of a provider do not say how many NUMA nodes the machine has; give --nodes NUMBER")
    return MergeRequest(Nodes((1 << count) - 1), (_offers(root, count),))


def _described_count(hints: YamlField) -> int | None:
    """Return the number of nodes that a description of hints has amounts for; None for listed ones."""
    family = hints.entries("hints").get("unlisted") if hints.is_mapping else None
    amounts = family.entries("unlisted").get("amounts") if family is not None else None
    free = [amount.entries("amounts").get("free") for amount in amounts.items("amounts")] if amounts is not None else []
    return len(free[0].items("free")) if free and free[0] is not None else None


def read_node_count(text: str) -> int:
    """Return how many NUMA nodes a machine has. Raises ValueError."""
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
