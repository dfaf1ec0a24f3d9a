"""Read what nodes have of memory and huge pages, and the request for it."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from cri_proxy.yaml_fields import YamlField
from policies.hints import AssignedMemory, MemoryAmounts, MemoryProvider
from sysfs.cpuset import NodeSet
from sysfs.documents.forms import by_key, each, form, node_mask, node_number
from sysfs.documents.table import Form, KeyRow, Table
from sysfs.known_words import short_repr
from sysfs.quantity import QuantityError, parse_bytes

_NO_NODES = "give nodes: {NODE: {memory: 8Gi}}, what containers may have of each"
_NO_AMOUNTS = "give nodes: [NODE] and amounts: {memory: 1Gi}"
_PAGES = "hugepages-"


def amounts_of_memory(field: YamlField, what: str) -> dict[str, int]:
    """Return bytes by resource: ``{memory: 1Gi, hugepages-2Mi: 64Mi}``. Raises DocumentError."""
    found = {}
    for resource, value in field.entries(what).items():
        if not _is_memory(resource):
            shown = short_repr(resource)
            raise value.refuse(f"{what}: unknown resource {shown}; give memory or hugepages-SIZE, as hugepages-2Mi")
        found[resource] = value.parsed(f"{what}.{resource}", parse_bytes)
    return found


def _is_memory(resource: str) -> bool:
    with suppress(QuantityError):
        return resource == "memory" or (resource.startswith(_PAGES) and parse_bytes(resource.removeprefix(_PAGES)) > 0)
    return False


def _assigned_nodes(field: YamlField, what: str, machine: int) -> int:
    mask = node_mask(field, what, machine)
    if not mask:
        raise field.refuse(f"{what}: give at least one node")
    return mask


def _by_node(field: YamlField, what: str, machine: int) -> dict[int, dict[str, int]]:
    found = {}
    for node, value in sorted(by_key(field, what, node_number).items()):
        if not machine >> node & 1:
            raise value.refuse(f"{what}: there is no node {node}; the nodes are {NodeSet(machine)}")
        found[node] = amounts_of_memory(value, f"{what}.{node}")
    return found


def _groups(field: YamlField, what: str, machine: int) -> frozenset[int]:
    """Return the sets of nodes that serve together; a node is in one."""
    groups: set[int] = set()
    for item in field.items(what):
        group = node_mask(item, what, machine)
        twice = NodeSet(group) & NodeSet.of_masks(groups)
        if twice or not group:
            problem = f"node {twice} is in two groups" if twice else "a group has at least one node"
            raise item.refuse(f"{what}: {problem}")
        groups.add(group)
    return frozenset(groups)


AMOUNTS: Final = form(amounts_of_memory)
ASSIGNED: Final = Table(
    AssignedMemory,
    KeyRow("nodes", Form(_assigned_nodes), "the nodes that it was assigned from", _NO_AMOUNTS),
    KeyRow("amounts", AMOUNTS, "bytes by resource", _NO_AMOUNTS),
)
MEMORY: Final = Table(
    lambda **given: given,
    KeyRow("request", AMOUNTS, "bytes by resource", "give request: {memory: 1Gi}"),
    KeyRow("nodes", Form(_by_node), "what containers may have of each node; left out: what the machine has"),
    KeyRow("free", Form(_by_node), "of nodes where less is left"),
    KeyRow("groups", Form(_groups), "the nodes that containers have memory of, together or alone"),
    KeyRow("reusable", each(ASSIGNED), "what its init containers leave"),
    KeyRow("allocated", ASSIGNED, "what the container holds; null: nothing yet"),
)


def read_memory(field: YamlField, machine: int, idle: Mapping[int, MemoryAmounts]) -> MemoryProvider:
    """Return the provider of memory that a document asks. Raises DocumentError.

    ``machine`` is the mask of all nodes; ``idle`` is what they have where ``memory.nodes`` does not say it.
    """
    given = MEMORY.read(field, "memory", machine)
    listed, free = given.pop("nodes", {}), given.pop("free", {})
    nodes = {node: MemoryAmounts(has, has) for node, has in listed.items()} or idle
    if not nodes:
        raise field.refuse(f"memory: {_NO_NODES}")
    have = {node: nodes.get(node, MemoryAmounts({}, {})) for node in NodeSet(machine)}
    for node, amounts in free.items():
        has = have[node].allocatable
        for resource, amount in amounts.items():
            if amount > has.get(resource, 0):
                most = f"{resource} of node {node} is {has.get(resource, 0)}"
                raise field.refuse(f"memory.free.{node}: {resource}: {amount} is more than there is; {most}")
        have[node] = MemoryAmounts(has, {**has, **amounts})
    reusable = {held.nodes: held.amounts for held in given.pop("reusable", ())}
    return MemoryProvider(have, reusable=reusable, **given)
