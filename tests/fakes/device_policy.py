"""A policy that gives the first free devices of its inventory, for tests of what follows from a choice."""

from dataclasses import replace

from policies.base import Allocations, Decision, Placed, Reason, Rejected, Request
from policies.costs.inventory import Inventory
from policies.costs.model import CostListing
from policies.costs.table import compile_costs
from policies.topology_aware.options import TopologyAwareOptions
from policies.topology_aware.pods import PodSharing
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe


class FirstDevices(PodSharing):
    """Places as ``PodSharing`` does, and gives the devices that a container had, else the first that are free."""

    def decide(self, held: Allocations, request: Request) -> Decision:
        """Return the place with devices, or a refusal where too few are free."""
        decision = super().decide(held, request)
        if not isinstance(decision, Placed):
            return decision
        others = {name for grant in held.grants if grant.container != request.container for name in grant.devices}
        before = request.previous.devices if request.previous is not None else ()
        chosen: list[str] = []
        for amount in request.preferences.devices:
            present = (*before, *self.inventory.devices.get(amount.kind, ()))
            free = [n for n in dict.fromkeys(present) if n.startswith(f"{amount.kind}/") and n not in others]
            if len(free) < amount.count:
                return Rejected(Reason("full", f"{amount.kind}: wanted {amount.count}, free {len(free)}"))
            chosen += free[: amount.count]
        return replace(decision, grant=replace(decision.grant, devices=tuple(chosen)))


def inventory(*names: str) -> Inventory:
    """Return an inventory of these devices, without costs."""
    return Inventory(compile_costs(CostListing(present=names)))


def first_devices(*names: str) -> FirstDevices:
    """Return the policy on 2 packages with 4 CPUs each, CPU 0 reserved, and these devices."""
    machine = describe({"packages": 2, "cores": 4})
    return FirstDevices(machine, TopologyAwareOptions(machine.online, CpuSet.parse("0")), inventory(*names))
