"""The options of the topology-aware policy, as values."""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from policies.base import BurstLevel, CpuPriority, Threads
from sysfs.cpuset import CpuSet

# Always reserved (spec section 2): the node's own pods live here.
SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class PolicyOptions:
    """What the operator decided. ``reserved`` outside ``available`` has no effect.

    ``reserved_namespaces`` are shell globs; kube-system is reserved in any case. ``l3_pools``: True, False,
    or None for pools per L3 domain only where a NUMA node has several of two or more cores. ``unlimited_burst``,
    ``threads`` and ``cpu_priority`` are for containers whose annotations do not say.
    """

    available: CpuSet
    reserved: CpuSet
    pin_cpu: bool = True
    pin_memory: bool = True
    prefer_isolated: bool = True
    prefer_shared: bool = False
    reserved_namespaces: tuple[str, ...] = ()
    colocate_pods: bool = False
    colocate_namespaces: bool = False
    l3_pools: bool | None = None
    unlimited_burst: BurstLevel = BurstLevel.PACKAGE
    threads: Threads = Threads.ANY
    cpu_priority: CpuPriority = CpuPriority.NONE

    def is_reserved_namespace(self, namespace: str) -> bool:
        """True when containers of this namespace run on the reserved CPUs unless annotated otherwise."""
        return namespace == SYSTEM_NAMESPACE or any(fnmatchcase(namespace, g) for g in self.reserved_namespaces)
