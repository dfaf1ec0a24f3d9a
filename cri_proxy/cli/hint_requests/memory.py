"""Read what nodes have of memory and huge pages, and the request for it."""

from collections.abc import Mapping

from cri_proxy.cli.hint_requests.values import amounts_of_memory, by_key, given, node_mask, node_number
from cri_proxy.yaml_fields import YamlField
from policies.hints.memory import AssignedMemory, MemoryAmounts, MemoryProvider
from sysfs.cpuset import NodeSet

_KEYS = ("request", "nodes", "free", "groups", "reusable", "allocated")


def read_memory(field: YamlField, machine: int, idle: Mapping[int, MemoryAmounts]) -> MemoryProvider:
    """Return the provider of memory that a document asks. Raises DocumentError.

    ``machine`` is the mask of all nodes; ``idle`` is what they have where ``memory.nodes`` does not say it.
    """
    fields = given(field.mapping(_KEYS, "memory"))
    if "request" not in fields:
        raise field.refuse("memory: give request: {memory: 1Gi}")
    if "nodes" in fields:
        idle = {
            node: MemoryAmounts(has, has) for node, has in _by_node(fields["nodes"], "memory.nodes", machine).items()
        }
    if not idle:
        raise field.refuse("memory: give nodes: {NODE: {memory: 8Gi}}, what containers may have of each")
    reusable = fields["reusable"].items("memory.reusable") if "reusable" in fields else ()
    without_memory = {node: MemoryAmounts({}, {}) for node in NodeSet(machine)}
    return MemoryProvider(
        {**without_memory, **idle, **_in_use(fields.get("free"), machine, idle)},
        amounts_of_memory(fields["request"], "memory.request"),
        _groups(fields.get("groups"), machine),
        {held.nodes: held.amounts for held in (_assigned(item, "memory.reusable", machine) for item in reusable)},
        _assigned(fields["allocated"], "memory.allocated", machine) if "allocated" in fields else None,
    )


def _by_node(field: YamlField, what: str, machine: int) -> dict[int, dict[str, int]]:
    found = {}
    for node, value in sorted(by_key(field, what, node_number).items()):
        if not machine >> node & 1:
            raise value.refuse(f"{what}: there is no node {node}; the nodes are {NodeSet(machine)}")
        found[node] = amounts_of_memory(value, f"{what}.{node}")
    return found


def _in_use(field: YamlField | None, machine: int, idle: Mapping[int, MemoryAmounts]) -> dict[int, MemoryAmounts]:
    """Return the nodes of which less is free than they have."""
    found = {}
    for node, free in _by_node(field, "memory.free", machine).items() if field else ():
        has = idle[node].allocatable if node in idle else {}
        for resource, amount in free.items():
            if field and amount > has.get(resource, 0):
                most = f"{resource} of node {node} is {has.get(resource, 0)}"
                raise field.refuse(f"memory.free.{node}: {resource}: {amount} is more than there is; {most}")
        found[node] = MemoryAmounts(has, {**has, **free})
    return found


def _groups(field: YamlField | None, machine: int) -> frozenset[int]:
    """Return the sets of nodes that serve together; a node is in one."""
    groups: set[int] = set()
    for item in field.items("memory.groups") if field else ():
        group = node_mask(item, "memory.groups", machine)
        twice = NodeSet(group) & NodeSet.of_masks(groups)
        if twice or not group:
            problem = f"node {twice} is in two groups" if twice else "a group has at least one node"
            raise item.refuse(f"memory.groups: {problem}")
        groups.add(group)
    return frozenset(groups)


def _assigned(field: YamlField, what: str, machine: int) -> AssignedMemory:
    """Return memory and the nodes that it was assigned from: ``{nodes: [0], amounts: {memory: 1Gi}}``."""
    fields = given(field.mapping(("nodes", "amounts"), what))
    for key in ("nodes", "amounts"):
        if key not in fields:
            raise field.refuse(f"{what}: give nodes: [NODE] and amounts: {{memory: 1Gi}}")
    nodes = node_mask(fields["nodes"], f"{what}.nodes", machine)
    if not nodes:
        raise fields["nodes"].refuse(f"{what}.nodes: give at least one node")
    return AssignedMemory(nodes, amounts_of_memory(fields["amounts"], f"{what}.amounts"))
