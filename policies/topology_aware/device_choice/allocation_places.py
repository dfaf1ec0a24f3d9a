"""``DevicePlaces``: on which of the machine's NUMA nodes with CPUs each device of the inventory is. Pure.

Sets of nodes are sets of those with CPUs, as in topology hints: a device on a node without CPUs belongs to the nodes
nearest to it, and one on a node that the machine does not have is on every set.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from policies.base import DeviceLocality
from policies.device_grants import DeviceGrant, DeviceKey, sources_of
from policies.devices.allocate import DeviceAllocator
from sysfs.cpuset import NodeSet
from sysfs.model import Machine, NumaNode


@dataclass(frozen=True, slots=True)
class DevicePlaces:
    """The nodes with CPUs, by id; for each the mask of the nodes whose devices are its own; the node of each device.

    ``address_of`` is the PCI address of each device whose address is known.
    """

    nodes: tuple[NumaNode, ...]
    masks: tuple[int, ...]
    node_of: Mapping[DeviceKey, int | None]
    address_of: Mapping[DeviceKey, str]

    def within(self, nodes: int | None) -> int | None:
        """Return the mask of the nodes on which a device has to be for these nodes with CPUs; None: anywhere."""
        if nodes is None:
            return None
        here = (mask for node, mask in zip(self.nodes, self.masks, strict=True) if nodes >> node.id & 1)
        return ~reduce(or_, self.masks, 0) | reduce(or_, here, 0)

    def nodes_at(self, device: DeviceKey) -> int:
        """Return the nodes with CPUs that a device is on, as a mask; 0 where that is not known."""
        at = self.node_of.get(device)
        if at is None:
            return 0
        return sum(1 << node.id for node, mask in zip(self.nodes, self.masks, strict=True) if mask >> at & 1)

    def touched(self, devices: Iterable[DeviceGrant]) -> int:
        """Return the nodes with CPUs that these devices are on: of several that are as near, the lowest."""
        return reduce(or_, (at & -at for at in (self.nodes_at(grant.key) for grant in devices)), 0)

    def localities(self, devices: Sequence[DeviceGrant]) -> tuple[DeviceLocality, ...]:
        """Return the place of each device of which it is known, once."""
        found = {}
        for source, grant in zip(sources_of(devices), devices, strict=True):
            at = self.nodes_at(grant.key)
            if at:
                cpus = reduce(or_, (node.cpus for node in self.nodes if at >> node.id & 1))
                address = grant.vf or self.address_of.get(grant.key, "")
                found[source] = DeviceLocality(source, cpus, NodeSet(at), devices=(address,) if address else ())
        return tuple(found.values())


def places_on(machine: Machine, allocator: DeviceAllocator) -> DevicePlaces:
    """Return where the devices of an inventory are on a machine."""
    nodes = tuple(node for node in machine.nodes if node.cpus)
    beside = [(node.id, node.near) for node in machine.nodes if not node.cpus]
    masks = tuple(1 << node.id | sum(1 << other for other, near in beside if node.id in near) for node in nodes)
    addresses = {device.key: device.path.bus for device in allocator.inventory.devices if device.path.bus}
    return DevicePlaces(nodes, masks, allocator.node_of, addresses)
