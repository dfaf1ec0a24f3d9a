"""The devices that cost files list, with their costs: what a policy may give to containers."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property

from policies.devices.costs.graph import Missing, known_groups, pair_costs
from policies.devices.costs.model import CPU_TYPE, SYSTEM_TYPES, CostListing, cpu_names, name_order
from policies.devices.costs.table import CostTable, compile_costs
from sysfs.cpuset import CpuSet, NodeSet, gathered


@dataclass(frozen=True)
class Inventory:
    """The costs of all cost files together, and what unknown ones count as."""

    table: CostTable
    missing: Missing = Missing.ZERO

    @cached_property
    def devices(self) -> dict[str, tuple[str, ...]]:
        """The instances of each type of devices, in the order of their names."""
        return self._of_devices(frozenset(range(len(self.table.groups))))

    @cached_property
    def silent(self) -> dict[str, tuple[str, ...]]:
        """The devices of each type that say nothing about costs while others of their type do, so that they seem near.

        Unknown costs count as 0; where a cost that is known one way counts both ways, being a target is enough.
        """
        known = known_groups(self.table, self.missing)
        reporting = self._of_devices(known)
        others = self._of_devices(frozenset(range(len(self.table.groups))) - known)
        return {kind: names for kind, names in others.items() if kind in reporting}

    @cached_property
    def _group_of(self) -> dict[str, int]:
        return {name: i for i, group in enumerate(self.table.groups) for name in group.members}

    def between(self, names: Sequence[str]) -> list[list[int]]:
        """Return what each two of these devices cost each other; in place of itself the CPU that each costs least."""
        groups = [self._group_of[name] for name in names]
        cpus = [i for i, group in enumerate(self.table.groups) if group.kind == CPU_TYPE]
        rows = pair_costs(self.table, [*groups, *cpus], self.missing)
        for i in range(len(groups)):
            rows[i][i] = min(rows[i][len(groups) :], default=0)
        return [row[: len(groups)] for row in rows[: len(groups)]]

    def nearest_nodes(self, names: Sequence[str], cpus: Mapping[int, CpuSet]) -> Mapping[str, NodeSet]:
        """Return the NUMA nodes, of those with these CPUs, where each device may be by what it says of costs to them.

        It is at none of which each CPU costs more than each of another node. A device that has no cost to some CPU, or
        whose costs exclude no node, says nothing of its place and is left out.
        """
        groups = {node: {self._group_of.get(name, -1) for name in cpu_names(own)} for node, own in cpus.items()}
        near = {group: _nearest(self.table.costs[group], groups) for group in {self._group_of[name] for name in names}}
        return {name: nodes for name in names if (nodes := near[self._group_of[name]])}

    def _of_devices(self, groups: frozenset[int]) -> dict[str, tuple[str, ...]]:
        """Return the members of these groups by type of devices."""
        here = [self.table.groups[i] for i in groups if self.table.groups[i].kind not in SYSTEM_TYPES]
        found = gathered((group.kind, name) for group in here for name in group.members)
        return {kind: tuple(sorted(found[kind], key=name_order)) for kind in sorted(found)}


def _nearest(row: Mapping[int, int], groups: Mapping[int, Set[int]]) -> NodeSet:
    """Return the nodes, of those with these groups of CPUs, that a row of costs does not exclude; empty for all."""
    if not all(of_node <= row.keys() for of_node in groups.values()):
        return NodeSet()
    costs = {node: [row[group] for group in of_node] for node, of_node in groups.items()}
    near = min(map(max, costs.values()), default=0)
    found = NodeSet.of(node for node, known in costs.items() if min(known) <= near)
    return found if len(found) < len(groups) else NodeSet()


NO_DEVICES = Inventory(compile_costs(CostListing()))
