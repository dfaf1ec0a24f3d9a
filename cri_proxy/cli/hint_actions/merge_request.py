"""Read the document of ``hints merge``: the machine's nodes, and what each provider offers."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cri_proxy.cli.hint_requests.values import MAX_NODE, node_number, whole
from cri_proxy.yaml_fields import YamlField, short_repr
from policies.hints.model import Hint, Hints, Nodes, Offers
from sysfs.cpuset import NodeSet

_KEYS: Final = ("nodes", "distances", "options", "providers")
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
    return MergeRequest(nodes, tuple(_offers(item) for item in fields["providers"].items("providers")))


def _of_one_provider(root: YamlField, entries: Mapping[str, YamlField], count: int | None) -> MergeRequest:
    wrong = next((name for name, hints in entries.items() if not (hints.is_null or hints.is_list)), "")
    if wrong:
        raise entries[wrong].refuse(f"{wrong}: no key of a document ({', '.join(_KEYS)}), and no list of hints")
    if count is None:
        raise root.refuse("hints of a provider do not say how many NUMA nodes the machine has; give --nodes NUMBER")
    return MergeRequest(Nodes((1 << count) - 1), (_offers(root),))


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


def _offers(field: YamlField) -> Offers:
    if field.is_null:
        return None
    return {resource: _hints(hints, resource) for resource, hints in field.entries("providers").items()}


def _hints(field: YamlField, resource: str) -> Hints:
    return None if field.is_null else tuple(_hint(item, resource) for item in field.items(resource))


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
