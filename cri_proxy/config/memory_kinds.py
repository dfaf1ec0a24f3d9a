"""Type and parser of the option ``memoryKinds`` (dram, pmem or hbm for NUMA nodes), and the kind by node. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass

from sysfs.cpuset import CpuSetError, NodeSet
from sysfs.model import MemoryKind

# Far more than any machine has; bounds the table of kinds by node.
MAX_NODES = 4096


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """NUMA nodes with the kind of their memory."""

    nodes: NodeSet
    kind: MemoryKind

    def __str__(self) -> str:
        return f"{self.nodes}={self.kind}"


def parse_node_memory(text: str) -> NodeMemory:
    """Read ``NODES=KIND``, which is how an entry ``NODES: KIND`` of the mapping arrives. Raises ValueError.

    >>> str(parse_node_memory("2-3=PMEM"))
    '2-3=pmem'
    """
    listed, _, named = text.partition("=")
    kind = named.strip().lower()
    if kind not in list(MemoryKind):
        raise ValueError(f"expected {', '.join(MemoryKind)} for node {listed.strip()!r}, got {named.strip()!r}")
    try:
        nodes = NodeSet.parse(listed)
    except CpuSetError as error:
        raise ValueError(f"expected a node or a node list like '2-3', got {listed!r}: {error.problem}") from None
    if not nodes or nodes.mask.bit_length() > MAX_NODES:
        raise ValueError(f"expected nodes from 0 to {MAX_NODES - 1}, got {listed!r}")
    return NodeMemory(nodes, MemoryKind(kind))


def kind_by_node(declared: Iterable[NodeMemory]) -> dict[int, MemoryKind]:
    """Return the kind of each declared node; a later entry wins over an earlier one."""
    return {node: entry.kind for entry in declared for node in entry.nodes}
