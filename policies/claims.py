"""``CpuClaim``: CPUs that another allocator has chosen for a container. A frozen value."""

from dataclasses import dataclass

from sysfs.cpuset import CpuSet, NodeSet


@dataclass(frozen=True, slots=True)
class CpuClaim:
    """CPUs that another allocator has chosen for a container, which gets no others (docs/placement.md, Choosing CPUs).

    ``source`` names the origin: the variables of its CDI devices, or an annotation of its pod. Containers of one pod
    with the same claim own its CPUs together. ``mems`` are the memory nodes that were chosen with them; empty = those
    of the CPUs. ``by_pod``: the author of the pod may have written it, so that it takes no more than the pod requests.
    """

    cpus: CpuSet
    source: str
    mems: NodeSet = NodeSet()
    by_pod: bool = False
