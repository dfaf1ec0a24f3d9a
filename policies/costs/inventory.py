"""The devices that cost files list, with their costs: what a policy may give to containers."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from policies.costs.graph import Missing, known_groups, pair_costs
from policies.costs.model import CPU_TYPE, SYSTEM_TYPES, CostListing, name_order
from policies.costs.table import CostTable, compile_costs


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

    def _of_devices(self, groups: frozenset[int]) -> dict[str, tuple[str, ...]]:
        """Return the members of these groups by type of devices."""
        found: dict[str, list[str]] = {}
        for i in groups:
            group = self.table.groups[i]
            if group.kind not in SYSTEM_TYPES:
                found.setdefault(group.kind, []).extend(group.members)
        return {kind: tuple(sorted(found[kind], key=name_order)) for kind in sorted(found)}


NO_DEVICES = Inventory(compile_costs(CostListing()))
