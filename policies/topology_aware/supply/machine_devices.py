"""``MachineDevices``: the devices that containers may get, by costs and place; accelerators, and who holds them. Pure.

Sets of NUMA nodes are sets of those with CPUs, as in topology hints: a device on a node without CPUs belongs to the
nodes nearest to it, and one on a node that the machine does not have is on every set.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final

from policies.base import DeviceLocality, Grant
from policies.device_grants import DeviceGrant, DeviceKey
from policies.devices import (
    GPU,
    DeviceAllocator,
    DeviceInventory,
    InventoryDevice,
    JoinedDevices,
    RegisteredDevice,
    address_in,
    identities_held,
    identities_of,
    is_accelerator,
    vendor_of,
)
from policies.devices.costs import DeviceCatalog
from policies.hardware.siblings import Shifts, siblings_of
from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Machine

_KINDS: Final = (GPU, "fpga")


@dataclass(frozen=True, slots=True)
class Accelerator:
    """A device that computes. ``cpus`` is the mask of the CPUs of its NUMA node, ``identities`` all it is known by."""

    cpus: int
    identities: frozenset[str]


_Placed = tuple[int | None, frozenset[str]]  # a NUMA node, and the identities of an accelerator there

Holders = Mapping[str, int]
"""How many containers hold a device of this identity; 0 = not there."""


class MachineDevices:
    """All devices that the sources of the node list, on its machine; made once for both."""

    def __init__(self, machine: Machine, devices: DeviceInventory, joined: JoinedDevices | None = None) -> None:
        """Bind to both. ``joined`` are these devices, None: they are joined here."""
        self._by_id = {node.id: node for node in machine.nodes}
        self.allocator: Final = DeviceAllocator(devices, joined, self.distance)
        self.catalog: Final = DeviceCatalog(machine, devices.costs)
        self.nodes: Final = tuple(node for node in machine.nodes if node.cpus)
        # A device on a node without CPUs is reached from the CPUs nearest to it: it is theirs, as memory there is.
        beside = [(node.id, node.near) for node in machine.nodes if not node.cpus]
        self.masks: Final = tuple(
            1 << node.id | sum(1 << other for other, near in beside if node.id in near) for node in self.nodes
        )
        """For each node the mask of the nodes whose devices are its own."""
        self.joined: Final = self.allocator.joined
        self.accelerators: Final = accelerators_of(machine, devices.devices, devices.registered)
        self._every = reduce(or_, self.masks, 0)
        self._addresses = {device.key: device.path.bus for device in devices.devices}
        self._nowhere = frozenset(name for device in devices.devices for name in _names_nowhere(device))

    def distance(self, one: int, other: int) -> int:
        """Return the distance of two NUMA nodes, 255 where the machine lacks one of them."""
        return self._by_id[one].distance_to(other) if one in self._by_id else 255

    def within(self, nodes: int | None) -> int | None:
        """Return the mask of the nodes on which a device has to be for these nodes with CPUs; None: anywhere."""
        if nodes is None:
            return None
        here = (mask for node, mask in zip(self.nodes, self.masks, strict=True) if nodes >> node.id & 1)
        # A device on a node that the machine does not have is near none and far from none: it counts everywhere.
        return ~self._every | reduce(or_, here, 0)

    def nodes_at(self, device: DeviceKey) -> int:
        """Return the nodes with CPUs that a device of the inventory is on, as a mask; 0 where that is not known."""
        at = self.allocator.node_of.get(device)
        if at is None:
            return 0
        return sum(1 << node.id for node, mask in zip(self.nodes, self.masks, strict=True) if mask >> at & 1)

    def nodes_of(self, device: DeviceGrant) -> int:
        """Return the nodes with CPUs that a device of any source is near, as a mask; 0 where that is not known."""
        if isinstance(device.minor, int):
            return self.nodes_at(device.key)
        return self.nodes_by_cost(device.kind).get(device.cost_name) or 0

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

    def somewhere(self, places: tuple[DeviceLocality, ...]) -> tuple[DeviceLocality, ...]:
        """Return the places without those of devices that a source of the inventory states to be at no node."""
        if not self._nowhere:
            return places
        return tuple(place for place in places if not place.devices or not self._nowhere.issuperset(place.devices))

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


def _names_nowhere(device: InventoryDevice) -> Iterator[str]:
    """Yield the names that places have of a device without a node: its source, its PCI address, those of its VFs."""
    if device.is_nowhere:
        yield f"{device.kind}/{device.minor}"
        yield from filter(None, (device.path.bus, *(vf.bus for group in device.vf_groups for vf in group.vfs)))


def accelerators_of(
    machine: Machine, devices: Iterable[InventoryDevice], registered: Iterable[RegisteredDevice] = ()
) -> tuple[Accelerator, ...]:
    """Return those of the inventory that are healthy, others by their PCI class, and those that plugins alone know.

    Only where their node has CPUs.
    """
    devices = tuple(devices)
    # What the inventory lists is judged by that, its health included, not a second time by its PCI class.
    listed = {address_in(device.path.bus) for device in devices}
    kinds = [(d.numa, frozenset(identities_of(d))) for d in devices if d.kind in _KINDS and d.is_healthy]
    by_class = [device for device in machine.devices if is_accelerator(device) and device.address not in listed]
    known = [*kinds, *((device.node, frozenset((device.address,))) for device in by_class)]
    alone = _of_plugins_alone(machine, devices, known, registered)
    found = [Accelerator(_cpus_at(machine, node), identities) for node, identities in (*known, *alone)]
    return tuple(each for each in found if each.cpus)


def _of_plugins_alone(
    machine: Machine,
    devices: Iterable[InventoryDevice],
    known: Iterable[_Placed],
    registered: Iterable[RegisteredDevice],
) -> Iterator[_Placed]:
    """Yield the devices that neither the inventory nor PCI has.

    A plugin may name a GPU in a way of its own. On a NUMA node that has one of the same vendor, or of none that is
    known, it is taken for that.
    """
    identities = {identity for device in devices for identity in identities_of(device)}
    vendors = {device.address: vendor_of(device) for device in machine.devices}
    there = defaultdict[int | None, set[str]](set)
    for node, its in known:
        identities |= its
        there[node].add(next((vendors[identity] for identity in its if identity in vendors), ""))
    for device in registered:
        here = there[device.numa]
        may_be_one = here and (not device.vendor or not here.isdisjoint(("", device.vendor)))
        if device.identity not in identities and not may_be_one:
            yield device.numa, frozenset(filter(None, (device.identity, *device.names)))


def _cpus_at(machine: Machine, home: int | None) -> int:
    """Return the CPUs of a NUMA node, or of those nearest to one without CPUs; 0 where the firmware does not tell."""
    for node in machine.nodes:
        if node.id == home:
            near = (other.cpus.mask for other in machine.nodes if other.id in node.near)
            return node.cpus.mask or reduce(or_, near, 0)
    return 0


def holders_with(holders: Holders, grants: Iterable[Grant], sign: int) -> Holders:
    """Return the holders with these grants more (1) or fewer (-1)."""
    grants = [grant for grant in grants if grant.devices or grant.request.localities]
    return _counted(holders, (identity for grant in grants for identity in _identities(grant)), sign)


def holders_of(devices: Iterable[DeviceGrant]) -> Holders:
    """Return the holders of these devices."""
    return _counted({}, (identity for device in devices for identity in identities_held(device)), 1)


def _counted(holders: Holders, identities: Iterable[str], sign: int) -> Holders:
    result = dict(holders)
    for identity in identities:
        result[identity] = result.get(identity, 0) + sign
        if not result[identity]:
            del result[identity]
    return result


def _identities(grant: Grant) -> frozenset[str]:
    """Return what names the devices that a container holds: given here, or found in what the kubelet gave it."""
    found = {identity for device in grant.devices for identity in identities_held(device)}
    return frozenset(found | {address for place in grant.request.localities for address in place.devices})


def free_accelerators(accelerators: Iterable[Accelerator], holders: Holders) -> tuple[Accelerator, ...]:
    """Return those that no container is known to hold, nor a part of them."""
    return tuple(each for each in accelerators if not any(identity in holders for identity in each.identities))


def kept_beside(free: Iterable[Accelerator], each: int, ownable: int, shifts: Shifts) -> int:
    """Return the CPUs to keep of those that can be owned: so many beside each free accelerator, or what is left there.

    The highest ones are kept, with the siblings of their threads as long as they count.
    """
    kept = 0
    for accelerator in free:
        left = accelerator.cpus & ownable & ~kept
        for _ in range(each):
            if not left:
                break
            beside = siblings_of(shifts, kept) & left
            found = 1 << (beside or left).bit_length() - 1
            kept |= found
            left ^= found
    return kept
