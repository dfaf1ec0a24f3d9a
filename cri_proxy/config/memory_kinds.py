"""Types and parsers of the options that name NUMA nodes: ``memoryKinds``, and the memory kept for the system. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from sysfs.cpuset import CpuSetError, NodeSet
from sysfs.model import Machine, MemoryKind
from sysfs.quantity import bytes_text, parse_bytes

# Far more than any machine has; bounds the tables by node.
MAX_NODES = 4096


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """NUMA nodes with the kind of their memory."""

    nodes: NodeSet
    kind: MemoryKind

    def __str__(self) -> str:
        return f"{self.nodes}={self.kind}"


@dataclass(frozen=True, slots=True)
class NodeReserve:
    """Memory that is kept for the system: so much of each node, or without ``nodes`` of all with CPUs together."""

    reserved_bytes: int
    nodes: NodeSet = NodeSet()

    def __str__(self) -> str:
        return f"{self.nodes}{'=' if self.nodes else ''}{bytes_text(self.reserved_bytes)}"


def parse_node_memory(text: str) -> NodeMemory:
    """Read ``NODES=KIND``, which is how an entry ``NODES: KIND`` of the mapping arrives. Raises ValueError.

    >>> str(parse_node_memory("2-3=PMEM"))
    '2-3=pmem'
    """
    listed, _, named = text.partition("=")
    kind = named.strip().lower()
    if kind not in list(MemoryKind):
        raise ValueError(f"expected {', '.join(MemoryKind)} for node {listed.strip()!r}, got {named.strip()!r}")
    return NodeMemory(_nodes(listed), MemoryKind(kind))


def parse_node_reserve(text: str) -> NodeReserve:
    """Read a quantity, or ``NODES=QUANTITY`` for so much of each of these nodes. Raises ValueError.

    >>> str(parse_node_reserve("2Gi")), str(parse_node_reserve("0-1 = 1Gi"))
    ('2Gi', '0-1=1Gi')
    """
    listed, separator, quantity = text.rpartition("=")
    return NodeReserve(parse_bytes(quantity.strip()), _nodes(listed) if separator else NodeSet())


def _nodes(listed: str) -> NodeSet:
    try:
        nodes = NodeSet.parse(listed)
    except CpuSetError as error:
        raise ValueError(f"expected a node or a node list like '2-3', got {listed!r}: {error.problem}") from None
    if not nodes or nodes.mask.bit_length() > MAX_NODES:
        raise ValueError(f"expected nodes from 0 to {MAX_NODES - 1}, got {listed!r}")
    return nodes


def reserved_by_node(declared: Iterable[NodeReserve], machine: Machine) -> dict[int, int]:
    """Return the bytes that are kept of each node; of those for several nodes together, by their sizes."""
    kept = dict.fromkeys((node.id for node in machine.nodes), 0)
    near = [node for node in machine.nodes if node.cpus and node.memory_bytes]
    whole_bytes = sum(node.memory_bytes for node in near)
    for entry in declared:
        for node in near if not entry.nodes else ():
            # Rounded up: together never less than is to be kept.
            kept[node.id] += -(-entry.reserved_bytes * node.memory_bytes // whole_bytes)
        for node_id in entry.nodes & NodeSet.of(kept):
            kept[node_id] += entry.reserved_bytes
    return kept


def kind_by_node(declared: Iterable[NodeMemory]) -> dict[int, MemoryKind]:
    """Return the kind of each declared node; a later entry wins over an earlier one."""
    return {node: entry.kind for entry in declared for node in entry.nodes}
