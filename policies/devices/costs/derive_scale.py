"""The costs between places of a machine: the scale of derived costs, from 0 (a shared core) to 100.

Two CPUs, a CPU and memory, or a device and either cost the more, the higher the level is that they share. Between NUMA
nodes the cost grows with the distance that the firmware reports (SLIT of the ACPI specification; 10 is a node's own).
"""

from functools import lru_cache

from sysfs.cpuset import NodeSet
from sysfs.model import Machine

SAME_CORE = 0
SAME_L2 = 5
SAME_L3 = 10
SAME_NODE = 15
FARTHEST = 100
# A device on a node that the device plugin itself lists is as near as can be said.
LISTED_NODE = 0

_LOCAL_DISTANCE = 10
# The firmware's word for "cannot be reached", and what the model says where it does not know.
_NO_DISTANCE = 255


class NodeScale:
    """The costs between the NUMA nodes of a machine."""

    def __init__(self, machine: Machine) -> None:
        self._distances = {node.id: dict(node.distances) for node in machine.nodes}
        # One node that cannot be reached would stretch the scale until all others seem near.
        known = (d for row in self._distances.values() for d in row.values() if d < _NO_DISTANCE)
        self._largest = max(known, default=_LOCAL_DISTANCE)
        self.nodes = NodeSet.of(self._distances)

    def between(self, node: int, other: int) -> int:
        """Return the cost between two nodes; an unknown one (-1) is farthest from all."""
        row = self._distances.get(node)
        if row is None:
            return FARTHEST
        if node == other:
            return SAME_NODE
        return _between_nodes(row.get(other, _NO_DISTANCE), self._largest)

    def nearest(self, nodes: NodeSet, others: NodeSet) -> int:
        """Return the cost between the nearest of these nodes; FARTHEST where none is known on a side."""
        return min((self.between(node, other) for node in nodes for other in others), default=FARTHEST)

    def home(self, nodes: NodeSet) -> NodeSet:
        """Return these nodes; the only node of a machine where none is known."""
        return self.nodes if not nodes and len(self.nodes) == 1 else nodes


@lru_cache(maxsize=256)
def _between_nodes(distance: int, largest: int) -> int:
    """Return the cost of a distance, rounded up: another node is never as near as the own one.

    >>> [_between_nodes(distance, 32) for distance in (10, 12, 21, 32)]
    [15, 23, 58, 100]
    """
    if distance <= _LOCAL_DISTANCE:
        return SAME_NODE
    if distance >= largest:
        return FARTHEST
    share = (FARTHEST - SAME_NODE) * (distance - _LOCAL_DISTANCE)
    return SAME_NODE + -(-share // (largest - _LOCAL_DISTANCE))
