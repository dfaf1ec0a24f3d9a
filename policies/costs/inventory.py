"""The devices that cost files list, with their costs: what a policy may give to containers."""

from dataclasses import dataclass
from functools import cached_property

from policies.costs.derive import CPU_TYPE, MEMORY_TYPE, PCI_TYPE
from policies.costs.graph import Missing
from policies.costs.model import CostListing
from policies.costs.table import CostTable, compile_costs

# What the kernel lists beside devices: the policy places these by itself.
SYSTEM_TYPES = frozenset((CPU_TYPE, MEMORY_TYPE, PCI_TYPE))


@dataclass(frozen=True)
class Inventory:
    """The costs of all cost files together, and what unknown ones count as."""

    table: CostTable
    missing: Missing = Missing.ZERO

    @cached_property
    def devices(self) -> dict[str, tuple[str, ...]]:
        """The instances of each type of devices, in the order of their names."""
        found: dict[str, list[str]] = {}
        for group in self.table.groups:
            if group.kind not in SYSTEM_TYPES:
                found.setdefault(group.kind, []).extend(group.members)
        return {kind: tuple(found[kind]) for kind in sorted(found)}


NO_DEVICES = Inventory(compile_costs(CostListing()))
