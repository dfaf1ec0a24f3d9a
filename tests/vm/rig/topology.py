"""A machine's topology as a value, read from JSON, and the QEMU arguments that make it.

CPUs are numbered with thread siblings side by side. Distances between nodes that are not given are 12 inside a
package, 21 between packages, 7 more for each node without CPUs.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

from sysfs.cpuset import CpuSet
from tests.vm.rig.errors import TopologyError

MEMORY_MIB = 512
# EPYC models have no thread siblings under emulation (TCG drops topoext); this one has, and dies and L3 too
CPU_MODEL = "Skylake-Server"
FIELDS = frozenset(
    ("about", "sockets", "dies", "cores", "threads", "nodes", "node_mem_mib", "distances", "isolcpus", "offline")
)


@dataclass(frozen=True, slots=True)
class VmNode:
    """A NUMA node; without CPUs it is memory alone, with 0 MiB it is CPUs alone."""

    cpus: CpuSet
    memory_mib: int


@dataclass(frozen=True, slots=True)
class Topology:
    """What the emulated machine is made of. ``distances`` has a row per node."""

    sockets: int
    dies: int  # per socket
    cores: int  # per die
    threads: int  # per core
    nodes: tuple[VmNode, ...]
    distances: tuple[tuple[int, ...], ...]
    isolated: CpuSet = CpuSet()
    offline: CpuSet = CpuSet()

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read a topology file. Raises TopologyError naming the field."""
        fields = json.loads(text)
        if unknown := sorted(set(fields) - FIELDS):
            raise TopologyError(unknown[0], f"unknown; known are {', '.join(sorted(FIELDS))}")
        sockets, dies = fields.get("sockets", 1), fields.get("dies", 1)
        cores, threads = fields.get("cores", 2), fields.get("threads", 1)
        cpu_count = sockets * dies * cores * threads
        memory_mib = fields.get("node_mem_mib", MEMORY_MIB)
        nodes = _nodes(fields.get("nodes", 1), cpu_count, memory_mib)
        given = fields.get("distances")
        return cls(
            sockets=sockets,
            dies=dies,
            cores=cores,
            threads=threads,
            nodes=nodes,
            distances=tuple(map(tuple, given)) if given else _distances(nodes, cpu_count // sockets),
            isolated=CpuSet.parse(fields.get("isolcpus", "")),
            offline=CpuSet.parse(fields.get("offline", "")),
        )

    @property
    def cpu_count(self) -> int:
        return self.sockets * self.dies * self.cores * self.threads

    @property
    def memory_mib(self) -> int:
        return sum(node.memory_mib for node in self.nodes)

    def kernel_parameters(self) -> tuple[str, ...]:
        return (f"isolcpus={self.isolated}",) if self.isolated else ()

    def qemu_arguments(self) -> list[str]:
        shape = f"sockets={self.sockets},dies={self.dies},cores={self.cores},threads={self.threads}"
        return ["-cpu", CPU_MODEL, "-m", str(self.memory_mib), "-smp", f"{self.cpu_count},{shape}", *self._numa()]

    def _numa(self) -> Iterator[str]:
        for i, node in enumerate(self.nodes):
            backend = f",memdev=memory{i}" if node.memory_mib else ""
            if node.memory_mib:
                yield from ("-object", f"memory-backend-ram,id=memory{i},size={node.memory_mib}M")
            yield from ("-numa", f"node,nodeid={i}{backend}")
        for i, node in enumerate(self.nodes):
            for cpu in node.cpus:
                yield from ("-numa", f"cpu,node-id={i},{self._place(cpu)}")
        for i, row in enumerate(self.distances):
            for j, distance in enumerate(row):
                if i != j:
                    yield from ("-numa", f"dist,src={i},dst={j},val={distance}")

    def _place(self, cpu: int) -> str:
        core, thread = divmod(cpu, self.threads)
        die, core = divmod(core, self.cores)
        socket, die = divmod(die, self.dies)
        die_id = f"die-id={die}," if self.dies > 1 else ""
        return f"socket-id={socket},{die_id}core-id={core},thread-id={thread}"


def _nodes(given: object, cpu_count: int, memory_mib: int) -> tuple[VmNode, ...]:
    """``given`` is a number (the CPUs are dealt out evenly, in order) or a list of {cpus, mem_mib}."""
    if isinstance(given, int):
        each, rest = divmod(cpu_count, given)
        if rest:
            raise TopologyError("nodes", f"{cpu_count} CPUs cannot be dealt out evenly to {given}; list the nodes")
        return tuple(VmNode(CpuSet.of(range(i * each, (i + 1) * each)), memory_mib) for i in range(given))
    if not isinstance(given, list):
        raise TopologyError("nodes", f"expected a number or a list, got {given!r}")
    return tuple(VmNode(CpuSet.parse(n.get("cpus", "")), n.get("mem_mib", memory_mib)) for n in given)


def _distances(nodes: tuple[VmNode, ...], cpus_per_socket: int) -> tuple[tuple[int, ...], ...]:
    bare = [i for i, node in enumerate(nodes) if not node.cpus]
    socket_count = 1 + max(cpu for node in nodes for cpu in node.cpus) // cpus_per_socket

    def socket(i: int) -> int:
        # nodes without CPUs are dealt out to the sockets in order
        first = next(iter(nodes[i].cpus), None)
        return bare.index(i) * socket_count // len(bare) if first is None else first // cpus_per_socket

    def distance(i: int, j: int) -> int:
        if i == j:
            return 10
        return (12 if socket(i) == socket(j) else 21) + 7 * ((i in bare) + (j in bare))

    everyone = range(len(nodes))
    return tuple(tuple(distance(i, j) for j in everyone) for i in everyone)
