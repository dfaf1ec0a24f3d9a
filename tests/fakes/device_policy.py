"""The topology-aware policy with devices that say nothing of costs: of a type they are given in the order of names."""

from policies.builder import build_policy
from policies.costs.inventory import Inventory
from policies.costs.model import CostListing
from policies.costs.table import compile_costs
from policies.policy import Policy
from policies.topology_aware.options import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe


def inventory(*names: str) -> Inventory:
    """Return an inventory of these devices, without costs."""
    return Inventory(compile_costs(CostListing(present=names)))


def policy_with_devices(*names: str) -> Policy:
    """Return the policy on 2 packages with 4 CPUs each, CPU 0 reserved, and these devices."""
    machine = describe({"packages": 2, "cores": 4})
    options = TopologyAwareOptions(machine.online, CpuSet.parse("0"))
    return build_policy("topology-aware", machine, options, inventory(*names))
