"""``Machine``: the hardware as a frozen value: packages, dies, NUMA nodes, caches, cores, CPUs and PCI devices.

Built by ``sysfs.discover`` or ``sysfs.descriptions.machine`` and never changed; a hotplug makes a new one.
All tuples are sorted by id. Sets hold *online* CPUs only, unless a name says otherwise.
Terms and files: Documentation/admin-guide/cputopology.rst, Documentation/ABI/stable/sysfs-devices-node,
Documentation/ABI/testing/sysfs-devices-system-cpu of the kernel.
"""

from bisect import bisect_left
from dataclasses import dataclass
from enum import StrEnum

from sysfs.cpuset import CpuSet, NodeSet

UNKNOWN_DISTANCE = 255
"""A distance between nodes that the firmware does not give; no other is larger."""


class MemoryKind(StrEnum):
    """The technology of a NUMA node's memory, as the kernel reports it or its size suggests."""

    DRAM = "dram"
    PMEM = "pmem"
    HBM = "hbm"


class CoreKind(StrEnum):
    """Performance or efficiency core on hybrid machines; every core of other machines is PERFORMANCE."""

    PERFORMANCE = "performance"
    EFFICIENCY = "efficiency"


@dataclass(frozen=True, slots=True)
class Cpu:
    """One online logical CPU, with the ids of its package, die, node and core.

    ``core`` is an index into ``Machine.cores`` (the kernel's core_id repeats between packages);
    ``node`` is -1 when no NUMA node lists the CPU.
    """

    id: int
    package: int
    die: int
    node: int
    core: int
    kind: CoreKind = CoreKind.PERFORMANCE
    base_frequency_khz: int = 0  # 0 = unknown
    energy_preference: str = ""  # cpufreq/energy_performance_preference
    capacity: int = 0  # cpu_capacity, of 1024 for the strongest; 0 = unknown


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core; ``cpus`` are its online thread siblings."""

    index: int
    package: int
    die: int
    core_id: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of level 2 or 3 and the CPUs that share it (by shared_cpu_list, never by the cache's id)."""

    level: int
    cpus: CpuSet
    size_bytes: int = 0  # 0 = unknown
    index: int = 0  # position among the caches of this level, by lowest CPU; set by ``assemble``


@dataclass(frozen=True, slots=True)
class HugePages:
    """A node's pool of huge pages of one size. ``count`` has those in use as well (``nr_hugepages``)."""

    page_bytes: int
    count: int

    @property
    def total_bytes(self) -> int:
        """The bytes of all pages."""
        return self.page_bytes * self.count


@dataclass(frozen=True, slots=True)
class NumaNode:
    """A NUMA node. ``cpus`` is empty for memory-only nodes, ``memory_bytes`` 0 for CPU-only ones.

    ``distances`` holds (node id, distance) pairs, ascending by node id; the matrix of all nodes is symmetric.
    ``is_normal_memory`` is false for movable-only memory (absent from has_normal_memory).
    ``near`` holds the closest nodes with CPUs of a node without CPUs. ``huge_pages`` are the pools that have pages, by
    ascending size; ``memory_bytes`` counts their bytes too, as MemTotal does. ``reserved_bytes`` are the operator's.
    """

    id: int
    cpus: CpuSet
    memory_bytes: int
    kind: MemoryKind
    is_normal_memory: bool
    distances: tuple[tuple[int, int], ...]
    near: NodeSet = NodeSet()
    huge_pages: tuple[HugePages, ...] = ()
    reserved_bytes: int = 0

    @property
    def ordinary_bytes(self) -> int:
        """The memory outside its pools of huge pages that is not kept for the system."""
        taken_bytes = sum(pages.total_bytes for pages in self.huge_pages) + self.reserved_bytes
        return max(0, self.memory_bytes - taken_bytes)

    def distance_to(self, node: int) -> int:
        """Return the distance to another node by the firmware's SLIT (10 = local)."""
        i = bisect_left(self.distances, (node,))
        is_known = i < len(self.distances) and self.distances[i][0] == node
        return self.distances[i][1] if is_known else UNKNOWN_DISTANCE


@dataclass(frozen=True, slots=True)
class Die:
    """A die of a package; ids are unique within the package only."""

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
    """A PCI device, its place in the PCI tree and the CPUs local to it.

    ``address`` is domain:bus:device.function. ``node`` is -1 when the firmware does not say.
    ``bridges`` is the path from the host bridge (``pci0000:10``) down to the parent's address. Two devices share a
    host bridge when the first elements are equal, a switch when longer prefixes are.
    ``physical_function`` is the address of an SR-IOV virtual function's parent, else ''. ``has_rdma``: its driver has
    made it a device of the kernel's RDMA subsystem. ``partitions`` are the names of the platform devices that are parts
    of a GPU of AMD's, but for the first part, which is the function itself.
    """

    address: str
    class_code: int
    vendor: int
    device: int
    node: int
    local_cpus: CpuSet
    bridges: tuple[str, ...] = ()
    physical_function: str = ""
    has_rdma: bool = False
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Machine:
    """The hardware, as far as placement needs it."""

    cpus: tuple[Cpu, ...]
    cores: tuple[Core, ...]
    dies: tuple[Die, ...]
    packages: tuple[Package, ...]
    nodes: tuple[NumaNode, ...]
    caches: tuple[Cache, ...]
    devices: tuple[Device, ...]
    online: CpuSet
    offline: CpuSet
    isolated: CpuSet  # kernel-isolated (isolcpus=) and online
    notes: tuple[str, ...] = ()  # fallbacks that discovery took, one sentence each

    @property
    def memory_nodes(self) -> NodeSet:
        """The nodes that have memory."""
        return NodeSet.of(n.id for n in self.nodes if n.memory_bytes)
