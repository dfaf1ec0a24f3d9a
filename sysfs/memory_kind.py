"""Which kind of memory a NUMA node without CPUs has: by memory tier, by HMAT figures, else by size.

Nodes with CPUs count as DRAM. Sources: Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers (a lower tier number is
faster memory), Documentation/admin-guide/mm/numaperf.rst (``access0/initiators`` holds what the HMAT says).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sysfs.cpuset import NodeSet
from sysfs.model import MemoryKind

# The HMAT is coarse, and distance alone explains small differences: HBM has several times the bandwidth of DRAM,
# PMEM and CXL memory about half of it or less, at about twice the latency or more.
HMAT_FACTOR = (3, 2)  # one and a half times, in whole numbers


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What is known of one node's memory; 0 = not told.

    ``tier`` counts from 1, the fastest; bandwidth is in MiB/s, latency in ns.
    """

    memory_bytes: int
    is_normal: bool = True
    tier: int = 0
    read_bandwidth: int = 0
    read_latency: int = 0
    kind: MemoryKind | None = None  # told outright (a description, an operator's override)


def memory_kind(own: MemoryFacts, near: Sequence[MemoryFacts], dram: Sequence[MemoryFacts]) -> MemoryKind:
    """The kind of a CPU-less node's memory.

    ``near`` are the closest nodes with CPUs and memory, ``dram`` all of them. The first rule that tells a difference
    decides: tier, bandwidth, latency, size against the average. Where no node with CPUs has memory it is DRAM.
    """
    if own.kind is not None:
        return own.kind
    if not dram or not own.memory_bytes:
        return MemoryKind.DRAM
    peers = near or dram
    for slower in (
        _compare(own.tier, [f.tier for f in peers]),
        -_compare(own.read_bandwidth, [f.read_bandwidth for f in peers], HMAT_FACTOR),
        max(_compare(own.read_latency, [f.read_latency for f in peers], HMAT_FACTOR), 0),
        _compare(own.memory_bytes * len(dram), [sum(f.memory_bytes for f in dram)]),
    ):
        if slower:
            return MemoryKind.PMEM if slower > 0 else MemoryKind.HBM
    return MemoryKind.DRAM


def _compare(own: int, others: Sequence[int], factor: tuple[int, int] = (1, 1)) -> int:
    """1 when ``own`` is above all others by this factor, -1 when below all by it, 0 when it does not tell."""
    times, part = factor
    known = [value for value in others if value]
    if not own or not known:
        return 0
    above = own > max(known) and own * part >= max(known) * times
    below = own < min(known) and own * times <= min(known) * part
    return int(above) - int(below)


def closest(distances: Sequence[tuple[int, int]], candidates: NodeSet) -> NodeSet:
    """The candidates at the smallest distance; several when they are equally close."""
    rows = [(distance, node) for node, distance in distances if node in candidates]
    least = min(rows, default=(0, 0))[0]
    return NodeSet.of(node for distance, node in rows if distance == least)
