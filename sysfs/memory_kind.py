"""Infer the memory kind of a NUMA node without CPUs, or set declared kinds; find the closest nodes. Pure.

Nodes with CPUs count as DRAM. Sources: Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers (a lower tier number is
faster memory), Documentation/admin-guide/mm/numaperf.rst (``access0/initiators`` holds what the HMAT says).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sysfs.cpuset import NodeSet
from sysfs.model import Machine, MemoryKind

# The HMAT is coarse, and distance alone explains small differences: HBM has several times the bandwidth of DRAM,
# PMEM and CXL memory about half of it or less, at about twice the latency or more.
HMAT_FACTOR = (3, 2)  # one and a half times, in whole numbers


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """One node's memory, as far as known; 0 = unknown.

    ``tier`` counts from 1, the fastest; bandwidth is in MiB/s, latency in ns.
    """

    memory_bytes: int
    is_normal: bool = True
    tier: int = 0
    read_bandwidth: int = 0
    read_latency: int = 0
    kind: MemoryKind | None = None  # given by a description or an override


def memory_kind(own: MemoryFacts, near: Sequence[MemoryFacts], dram: Sequence[MemoryFacts]) -> MemoryKind:
    """Return the memory kind of a node without CPUs.

    ``near`` holds the closest nodes with CPUs and memory, ``dram`` all of them. The first rule that finds a difference
    decides: tier, bandwidth, latency, size against the average. Without any node in ``dram`` the kind is DRAM.
    """
    if own.kind is not None:
        return own.kind
    if not dram or not own.memory_bytes:
        return MemoryKind.DRAM
    peers = near or dram
    for slower in (
        _compare(own.tier, [f.tier for f in peers]),
        -_compare(own.read_bandwidth, [f.read_bandwidth for f in peers], HMAT_FACTOR),
        # Only a higher latency counts: HBM answers no sooner than DRAM.
        max(_compare(own.read_latency, [f.read_latency for f in peers], HMAT_FACTOR), 0),
        # Without figures of the firmware: PMEM is larger than the DRAM beside it, HBM is smaller.
        _compare(own.memory_bytes * len(dram), [sum(f.memory_bytes for f in dram)]),
    ):
        if slower:
            return MemoryKind.PMEM if slower > 0 else MemoryKind.HBM
    return MemoryKind.DRAM


def _compare(own: int, others: Sequence[int], factor: tuple[int, int] = (1, 1)) -> int:
    """Return 1 when ``own`` exceeds all others by this factor, -1 when it is below all by it, else 0."""
    times, part = factor
    known = [value for value in others if value]
    if not own or not known:
        return 0
    above = own > max(known) and own * part >= max(known) * times
    below = own < min(known) and own * times <= min(known) * part
    return int(above) - int(below)


def closest(distances: Sequence[tuple[int, int]], candidates: NodeSet) -> NodeSet:
    """Return the candidates at the smallest distance."""
    rows = [(distance, node) for node, distance in distances if node in candidates]
    least = min(rows, default=(0, 0))[0]
    return NodeSet.of(node for distance, node in rows if distance == least)


def with_memory_kinds(machine: Machine, kinds: Mapping[int, MemoryKind]) -> Machine:
    """Return the machine with these memory kinds, given by node id. Other nodes keep theirs; unknown ids are ignored.

    Nodes with CPUs may be named too: some machines have only HBM next to their CPUs.
    """
    nodes = tuple(replace(node, kind=kinds.get(node.id, node.kind)) for node in machine.nodes)
    return machine if nodes == machine.nodes else replace(machine, nodes=nodes)


def with_reserved_memory(machine: Machine, reserved_bytes: Mapping[int, int]) -> Machine:
    """Return the machine with so much memory kept for the system of each node, by its id."""
    return replace(machine, nodes=tuple(replace(n, reserved_bytes=reserved_bytes.get(n.id, 0)) for n in machine.nodes))
