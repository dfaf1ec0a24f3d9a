"""The operator's word on memory kinds, laid over what the kernel tells of a machine (pure)."""

from collections.abc import Mapping
from dataclasses import replace

from sysfs.model import Machine, MemoryKind


def with_memory_kinds(machine: Machine, kinds: Mapping[int, MemoryKind]) -> Machine:
    """The machine with these kinds of memory by node id; a node that is not there, or not named, is as it was.

    A node with CPUs may be named too: some machines have nothing but HBM beside their CPUs.
    """
    if not kinds:
        return machine
    nodes = tuple(replace(node, kind=kinds.get(node.id, node.kind)) for node in machine.nodes)
    return machine if nodes == machine.nodes else replace(machine, nodes=nodes)
