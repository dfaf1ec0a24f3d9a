"""Read NUMA nodes from ``sys/devices/system/node``: CPUs, memory, huge pages, distances, tiers; one without NUMA.

Sources: Documentation/ABI/stable/sysfs-devices-node, Documentation/admin-guide/mm/numaperf.rst,
Documentation/ABI/testing/sysfs-kernel-mm-memory-tiers.
"""

import re

from sysfs.assemble import NodeFacts
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.errors import FileMissing, SysfsError
from sysfs.hugepages import OF_MACHINE, OF_NODE, read_huge_pages
from sysfs.memory_kind import MemoryFacts
from sysfs.reader import TreeReader

NODE = "sys/devices/system/node"
TIERS = "sys/devices/virtual/memory_tiering"
LOCAL_DISTANCE, REMOTE_DISTANCE = 10, 20  # what the kernel uses without a SLIT, include/linux/topology.h
MAX_DISTANCE = 255  # a byte in the SLIT; 255 = unreachable (ACPI 6.5, 5.2.17)

_MEM_TOTAL = re.compile(r"MemTotal:\s+(\d{1,15}) kB")


def read_nodes(reader: TreeReader, online: CpuSet) -> list[NodeFacts]:
    """Return the facts of every online node, ascending. Each online CPU is in exactly one. Raises SysfsError."""
    ids = reader.numbered(NODE, "node")
    if not ids:
        return [_whole_machine_node(reader, online)]
    cpus = _cpus_of_nodes(reader, ids, online)
    with_memory = _state(reader, "has_memory")
    normal = _state(reader, "has_normal_memory")
    tiers = _tiers(reader)
    found = []
    for node in ids:
        memory_bytes = _mem_total(reader, f"{NODE}/node{node}/meminfo")
        if memory_bytes and with_memory is not None and node not in with_memory:
            reader.note(f"node {node} has a MemTotal but is not in has_memory: it is taken as a node without memory")
            memory_bytes = 0  # the kernel accepts no such node in cpuset.mems
        initiators = f"{NODE}/node{node}/access0/initiators"  # the closest ones, by the HMAT
        bandwidth, latency = (_figure(reader, f"{initiators}/{name}") for name in ("read_bandwidth", "read_latency"))
        is_normal = normal is None or node in normal
        memory = MemoryFacts(memory_bytes, is_normal, tiers.get(node, 0), bandwidth, latency)
        pages = read_huge_pages(reader, f"{NODE}/node{node}/{OF_NODE}", memory_bytes)
        found.append(NodeFacts(node, cpus[node], memory, _distances(reader, node, ids), pages))
    return found


def _whole_machine_node(reader: TreeReader, online: CpuSet) -> NodeFacts:
    """Return node 0 with all CPUs and memory."""
    # The kernel accepts 0 in cpuset.mems without NUMA, too.
    reader.note("the kernel reports no NUMA nodes: all CPUs and memory are taken as node 0")
    memory_bytes = 0
    try:
        memory_bytes = _mem_total(reader, "proc/meminfo")
    except SysfsError as error:
        reader.note(f"{error}; the size of the memory is unknown")
    pages = read_huge_pages(reader, OF_MACHINE, memory_bytes)
    return NodeFacts(0, online, MemoryFacts(memory_bytes), ((0, LOCAL_DISTANCE),), pages)


def _mem_total(reader: TreeReader, path: str) -> int:
    """Return MemTotal of a node's or the machine's meminfo, in bytes. Raises SysfsError."""
    text = reader.text(path, "a meminfo file")
    match = _MEM_TOTAL.search(text)
    if match is None:
        raise SysfsError(path, "a line 'MemTotal: N kB'", repr(text[:40]))
    return int(match[1]) * 1024


def _state(reader: TreeReader, name: str) -> NodeSet | None:
    """Return one of the node-state lists; None, with a note, when it is missing, empty or malformed."""
    path = f"{NODE}/{name}"
    try:
        nodes = reader.nodes(path)
        if nodes:
            return nodes
        raise SysfsError(path, "at least one node", "none")  # the kernel itself needs memory on some node
    except SysfsError as error:
        reader.note(f"{error}; {name} is taken from each node's meminfo")
        return None


def _cpus_of_nodes(reader: TreeReader, ids: list[int], online: CpuSet) -> dict[int, CpuSet]:
    """Return the online CPUs of each node. Raises SysfsError when a list is malformed or two nodes claim a CPU."""
    must_have = reader.lenient(reader.nodes, f"{NODE}/has_cpu", NodeSet())
    found: dict[int, CpuSet] = {}
    seen = CpuSet()
    for node in ids:
        path = f"{NODE}/node{node}/cpulist"
        listed = reader.cpus(path)
        cpus = listed & online
        if seen & cpus:
            raise SysfsError(path, "CPUs of no other node", repr(str(seen & cpus)))
        # An empty list would read as a node without CPUs, and its CPUs as those of another one. The whole list counts:
        # to a container fewer CPUs may be shown as online than its nodes have.
        if node in must_have and not listed:
            raise SysfsError(path, "CPUs, because the node is in has_cpu", "none")
        seen = seen | cpus
        found[node] = cpus
    homeless = online - seen
    if homeless:
        home = next((node for node in ids if found[node]), ids[0])
        reader.note(f"CPUs {homeless} are in no NUMA node: they are taken as CPUs of node {home}")
        found[home] = found[home] | homeless
    return found


def _distances(reader: TreeReader, node: int, ids: list[int]) -> tuple[tuple[int, int], ...]:
    """Return the node's row of the distance table, ascending by online node. Raises SysfsError."""
    path = f"{NODE}/node{node}/distance"
    expected = f"{len(ids)} distances from 1 to {MAX_DISTANCE}"
    try:
        text = reader.text(path, expected)
    except FileMissing as error:
        reader.note(f"{error}; {LOCAL_DISTANCE} is taken for local, {REMOTE_DISTANCE} for remote")
        return tuple((other, LOCAL_DISTANCE if other == node else REMOTE_DISTANCE) for other in ids)
    numbers = [int(word) for word in text.split() if word.isdigit() and len(word) <= 3]
    in_range = all(0 < number <= MAX_DISTANCE for number in numbers)
    if not (len(ids) == len(numbers) == len(text.split()) and in_range):
        raise SysfsError(path, expected, repr(text[:60]))
    return tuple(zip(ids, numbers, strict=True))


def _figure(reader: TreeReader, path: str) -> int:
    """Return a bandwidth (MiB/s) or latency (ns); 0 = unknown."""
    return max(reader.lenient(reader.integer, path, 0), 0)


def _tiers(reader: TreeReader) -> dict[int, int]:
    """Return the memory tier of each node, counted from 1; empty on kernels without tiers (before 6.1)."""
    found: dict[int, int] = {}
    for tier in reader.numbered(TIERS, "memory_tier"):
        try:
            found |= dict.fromkeys(reader.nodes(f"{TIERS}/memory_tier{tier}/nodelist"), tier + 1)
        except SysfsError as error:
            reader.note(f"{error}; memory tiers are ignored")
            return {}
    return found
