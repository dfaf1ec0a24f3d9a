"""Frozen values of the topology manager: its options, a pod's sums, the NUMA nodes that a container is kept within."""

from dataclasses import dataclass
from enum import StrEnum

from policies.device_requests import DeviceAsk
from sysfs.cpuset import NodeSet


class TopologyPolicy(StrEnum):
    """The treatment of the merged topology hints, as the kubelet's Topology Manager names it."""

    NONE = "none"  # nothing is merged
    BEST_EFFORT = "best-effort"  # the best that there is
    RESTRICTED = "restricted"  # refused unless every resource prefers it
    SINGLE_NUMA_NODE = "single-numa-node"  # refused unless one node has everything


class TopologyScope(StrEnum):
    """The unit that topology hints are merged for."""

    CONTAINER = "container"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class TopologyOptions:
    """The operator's choices for containers that say nothing.

    ``prefers_closest``: of sets of as many nodes, the one with the smallest distances. ``most_nodes``: hints are merged
    on machines of up to so many NUMA nodes; 0 = on all. ``prefers_chosen_sets``: hints for devices of cost files are
    preferred where they are the nodes of the cheapest set, not where these are few.
    """

    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    prefers_closest: bool = False
    most_nodes: int = 0
    prefers_chosen_sets: bool = False


@dataclass(frozen=True, slots=True)
class PodSums:
    """The requests of a pod's containers together, by its sandbox; 0, and no devices = not known."""

    cpu_mcpu: int = 0
    memory_bytes: int = 0
    devices: tuple[DeviceAsk, ...] = ()  # of those that annotations name: whole ones together, amounts each for itself


@dataclass(frozen=True, slots=True)
class Alignment:
    """The NUMA nodes that a container is kept within: what the merge of its hints, or of its pod's, has decided.

    ``mems`` are their memory, with nodes without CPUs that are nearest to them. ``is_strict``: the container is refused
    rather than placed beyond them.
    """

    nodes: NodeSet
    mems: NodeSet
    scope: TopologyScope = TopologyScope.CONTAINER
    is_strict: bool = False
