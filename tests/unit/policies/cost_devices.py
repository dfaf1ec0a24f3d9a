"""Short ways to build inventories of devices, and requests for them, for the tests of policies."""

from collections.abc import Sequence

from policies.device_requests import DeviceAmount, DeviceAsk
from policies.devices import DeviceInventory
from policies.devices.costs import CostLine, CostListing, Inventory, Missing, compile_costs, names_of
from policies.topology_aware import TopologyAware
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.model import Machine
from tests.unit.policies.build import options

GPU, NIC = "example.com/gpu", "example.com/nic"
Costs = Sequence[tuple[str, int, str]]


def inventory(costs: Costs, *present: str, missing: Missing = Missing.ZERO) -> Inventory:
    """Devices of lines (source, cost, target); either may be a range."""
    lines = tuple(CostLine(names_of(source), cost, names_of(target)) for source, cost, target in costs)
    return Inventory(compile_costs(CostListing(lines, tuple(n for name in present for n in names_of(name)))), missing)


def amounts(**counts: int) -> tuple[DeviceAmount, ...]:
    """How many devices of the type ``example.com/KEY``."""
    return tuple(DeviceAmount(f"example.com/{kind}", counts[kind]) for kind in sorted(counts))


def asked(**counts: int) -> DeviceAsk:
    """The same as a container asks for it."""
    return DeviceAsk(amounts(**counts))


def on_nodes(machine: Machine, kind: str, nodes: Sequence[int], far: int = 50) -> Costs:
    """A device of this type for each of these nodes, named by its place in the list: 0 to its node's CPUs."""
    ranges = {node.id: str(node.cpus).split(",") for node in machine.nodes}
    return [
        (f"{kind}/{i}", 0 if node == home else far, f"cpu/cpu{cpus}")
        for i, home in enumerate(nodes)
        for node, parts in ranges.items()
        for cpus in parts
    ]


def on_node(machine: Machine, found: Inventory) -> MachineDevices:
    """The devices of a node without an inventory."""
    return MachineDevices(machine, DeviceInventory((), costs=found))


def with_devices(machine: Machine, found: Inventory, reserved: str = "", **keys: object) -> TopologyAware:
    return TopologyAware(machine, options(machine, reserved, **keys), DeviceInventory((), costs=found))
