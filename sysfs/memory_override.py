"""Override the discovered memory kinds of a machine by configured ones (pure)."""

from collections.abc import Mapping
from dataclasses import replace

from sysfs.model import Machine, MemoryKind


def with_memory_kinds(machine: Machine, kinds: Mapping[int, MemoryKind]) -> Machine:
    """Return the machine with these memory kinds, given by node id. Other nodes keep theirs; unknown ids are ignored.

    Nodes with CPUs may be named too: some machines have only HBM next to their CPUs.
    """
    if not kinds:
        return machine
    nodes = tuple(replace(node, kind=kinds.get(node.id, node.kind)) for node in machine.nodes)
    return machine if nodes == machine.nodes else replace(machine, nodes=nodes)
