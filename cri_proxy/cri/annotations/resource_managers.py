"""Keys of other resource managers: known, so that they are no problems, and without effect here but for two."""

from typing import Final

RESOURCE_STATUS: Final = "scheduling.koordinator.sh/resource-status"
"""The CPUs that Koordinator's scheduler has chosen for a pod (``cri.claim``)."""

DEVICE_ALLOCATED: Final = "scheduling.koordinator.sh/device-allocated"
"""The devices that it has chosen (``cri.device_claim``)."""

# Keys that nri-plugins and cri-resource-manager act on and that change nothing here: CRI has no field for scheduling
# classes, frequencies and interrupts, and the runtime handles classes of cache and block I/O. A pod may be written for
# several resource managers, so they are no problems.
OF_PEERS = frozenset(
    {
        *("balloon.balloons", "blockioclass", "cpu-class", "irq-affinity", "pool.podpools", "rdtclass"),
        *("scheduling-class", "toptierlimit"),
    }
)

FIELDS_OF_PEERS: Final = frozenset({"claim", "mask", "order"})
"""The keys of a value of irq-affinity: such a map is no map by container name."""

# The same of annotations with full keys of their own: CRI-O's for containers with exclusive CPUs, on which CRI-O alone
# acts, cpuset and devices that koordinator's scheduler chose, where these do not count, and what schedulers read of
# CPUs and NUMA nodes that they choose among.
OF_OTHERS = frozenset(
    {
        *("cpu-c-states.crio.io", "cpu-freq-governor.crio.io", "cpu-load-balancing.crio.io", "cpu-quota.crio.io"),
        *("irq-load-balancing.crio.io", RESOURCE_STATUS, "scheduling.koordinator.sh/numa-topology-spec"),
        DEVICE_ALLOCATED,
        *("scheduling.koordinator.sh/resource-spec", "volcano.sh/numa-topology-policy"),
    }
)
CPU_SHARED = "cpu-shared.crio.io/"  # CRI-O's too; the name of a container follows
