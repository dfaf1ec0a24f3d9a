"""The options of the topology-aware policy."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from policies.base import BurstLevel, CpuPriority, Threads
from policies.options import PolicyOptions

# Reserved in any case (docs/placement.md, What a container asks for): the node's own pods live here.
SYSTEM_NAMESPACE = "kube-system"


@dataclass(frozen=True, slots=True)
class TopologyAwareOptions(PolicyOptions):
    """What the operator decided. Annotations override most of it."""

    pin_cpu: bool = True
    pin_memory: bool = True
    prefer_isolated: bool = True
    prefer_shared: bool = False
    reserved_namespaces: tuple[str, ...] = ()
    colocate_pods: bool = False
    colocate_namespaces: bool = False
    l3_pools: Literal["auto", "true", "false"] = "auto"
    unlimited_burst: BurstLevel = BurstLevel.PACKAGE
    threads: Threads = Threads.ANY
    cpu_priority: CpuPriority = CpuPriority.NONE

    def is_reserved_namespace(self, namespace: str) -> bool:
        """Return whether containers of this namespace run on the reserved CPUs unless annotated otherwise."""
        return namespace == SYSTEM_NAMESPACE or any(fnmatchcase(namespace, glob) for glob in self.reserved_namespaces)
