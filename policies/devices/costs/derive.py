"""Derive costs from a machine: between its CPUs, memory nodes and PCI devices, and from a plugin's devices to these."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from policies.devices.costs.derive_pci import SAME_DEVICE, device_cost, pci_devices, places
from policies.devices.costs.derive_scale import LISTED_NODE, SAME_CORE, SAME_L2, SAME_L3, SAME_NODE, NodeScale
from policies.devices.costs.model import MEMORY_TYPE, PCI_TYPE, CostError, CostLine, CostListing, cpu_names
from sysfs.cpuset import NodeSet, gathered, grouped
from sysfs.model import Machine, NumaNode

# What two CPUs cost each other that share a node, and in it a last-level cache, in that an L2, in that a core.
_SHARED_LEVELS = (SAME_NODE, SAME_L3, SAME_L2, SAME_CORE)


@dataclass(frozen=True, slots=True)
class DeviceCosts:
    """The costs of reaching a device: CPUs and memory nodes by number, other PCI devices by address; all 0 to 100."""

    cpus: Mapping[int, int]
    memory_nodes: Mapping[int, int]
    devices: Mapping[str, int]


class MachineCosts:
    """Derives costs from one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.scale = NodeScale(machine)
        self._places = places(pci_devices(machine), machine, self.scale)

    def listing(self) -> CostListing:
        """Return the costs of all CPUs, memory nodes and PCI devices but bridges to each other, said both ways."""
        lines = list(_cpu_lines(self._machine))
        for node in self._machine.nodes:
            home = _only(node.id)
            targets = [*self._to_nodes(home), *self._to_devices(home)]
            lines += _lines(cpu_names(node.cpus), targets)
            lines += _lines(_memory_names(node), targets)
        for place, addresses in self._places.items():
            targets = list(self._to_nodes(place.nodes))
            for other, found in self._places.items():
                targets += _each(_pci_names(found), device_cost(place, other, self.scale))
            names = _pci_names(addresses)
            lines += _lines(names, targets)
            if len(names) > 1:
                lines.append(CostLine(names, SAME_DEVICE, names))
        lines.sort(key=lambda line: line.cost)
        return CostListing(tuple(lines), tuple(self._present()))

    def of_device(self, address: str) -> DeviceCosts:
        """Return what a PCI device costs to reach the rest of the machine. Raises CostError for an unknown address."""
        device = next((known for known in self._machine.devices if known.address == address), None)
        if device is None:
            raise CostError(0, address, "the machine has no such PCI device; expected an address like 0000:3b:00.0")
        (place,) = places([device], self._machine, self.scale)
        to_node = {node.id: self.scale.nearest(place.nodes, _only(node.id)) for node in self._machine.nodes}
        cpus = {cpu: to_node[node.id] for node in self._machine.nodes for cpu in node.cpus}
        others = ((there, found) for there, addresses in self._places.items() for found in addresses)
        devices = {found: device_cost(place, there, self.scale) for there, found in others if found != address}
        return DeviceCosts(cpus, {node: to_node[node] for node in self._machine.memory_nodes}, devices)

    def of_devices(self, address_of: Mapping[str, str]) -> CostListing:
        """Return what PCI devices, by name, cost to reach the rest of the machine, one way. Raises CostError.

        They know each other by these names. It is what a device plugin says of its devices.
        """
        name_of = {address: name for name, address in address_of.items()}
        lines: list[CostLine] = []
        for name, address in address_of.items():
            costs = self.of_device(address)
            targets = list(zip(cpu_names(costs.cpus), costs.cpus.values(), strict=True))
            targets += ((f"{MEMORY_TYPE}/node{node}", cost) for node, cost in costs.memory_nodes.items())
            targets += ((name_of.get(at, f"{PCI_TYPE}/{at}"), cost) for at, cost in costs.devices.items())
            lines += _lines((name,), targets)
        return CostListing(tuple(lines), tuple(address_of))

    def of_listed_nodes(self, nodes: Mapping[str, NodeSet]) -> CostListing:
        """Return what devices cost of which a plugin only lists the NUMA nodes, one way. Raises CostError.

        A device without nodes says nothing. Source: TopologyInfo of the device plugin API.
        """
        for name, listed in nodes.items():
            if unknown := listed - self.scale.nodes:
                raise CostError(
                    0, name, f"the machine has no NUMA node {unknown}, only {self.scale.nodes}; is it its own?"
                )
        lines: list[CostLine] = []
        for listed, names in gathered((listed, name) for name, listed in nodes.items()).items():
            lines += _lines(tuple(names), self._to_nodes(listed, LISTED_NODE) if listed else ())
        return CostListing(tuple(lines), tuple(nodes))

    def _to_nodes(self, home: NodeSet, own: int | None = None) -> Iterator[tuple[str, int]]:
        """Yield the costs from these nodes to the CPUs and the memory of each; ``own`` is that to a node of them."""
        for node in self._machine.nodes:
            cost = self.scale.nearest(home, _only(node.id)) if own is None or node.id not in home else own
            yield from _each((*cpu_names(node.cpus), *_memory_names(node)), cost)

    def _to_devices(self, home: NodeSet) -> Iterator[tuple[str, int]]:
        for place, addresses in self._places.items():
            cost = self.scale.nearest(place.nodes, home)
            yield from _each(_pci_names(addresses), cost)

    def _present(self) -> Iterator[str]:
        yield from cpu_names(self._machine.online)
        for node in self._machine.nodes:
            yield from _memory_names(node)
        for addresses in self._places.values():
            yield from _pci_names(addresses)


def _cpu_lines(machine: Machine) -> Iterator[CostLine]:
    """Yield the costs between CPUs of one node. A cache that spans nodes counts inside each of them."""
    path_of = _paths(machine)
    for level, cost in enumerate(_SHARED_LEVELS, start=1):
        wholes = grouped((path[:level], cpu) for cpu, path in path_of.items())
        for key, part in grouped((path[: level + 1], cpu) for cpu, path in path_of.items()).items():
            others = part if cost == SAME_CORE else wholes[key[:level]] - part
            if others and len(part | others) > 1:
                yield CostLine(cpu_names(part), cost, cpu_names(others))


def _paths(machine: Machine) -> Mapping[int, tuple[Hashable, ...]]:
    """Return the node, last-level cache, L2 and core of each CPU by number."""
    l2, l3 = ({cpu: c.index for c in machine.caches if c.level == level for cpu in c.cpus} for level in (2, 3))
    found: dict[int, tuple[Hashable, ...]] = {}
    for cpu in machine.cpus:
        # A CPU without a cache of a level shares that level with those alone with which it shares the next.
        own_l2: Hashable = l2.get(cpu.id, ("core", cpu.core))
        found[cpu.id] = (cpu.node, l3.get(cpu.id, ("L2", own_l2)), own_l2, cpu.core)
    return found


def _lines(sources: tuple[str, ...], targets: Iterable[tuple[str, int]]) -> Iterator[CostLine]:
    """Yield a line for each cost, ascending; what sources cost each other stands elsewhere."""
    own = frozenset(sources)
    by_cost = gathered((cost, name) for name, cost in targets if name not in own)
    if sources:
        yield from (CostLine(sources, cost, tuple(by_cost[cost])) for cost in sorted(by_cost))


def _only(node: int) -> NodeSet:
    return NodeSet(1 << node)


def _each(names: Iterable[str], cost: int) -> Iterator[tuple[str, int]]:
    return ((name, cost) for name in names)


def _memory_names(node: NumaNode) -> tuple[str, ...]:
    """Return the name of a node's memory; none where it has none."""
    return (f"{MEMORY_TYPE}/node{node.id}",) if node.memory_bytes else ()


def _pci_names(addresses: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{PCI_TYPE}/{address}" for address in addresses)
