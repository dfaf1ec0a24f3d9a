"""Read the document of ``hints merge``: the machine's nodes, and what each provider offers."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cri_proxy.cli.hint_requests.offers import HINTS
from cri_proxy.yaml_fields import YamlField
from policies.hints import Nodes, Offers
from sysfs.documents.forms import FIELD, MAX_NODE, between, each, form, or_none, scalar
from sysfs.documents.table import Form, KeyRow, Table

# The firmware's table (ACPI SLIT) has a byte for each pair.
_ROWS: Final = each(each(scalar(between(0, 255))))
read_node_count: Final = between(1, MAX_NODE + 1)


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """What is to be merged."""

    nodes: Nodes
    offers: tuple[Offers, ...]


def _distances(field: YamlField, what: str, machine: int) -> tuple[tuple[int, ...], ...]:
    rows, count = _ROWS.read(field, what), machine.bit_count()
    if len(rows) != count or any(len(row) != count for row in rows):
        raise field.refuse(f"{what}: expected {count} rows of {count} numbers")
    return rows


def _offers(field: YamlField, what: str) -> Offers:
    return {resource: HINTS.read(hints, resource) for resource, hints in field.entries(what).items()}


_NO_PROVIDERS: Final = "providers is missing; give a list of what each provider offers"
MERGE: Final = Table(
    lambda mask, providers, distances=None, **_: MergeRequest(Nodes(mask, distances), providers),
    KeyRow("nodes", FIELD, "how many NUMA nodes the machine has"),
    KeyRow("distances", Form(_distances), "a row for each node, for closest nodes"),
    KeyRow("options", FIELD, "options of the command by their names; the command line beats them"),
    KeyRow("providers", each(or_none(form(_offers))), "of each its hints by resource", _NO_PROVIDERS),
    name="the document",
)


def read_merge_request(root: YamlField, node_count: int | None = None) -> MergeRequest:
    """Return the content of a document; ``node_count`` beats its ``nodes``. Raises DocumentError.

    A mapping of resources, as ``hints generate -o json`` prints it, is the only provider.
    """
    entries = root.entries("the document")
    if entries and entries.keys().isdisjoint(MERGE.keys):
        return _of_one_provider(root, entries, node_count)
    fields = MERGE.fields(root)
    if not node_count and "nodes" not in fields:
        raise root.refuse("the document: nodes is missing; give the number of NUMA nodes")
    mask = (1 << (node_count or fields["nodes"].parsed("nodes", read_node_count))) - 1
    return MERGE.made(fields, within=mask, mask=mask)


def _of_one_provider(root: YamlField, entries: Mapping[str, YamlField], node_count: int | None) -> MergeRequest:
    wrong = next((name for name, hints in entries.items() if not (hints.is_null or hints.is_list)), "")
    if wrong:
        raise entries[wrong].refuse(f"{wrong}: no key of a document ({', '.join(MERGE.keys)}), and no list of hints")
    if node_count is None:
        raise root.refuse("hints of a provider do not say how many NUMA nodes the machine has; give --nodes NUMBER")
    return MergeRequest(Nodes((1 << node_count) - 1), (_offers(root, "providers"),))
