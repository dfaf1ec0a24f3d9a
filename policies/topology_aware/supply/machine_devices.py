"""``MachineDevices``: the devices that containers may get, by their costs and by their place on this machine. Pure.

Sets of NUMA nodes are sets of those with CPUs, as in topology hints: a device on a node without CPUs belongs to the
nodes nearest to it, and one on a node that the machine does not have is on every set.
"""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import Final

from policies.base import DeviceLocality
from policies.device_grants import DeviceGrant, DeviceKey
from policies.devices import DeviceAllocator, DeviceInventory, JoinedDevices
from policies.devices.costs import DeviceCatalog
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine


class MachineDevices:
    """All devices that the sources of the node list, on its machine; made once for both."""

    def __init__(self, machine: Machine, devices: DeviceInventory, joined: JoinedDevices | None = None) -> None:
        """Bind to both. ``joined`` are these devices, None: they are joined here."""
        self._by_id = {node.id: node for node in machine.nodes}
        self.allocator: Final = DeviceAllocator(devices, joined, self.distance)
        self.catalog: Final = DeviceCatalog(machine, devices.costs)
        self.nodes: Final = tuple(node for node in machine.nodes if node.cpus)
        beside = [(node.id, node.near) for node in machine.nodes if not node.cpus]
        self.masks: Final = tuple(
            1 << node.id | sum(1 << other for other, near in beside if node.id in near) for node in self.nodes
        )
        """For each node the mask of the nodes whose devices are its own."""
        self.joined: Final = self.allocator.joined
        self._every = reduce(or_, self.masks, 0)
        self._addresses = {device.key: device.path.bus for device in devices.devices}

    def distance(self, one: int, other: int) -> int:
        """Return the distance of two NUMA nodes, 255 where the machine lacks one of them."""
        return self._by_id[one].distance_to(other) if one in self._by_id else 255

    def within(self, nodes: int | None) -> int | None:
        """Return the mask of the nodes on which a device has to be for these nodes with CPUs; None: anywhere."""
        if nodes is None:
            return None
        here = (mask for node, mask in zip(self.nodes, self.masks, strict=True) if nodes >> node.id & 1)
        return ~self._every | reduce(or_, here, 0)

    def nodes_at(self, device: DeviceKey) -> int:
        """Return the nodes with CPUs that a device of the inventory is on, as a mask; 0 where that is not known."""
        at = self.allocator.node_of.get(device)
        if at is None:
            return 0
        return sum(1 << node.id for node, mask in zip(self.nodes, self.masks, strict=True) if mask >> at & 1)

    def touched(self, devices: Iterable[DeviceGrant]) -> int:
        """Return the nodes with CPUs that these devices are on: of several that are as near, the lowest."""
        return reduce(or_, (at & -at for at in (self.nodes_at(grant.key) for grant in devices)), 0)

    def nodes_by_cost(self, kind: str) -> dict[str, int | None]:
        """Return the mask of the nodes near each device of a type of cost files; None where no costs tell nodes apart.

        Where those of others do, a device that says nothing counts on every node.
        """
        found = {device: self.catalog.nodes(device) for device in self.catalog.devices.get(kind, ())}
        if not any(found.values()):
            return dict.fromkeys(found)
        every = sum(1 << node.id for node in self.nodes)
        return {device: nodes or every for device, nodes in found.items()}

    def localities(self, devices: Iterable[DeviceGrant]) -> tuple[DeviceLocality, ...]:
        """Return the place of each device of which it is known, once: the CPUs that it costs least, or its node's."""
        found = {grant.source: place for grant in devices if (place := self._locality(grant)) is not None}
        return tuple(found.values())

    def _locality(self, grant: DeviceGrant) -> DeviceLocality | None:
        if grant.cost_name:
            cpus = self.catalog.near(grant.cost_name)
            return DeviceLocality(grant.source, CpuSet(cpus), NodeSet()) if cpus else None
        at = self.nodes_at(grant.key)
        if not at:
            return None
        near = reduce(or_, (node.cpus for node in self.nodes if at >> node.id & 1))
        address = grant.vf or self._addresses.get(grant.key, "")
        return DeviceLocality(grant.source, near, NodeSet(at), devices=(address,) if address else ())
