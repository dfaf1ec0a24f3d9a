"""``Preferences``, which annotations express, and the choices that they and the options name."""

from dataclasses import dataclass
from enum import StrEnum

from policies.alignment import TopologyPolicy, TopologyScope
from policies.device_requests import NOTHING_ASKED, DeviceAsk
from sysfs.model import MemoryKind


class ThreadCounts(StrEnum):
    """The figure that the thread counts in a container's environment follow."""

    NONE = "none"  # they are not set
    OWNED = "owned"  # the CPUs that it has alone
    REQUEST = "request"  # its CPU request, rounded up


class Threads(StrEnum):
    """How the thread siblings of a container's CPUs are used."""

    ANY = "any"  # any container may have them
    OWN_CORE = "own-core"  # whole cores are owned, siblings included
    HIDE = "hide"  # as own-core, and one thread of each core is run on


class CpuDistribution(StrEnum):
    """How the CPUs that a container owns lie to each other."""

    PACK = "pack"  # as close together as they can be
    ACROSS_NUMA = "across-numa"  # in even parts, where no NUMA node has all of them
    ACROSS_CORES = "across-cores"  # one thread of each core


class CpuPriority(StrEnum):
    """Which CPUs to prefer where base frequency, energy preference or core kind tell them apart."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    NONE = "none"  # no preference


class BurstLevel(StrEnum):
    """How wide a pool a container gets that may use all the CPU time it finds (nri-plugins' names)."""

    SYSTEM = "system"
    PACKAGE = "package"
    DIE = "die"
    NUMA = "numa"
    L3_CACHE = "l3cache"


class HugePageNodes(StrEnum):
    """Which NUMA nodes a container's huge pages should be on."""

    LOCAL = "local"  # those of its pool, and the nearest others where these have too few
    SPREAD = "spread"  # any that have some


class PoolStrategy(StrEnum):
    """Which of the pools that suit a container equally well it gets."""

    SPREAD = "spread"  # used least
    PACK = "pack"  # with the least left
    BALANCED = "balanced"  # by what is left of CPUs and memory, weighted


@dataclass(frozen=True, slots=True)
class Preferences:
    """Preferences by annotations. None = the annotations leave it open, and the policy's options decide."""

    prefer_isolated: bool | None = None
    require_isolated: bool = False
    prefer_shared: bool | None = None
    levels_up: int = 0  # N of a prefer-shared-cpus: -N
    prefer_reserved: bool | None = None
    preserve_cpu: bool = False
    preserve_memory: bool = False
    threads: Threads | None = None
    strict_threads: bool | None = None  # refuse rather than do without the cores that ``threads`` asks for
    distribution: CpuDistribution | None = None
    single_node: bool | None = None  # refuse rather than use CPUs of several NUMA nodes
    priority: CpuPriority | None = None
    burst_level: BurstLevel | None = None
    pool_choice: PoolStrategy | None = None
    memory_kinds: tuple[MemoryKind, ...] = ()  # sorted; () = every kind but HBM
    strict_memory: bool = False  # refuse rather than use other kinds of memory, or more than there is
    huge_pages: HugePageNodes | None = None  # None = local
    strict_huge_pages: bool = False  # refuse rather than have them outside the pool, or more than there are
    strict_locality: bool = False  # refuse rather than run far from a device
    spread_by_locality: bool | None = None  # owned CPUs near each device; False = anywhere in the pool
    cold_start_seconds: int = 0  # PMEM only for this time, then DRAM too; 0 = no cold start
    resource_files: bool | None = None  # mount /.cri-proxy, whose files list the container's resources
    thread_counts: ThreadCounts | None = None  # variables such as GOMAXPROCS, set when it is created
    notify: tuple[str, ...] = ()  # command run in the container when they change
    devices: DeviceAsk = NOTHING_ASKED
    topology_policy: TopologyPolicy | None = None
    topology_scope: TopologyScope | None = None
