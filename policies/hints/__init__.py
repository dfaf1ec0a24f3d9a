"""Topology hints as the kubelet's Topology Manager has them: what providers offer, and how policies merge it."""

from policies.lazy_import import door

__getattr__ = door(
    __name__,
    """
    compare: ComparedPair, MAX_NODES, Verdict, compared_pairs, hint_lists
    cpu: CpuProvider, Topology, topology_of
    devices: DeviceProvider, DeviceRequest
    memory: AssignedMemory, MemoryAmounts, MemoryProvider, idle_memory
    model: Amount, Hint, HintOrigin, Hints, KUBELET_NODES, MergeOptions, Merged, Nodes, Offers
    node_sets: MAX_LISTED_NODES, TooManyNodesError, by_size, enough, fewest_nodes, hints_of, listed_nodes, sums
    node_sets: unions
    policies: CLOSEST_POLICIES, POLICIES, merge
    """,
)
