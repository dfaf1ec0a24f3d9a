"""Read what nodes have of memory and huge pages, and the request for it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from cri_proxy.yaml_fields import YamlField
from policies.hints.memory import AssignedMemory, MemoryAmounts, MemoryProvider
from sysfs.cpuset import NodeSet
from sysfs.documents.forms import Within, by_key, each, form, node_mask, node_number
from sysfs.documents.table import KeyRow, Table
from sysfs.documents.value import short_repr
from sysfs.quantity import QuantityError, parse_bytes

_NO_NODES = "give nodes: {NODE: {memory: 8Gi}}, what containers may have of each"
_NO_AMOUNTS = "give nodes: [NODE] and amounts: {memory: 1Gi}"


def amounts_of_memory(field: YamlField, what: str) -> dict[str, int]:
    """Return bytes by resource: ``{memory: 1Gi, hugepages-2Mi: 64Mi}``. Raises DocumentError."""
    found = {}
    for resource, value in field.entries(what).items():
        if resource != "memory" and not _is_page_size(resource.removeprefix("hugepages-"), resource):
            shown = short_repr(resource)
            raise value.refuse(f"{what}: unknown resource {shown}; give memory or hugepages-SIZE, as hugepages-2Mi")
        found[resource] = value.parsed(f"{what}.{resource}", parse_bytes)
    return found


def _is_page_size(size: str, resource: str) -> bool:
    try:
        return size != resource and parse_bytes(size) > 0
    except QuantityError:
        return False


@dataclass(frozen=True, slots=True)
class _Nodes:
    """What memory is read within: the mask of the machine's nodes, and what they have, as far as it has been read."""

    machine: int
    have: dict[int, MemoryAmounts]


def _assigned_nodes(field: YamlField, what: str, within: _Nodes) -> int:
    mask = node_mask(field, what, within.machine)
    if not mask:
        raise field.refuse(f"{what}: give at least one node")
    return mask


def _by_node(field: YamlField, what: str, within: _Nodes) -> dict[int, dict[str, int]]:
    found = {}
    for node, value in sorted(by_key(field, what, node_number).items()):
        if not within.machine >> node & 1:
            raise value.refuse(f"{what}: there is no node {node}; the nodes are {NodeSet(within.machine)}")
        found[node] = amounts_of_memory(value, f"{what}.{node}")
    return found


def _nodes(field: YamlField, what: str, within: _Nodes) -> None:
    """Let nodes have what the document says, instead of what the machine has."""
    within.have.clear()
    within.have.update((node, MemoryAmounts(has, has)) for node, has in _by_node(field, what, within).items())


def _free(field: YamlField, what: str, within: _Nodes) -> None:
    """Note of which nodes less is free than they have."""
    for node, free in _by_node(field, what, within).items():
        has = within.have[node].allocatable if node in within.have else {}
        for resource, amount in free.items():
            if amount > has.get(resource, 0):
                most = f"{resource} of node {node} is {has.get(resource, 0)}"
                raise field.refuse(f"{what}.{node}: {resource}: {amount} is more than there is; {most}")
        within.have[node] = MemoryAmounts(has, {**has, **free})


def _groups(field: YamlField, what: str, within: _Nodes) -> frozenset[int]:
    """Return the sets of nodes that serve together; a node is in one."""
    groups: set[int] = set()
    for item in field.items(what):
        group = node_mask(item, what, within.machine)
        twice = NodeSet(group) & NodeSet.of_masks(groups)
        if twice or not group:
            problem = f"node {twice} is in two groups" if twice else "a group has at least one node"
            raise item.refuse(f"{what}: {problem}")
        groups.add(group)
    return frozenset(groups)


AMOUNTS: Final = form(amounts_of_memory)
ASSIGNED: Final = Table(
    AssignedMemory,
    KeyRow("nodes", Within(_assigned_nodes), "the nodes that it was assigned from", _NO_AMOUNTS),
    KeyRow("amounts", AMOUNTS, "bytes by resource", _NO_AMOUNTS),
)
MEMORY: Final = Table(
    lambda have, request, nodes=None, free=None, reusable=(), **more: MemoryProvider(
        have, request, reusable={held.nodes: held.amounts for held in reusable}, **more
    ),
    KeyRow("request", AMOUNTS, "bytes by resource", "give request: {memory: 1Gi}"),
    KeyRow("nodes", Within(_nodes), "what containers may have of each node; left out: what the machine has"),
    KeyRow("free", Within(_free), "of nodes where less is left"),
    KeyRow("groups", Within(_groups), "the nodes that containers have memory of, together or alone"),
    KeyRow("reusable", each(ASSIGNED), "what its init containers leave"),
    KeyRow("allocated", ASSIGNED, "what the container holds; null: nothing yet"),
)


def read_memory(field: YamlField, machine: int, idle: Mapping[int, MemoryAmounts]) -> MemoryProvider:
    """Return the provider of memory that a document asks. Raises DocumentError.

    ``machine`` is the mask of all nodes; ``idle`` is what they have where ``memory.nodes`` does not say it.
    """
    fields = MEMORY.fields(field, "memory")
    if not idle and "nodes" not in fields:
        raise field.refuse(f"memory: {_NO_NODES}")
    within = _Nodes(machine, dict(idle))
    provider = MEMORY.made(fields, "memory", within, have=within.have)
    return replace(provider, nodes={node: within.have.get(node, MemoryAmounts({}, {})) for node in NodeSet(machine)})
