"""The costs of an inventory's devices on one machine: to parts of its CPUs, and to each other."""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Final

from policies.devices.costs.derive_scale import SAME_L3, SAME_NODE, NodeScale
from policies.devices.costs.graph import Missing, both_ways
from policies.devices.costs.inventory import Inventory
from policies.devices.costs.model import CPU_TYPE, SYSTEM_TYPES, cpu_names
from policies.devices.costs.table import CostTable, Group
from sysfs.cpuset import CpuSet, grouped
from sysfs.model import Cpu, Machine

MOST_PARTS: Final = 64
"""Parts that the CPUs of a machine are joined to: a choice compares each with each device."""


class DeviceCatalog:
    """The devices, the parts of the CPUs, and the costs between them; made once for an inventory and a machine.

    A *part* is a set of CPUs which no device tells apart: those of one L3 domain, of one NUMA node where there would be
    too many parts, or of several nodes. Costs of pairs are both directions together, in 1/``scale``; those between
    CPUs are the kernel's (docs/costs.md), those of devices the inventory's.
    """

    def __init__(self, machine: Machine, inventory: Inventory) -> None:
        """Bind to both; the costs are worked out when they are first asked for."""
        self._machine = machine
        self._table: CostTable = inventory.table
        self._missing = inventory.missing
        self._scale = NodeScale(machine)
        self._node_of = {cpu.id: cpu.node for cpu in machine.cpus}
        self._rows: dict[int, list[int]] = {}
        self.devices: Final[Mapping[str, tuple[str, ...]]] = inventory.devices
        """The devices of each type, in the order of their names."""
        self.scale: Final = inventory.table.scale
        self._indexes = [i for i, group in enumerate(self._table.groups) if group.kind not in SYSTEM_TYPES]
        self.groups: Final[tuple[Group, ...]] = tuple(self._table.groups[i] for i in self._indexes)
        """Devices that no cost tells apart, by type and then name."""
        self.silent: Final = frozenset(chain.from_iterable(inventory.silent.values()))
        """The devices without any known cost, of types of which another one has some."""

    @cached_property
    def _profiles(self) -> Mapping[int, tuple[int, ...]]:
        """The cost of each CPU for each group of devices."""
        known: dict[str, tuple[int, ...]] = {}
        for i, group in enumerate(self._table.groups):
            if group.kind == CPU_TYPE:
                costs = tuple(self._pair(i, d) for d in self._indexes)
                known |= dict.fromkeys(group.members, costs)
        nothing = (0,) * len(self._indexes)
        return {cpu.id: known.get(f"{CPU_TYPE}/cpu{cpu.id}", nothing) for cpu in self._machine.cpus}

    @cached_property
    def _members(self) -> tuple[CpuSet, ...]:
        """The CPUs of each part, in the order of their lowest."""
        l3 = {cpu: cache.index for cache in self._machine.caches if cache.level == 3 for cpu in cache.cpus}
        nodes = {node: i for i, node in enumerate(dict.fromkeys(self._node_of.values()))}
        # From the finest on: the first that makes few enough parts is taken.
        ways: tuple[Callable[[Cpu], Hashable], ...] = (
            lambda cpu: (cpu.node, l3.get(cpu.id, -1), self._profiles[cpu.id]),
            lambda cpu: (cpu.node, self._profiles[cpu.id]),
            lambda cpu: nodes[cpu.node] * MOST_PARTS // max(MOST_PARTS, len(nodes)),
        )
        found = (grouped((way(cpu), cpu.id) for cpu in self._machine.cpus) for way in ways)
        return tuple(next(parts for parts in found if len(parts) <= MOST_PARTS).values())

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """The masks of the parts of the CPUs, each in one NUMA node if there are no more nodes than ``MOST_PARTS``."""
        return tuple(part.mask for part in self._members)

    @cached_property
    def cpu_groups(self) -> tuple[Group, ...]:
        """The CPUs of the parts as instances of the type ``cpu``."""
        return tuple(Group(CPU_TYPE, cpu_names(part)) for part in self._members)

    def row(self, index: int) -> Sequence[int]:
        """Return the costs of a pair with this part or group to every part, then to every group of devices.

        Parts come first: group ``g`` has the index ``len(parts) + g``. The own entry is the cost between two members.
        """
        known = self._rows.get(index)
        if known is None:
            known = self._rows[index] = self._row(index)
        return known

    def _row(self, index: int) -> list[int]:
        count = len(self.parts)
        if index < count:
            to_cpus = [self.scale * self._between_parts(index, other) for other in range(count)]
            return [*to_cpus, *self._to_devices[index]]
        device = self._indexes[index - count]
        return [row[index - count] for row in self._to_devices] + [self._pair(device, d) for d in self._indexes]

    @cached_property
    def _to_devices(self) -> tuple[tuple[int, ...], ...]:
        """The cost of the CPUs of each part for each group of devices, on average, rounded down."""
        return tuple(_mean([self._profiles[cpu] for cpu in part]) for part in self._members)

    def _between_parts(self, one: int, other: int) -> int:
        """Return the cost of a pair of CPUs of these parts by the kernel's topology, both directions together."""
        mine, others = ({self._node_of[cpu] for cpu in self._members[part]} for part in (one, other))
        if one == other and len(mine) == 1:
            caches = (cache.cpus for cache in self._machine.caches if cache.level == 3)
            return 2 * (SAME_L3 if any(self._members[one] <= cpus for cpus in caches) else SAME_NODE)
        return 2 * min(self._scale.between(a, b) for a in mine for b in others)

    def _pair(self, one: int, other: int) -> int:
        """Return the cost of a pair of members of these groups of the table; an unknown one is as the option says."""
        unknown = None if self._missing is Missing.MIRROR else 0
        costs = self._table.costs
        return both_ways(costs[one].get(other, unknown), costs[other].get(one, unknown))

    @cached_property
    def _localities(self) -> Mapping[str, int]:
        found: dict[str, int] = {}
        for g, group in enumerate(self.groups):
            costs = [row[g] for row in self._to_devices]
            least = min(costs, default=0)
            near = [part for part, cost in zip(self.parts, costs, strict=True) if cost == least]
            found |= dict.fromkeys(group.members, sum(near) if len(near) < len(costs) else 0)
        return found

    def near(self, device: str) -> int:
        """Return the CPUs that a device costs least, as a mask; 0: its costs tell no CPUs apart, or it is unknown."""
        return self._localities.get(device, 0)

    def nodes(self, device: str) -> int:
        """Return the NUMA nodes of the CPUs near a device as a mask; 0 where all are, or nothing is known."""
        return self._nodes_at.get(self.near(device), 0)

    @cached_property
    def _nodes_at(self) -> Mapping[int, int]:
        """The nodes of each set of CPUs that is near some device; 0 where these are all."""
        nodes = [(1 << node.id, node.cpus.mask) for node in self._machine.nodes if node.cpus]
        found = {near: sum(bit for bit, cpus in nodes if cpus & near) for near in set(self._localities.values())}
        return {near: 0 if mask == sum(bit for bit, _ in nodes) else mask for near, mask in found.items()}

    @cached_property
    def costed(self) -> frozenset[str]:
        """The types of which some device costs something to a CPU or to a device."""
        first = len(self.parts)
        return frozenset(group.kind for g, group in enumerate(self.groups) if any(self.row(first + g)))


def _mean(rows: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the mean of each column, rounded down."""
    if rows.count(rows[0]) == len(rows):
        return rows[0]
    return tuple(sum(column) // len(rows) for column in zip(*rows, strict=True))
