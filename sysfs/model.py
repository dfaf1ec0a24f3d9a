"""The machine as a frozen value: packages, dies, NUMA nodes, caches, cores, CPUs and PCI devices.

Built once by ``sysfs.discover`` (or ``sysfs.descriptions.machine``) and never changed; a hotplug makes a new one.
All tuples are sorted by id. Sets hold *online* CPUs only, unless a name says otherwise.
Terms and files: Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/sysfs-devices-node,
Documentation/ABI/testing/sysfs-devices-system-cpu of the kernel.
"""

from dataclasses import dataclass
from enum import StrEnum

from sysfs.cpuset import CpuSet, NodeSet


class MemoryKind(StrEnum):
    """What a NUMA node's memory is made of, as far as the kernel or its size tells."""

    DRAM = "dram"
    PMEM = "pmem"
    HBM = "hbm"


class CoreKind(StrEnum):
    """Performance or efficiency core on hybrid machines; every core of other machines is PERFORMANCE."""

    PERFORMANCE = "performance"
    EFFICIENCY = "efficiency"


@dataclass(frozen=True, slots=True)
class Cpu:
    """One online logical CPU and the ids of what holds it.

    ``core`` is an index into ``Machine.cores`` (the kernel's core_id repeats between packages);
    ``node`` is -1 only on kernels without NUMA where no node could be made up.
    """

    id: int
    package: int
    die: int
    node: int
    core: int
    kind: CoreKind = CoreKind.PERFORMANCE
    base_frequency_khz: int = 0  # 0 = not told
    energy_preference: str = ""  # cpufreq/energy_performance_preference


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core; ``cpus`` are its thread siblings, online ones."""

    index: int
    package: int
    die: int
    core_id: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache domain of level 2 or 3: the CPUs that share it (grouped by shared_cpu_list, never by id)."""

    level: int
    index: int  # position among the caches of this level, by lowest CPU
    cpus: CpuSet
    size_bytes: int = 0  # 0 = not told


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node. ``cpus`` is empty for memory-only nodes, ``memory_bytes`` 0 for CPU-only ones.

    ``distances`` has one entry per (node id, distance) pair, ascending by node id, symmetric.
    ``is_normal_memory`` is false for movable-only memory (absent from has_normal_memory).
    ``near`` are the CPU nodes that a CPU-less node belongs to: those at the smallest distance.
    """

    id: int
    cpus: CpuSet
    memory_bytes: int
    kind: MemoryKind
    is_normal_memory: bool
    distances: tuple[tuple[int, int], ...]
    near: NodeSet = NodeSet()

    def distance_to(self, node: int) -> int:
        """Distance to another node as the firmware's SLIT gives it (10 = local); 255 when unknown."""
        for other, distance in self.distances:
            if other == node:
                return distance
        return 255


@dataclass(frozen=True, slots=True)
class Die:
    """A die of a package; ids restart in each package."""

    package: int
    id: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Package:
    """A physical package (socket)."""

    id: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Device:
    """A PCI device: where it hangs and which CPUs are local to it.

    ``address`` is domain:bus:device.function. ``node`` is -1 when the firmware does not say.
    ``bridges`` is the path from the host bridge (``pci0000:10``) down to the parent's address; two devices share
    a host bridge when their first elements are equal, a switch when longer prefixes are.
    ``physical_function`` is the parent of an SR-IOV virtual function, else ''.
    """

    address: str
    class_code: int
    vendor: int
    device: int
    node: int
    local_cpus: CpuSet
    bridges: tuple[str, ...] = ()
    physical_function: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that a placement needs to know of the hardware."""

    cpus: tuple[Cpu, ...]
    cores: tuple[Core, ...]
    dies: tuple[Die, ...]
    packages: tuple[Package, ...]
    nodes: tuple[NumaNode, ...]
    caches: tuple[Cache, ...]
    devices: tuple[Device, ...]
    online: CpuSet
    offline: CpuSet
    isolated: CpuSet  # kernel-isolated (isolcpus=), cut to the online ones
    notes: tuple[str, ...] = ()  # documented fallbacks that discovery took, one sentence each

    def node_of(self, node: int) -> NumaNode | None:
        """The node of this id, or None."""
        return next((n for n in self.nodes if n.id == node), None)

    @property
    def memory_nodes(self) -> NodeSet:
        """Nodes that have memory."""
        return NodeSet.of(n.id for n in self.nodes if n.memory_bytes)
