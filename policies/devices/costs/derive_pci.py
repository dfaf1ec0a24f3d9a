"""The costs between PCI devices of a machine, by the bridges between them and their NUMA nodes."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from policies.devices.costs.derive_scale import NodeScale
from sysfs.cpuset import NodeSet, gathered
from sysfs.model import Device, Machine

SAME_DEVICE = 0
ONE_SWITCH = 5
SEVERAL_SWITCHES = 10
SAME_HOST_BRIDGE = 20
SAME_NODE_DEVICE = 25

_BRIDGE = 6  # the base class of bridges in the class codes of PCI
_HOST_BRIDGE = "pci"


@dataclass(frozen=True, slots=True)
class PciPlace:
    """Where a device is: its slot, the bridges above it from the host bridge down, its NUMA nodes (none = unknown)."""

    slot: str
    bridges: tuple[str, ...]
    nodes: NodeSet


def pci_devices(machine: Machine) -> tuple[Device, ...]:
    """Return the devices of a machine without the bridges."""
    return tuple(device for device in machine.devices if device.class_code >> 16 != _BRIDGE)


def places(devices: Iterable[Device], machine: Machine, scale: NodeScale) -> dict[PciPlace, list[str]]:
    """Return the addresses by their place: the functions of one device, virtual ones too, are mostly at the same."""
    return gathered((_place(device, machine, scale), device.address) for device in devices)


def _place(device: Device, machine: Machine, scale: NodeScale) -> PciPlace:
    # A virtual function has an address of its own, on the physical function's board.
    slot = (device.physical_function or device.address).rpartition(".")[0]
    return PciPlace(slot, device.bridges, scale.home(_nodes(device, machine)))


def _nodes(device: Device, machine: Machine) -> NodeSet:
    """Return the device's node; where the firmware names none, the nodes of its local CPUs, unless all are local."""
    if device.node >= 0:
        return NodeSet.of((device.node,))
    # The kernel calls all CPUs local to a device of which it knows no node.
    if machine.online <= device.local_cpus:
        return NodeSet()
    return NodeSet.of(node.id for node in machine.nodes if node.cpus & device.local_cpus)


def device_cost(one: PciPlace, other: PciPlace, scale: NodeScale) -> int:
    """Return the cost between devices at these places: 0 at the same one."""
    if one.slot == other.slot:
        return SAME_DEVICE
    shared = list(_shared(one.bridges, other.bridges))
    if shared and not shared[-1].startswith(_HOST_BRIDGE):
        # Both ports of the path through one switch are of that switch: the shared upstream port, and one below it each.
        is_one = all(len(place.bridges) - len(shared) <= 1 for place in (one, other))
        return ONE_SWITCH if is_one else SEVERAL_SWITCHES
    if shared:
        return SAME_HOST_BRIDGE
    return devices_of_nodes(one.nodes, other.nodes, scale)


def devices_of_nodes(one: NodeSet, other: NodeSet, scale: NodeScale) -> int:
    """Return the cost between devices of which only the nodes are known; never as low between nodes as on one."""
    if one & other:
        return SAME_NODE_DEVICE
    return max(SAME_NODE_DEVICE + 1, scale.nearest(one, other))


def _shared(one: Sequence[str], other: Sequence[str]) -> Iterator[str]:
    """Yield the bridges above both, from the host bridge down."""
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            return
        yield mine
