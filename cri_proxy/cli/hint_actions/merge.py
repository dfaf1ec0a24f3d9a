"""``cri-proxy hints merge``: print the affinity that a policy makes of the hints of several providers."""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from cri_proxy.cli.documents import Document, DocumentCommand, DocumentOption, flag
from cri_proxy.cli.hint_requests.offers import ANY_NODES, HINT, HINTS
from cri_proxy.cli.render.columns import WIDTH, Cells, column_widths, layout
from cri_proxy.yaml_fields import YamlField
from policies.hints import KUBELET_NODES, POLICIES, HintOrigin, Merged, MergeOptions, Nodes, Offers, merge
from sysfs.cpuset import NodeSet
from sysfs.documents.forms import FIELD, MAX_NODE, between, each, form, one_of, or_none, scalar
from sysfs.documents.table import Form, KeyRow, Table

# The firmware's table (ACPI SLIT) has a byte for each pair.
_ROWS: Final = each(each(scalar(between(0, 255))))
read_node_count: Final = between(1, MAX_NODE + 1)


@dataclass(frozen=True, slots=True)
class MergeRequest:
    """The hints to merge."""

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


EXAMPLE = """\
cri-proxy hints merge configs/hints/merge.yaml --policy restricted
cri-proxy hints merge configs/hints/merge.yaml --policy best-effort -o json
cri-proxy hints generate configs/hints/request.yaml -o json | cri-proxy hints merge - --nodes 2
echo '{nodes: 2, providers: [{cpu: [{nodes: [0], preferred: true}]}]}' | cri-proxy hints merge -"""

POLICY = DocumentOption(
    "policy", one_of(POLICIES), "best-effort", f"{', '.join(POLICIES)}; default best-effort", "NAME"
)
CLOSEST = flag(
    "prefer-closest-numa-nodes", "of node sets of the same size take the closest; needs distances in the document"
)


MOST_NODES: DocumentOption[int | None] = DocumentOption(
    "max-allowable-numa-nodes",
    between(KUBELET_NODES),
    None,
    "refuse machines of more nodes, from 8; default no limit",
    "N",
)
NODES: DocumentOption[int | None] = DocumentOption(
    "nodes",
    read_node_count,
    None,
    "how many NUMA nodes the machine has; for the answer of hints generate, which does not say it",
    "N",
)
OPTIONS: tuple[DocumentOption[object], ...] = (POLICY, CLOSEST, MOST_NODES, NODES)

_NOT_PREFERRED = "no set of nodes is preferred for every resource"
_REFUSALS = {
    "restricted": _NOT_PREFERRED,
    "single-numa-node": "no single node is preferred for every resource",
    "strict-2019": "a resource has no preferred hint",
    "proposed-strict": _NOT_PREFERRED,
    "equal-only": "no set of nodes is preferred for every resource, or for none",
}
# These fall back on all nodes, or on no affinity, where no combination of hints shares a node.
_OVERLAPPING = ("best-effort", "restricted", "best-effort-2019", "strict-2019")


@dataclass(frozen=True, slots=True)
class MergeAnswer:
    """The result for one document, and the time that the merge took."""

    policy: str
    merged: Merged
    elapsed_ms: float


def answer(document: Document) -> MergeAnswer:
    """Return the result for a document. Raises DocumentError and PolicyBaseError."""
    request = read_merge_request(document.root, document.option(NODES))
    policy = document.option(POLICY)
    options = MergeOptions(document.option(CLOSEST), document.option(MOST_NODES))
    start = time.perf_counter()
    merged = merge(request.offers, request.nodes, policy, options)
    return MergeAnswer(policy, merged, round((time.perf_counter() - start) * 1000, 3))


def json_value(found: MergeAnswer) -> dict[str, object]:
    """Return the value of ``hints merge -o json`` (docs/hints.md)."""
    merged = found.merged
    return {
        "affinity": ANY_NODES.write(merged.affinity),
        "preferred": merged.preferred,
        "admit": merged.admit,
        "policy": found.policy,
        "rests_on": [
            {"provider": origin.provider, "resource": origin.resource or None, **HINT.write(origin.hint)}
            for origin in merged.rests_on
        ],
        "elapsed_ms": found.elapsed_ms,
    }


def render_merged(found: MergeAnswer) -> str:
    """Return the result for people: the verdict, then the hint of each resource that it rests on."""
    merged = found.merged
    verdict = "admitted" if merged.admit else f"refused: {_REFUSALS[found.policy]}"
    affinity = "no affinity" if merged.affinity is None else _nodes_text(merged.affinity)
    hint = [f"{affinity}, {'preferred' if merged.preferred else 'not preferred'}"] if merged.has_hint else []
    lines = list(_origin_lines(merged.rests_on))
    if found.policy in _OVERLAPPING and not lines and not merged.preferred:
        lines = ["  no hints of all resources have a node in common"]
    return "\n".join([f"{found.policy}: {verdict}", *hint, *lines])


def _origin_lines(origins: tuple[HintOrigin, ...]) -> Iterator[str]:
    rows = []
    for origin in origins:
        nodes = "any node" if origin.hint.nodes is None else _nodes_text(origin.hint.nodes)
        said = f"{nodes}, {'preferred' if origin.hint.preferred else 'not preferred'}"
        rows.append(Cells((origin.resource or f"provider {origin.provider}", said), lead="  ", rest="  "))
    yield from layout(rows, column_widths(rows, (WIDTH // 2, WIDTH // 2), flexible=1, total=WIDTH))


def _nodes_text(mask: int) -> str:
    return f"nodes {{{NodeSet(mask)}}}"


COMMAND = DocumentCommand(OPTIONS, answer, render_merged, lambda found: not found.merged.admit, json_value)
register, run = COMMAND.register, COMMAND.run
