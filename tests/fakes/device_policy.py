"""The topology-aware policy with devices of cost files that say nothing of costs, or with an inventory of devices."""

from dataclasses import replace

from cri_proxy.node.node import Node
from cri_proxy.node.reconfigure import use_devices
from policies.builder import build_policy
from policies.device_grants import DeviceGrant, listed_only
from policies.devices import (
    EMPTY_INVENTORY,
    GPU_MEMORY,
    DeviceInventory,
    InventoryDevice,
    VfGroup,
    VirtualFunction,
)
from policies.devices.costs import CostListing, Inventory, compile_costs
from policies.policy import Policy
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe


def inventory(*names: str) -> Inventory:
    """Return an inventory of these devices, without costs."""
    return Inventory(compile_costs(CostListing(present=names)))


def listed(*names: str) -> tuple[DeviceGrant, ...]:
    """Return what a container holds that has these devices, which cost files alone list."""
    return tuple(map(listed_only, names))


def use_costs(node: Node, costs: Inventory) -> None:
    """Let new containers choose among the devices of these cost files."""
    use_devices(node, replace(node.context.ledger.policy.devices, costs=costs))


def with_costs(policy: Policy, costs: Inventory) -> Policy:
    """Return the policy with the devices of these cost files."""
    return policy.with_devices(DeviceInventory((), costs=costs))


def policy_with_devices(*names: str, devices: DeviceInventory = EMPTY_INVENTORY) -> Policy:
    """Return the policy on 2 packages with 4 CPUs each, CPU 0 reserved, and these devices."""
    machine = describe({"packages": 2, "cores": 4})
    options = TopologyAwareOptions(machine.online, CpuSet.parse("0"))
    return build_policy("topology-aware", machine, options, replace(devices, costs=inventory(*names)))


def two_pairs() -> DeviceInventory:
    """Return a GPU and a NIC with two VFs on each of two NUMA nodes."""
    gpus = [
        InventoryDevice("gpu", n, numa=n, pcie=f"{n}", uuid=f"GPU-{n}", resources={GPU_MEMORY: 80 << 30})
        for n in (0, 1)
    ]
    nics = [InventoryDevice("rdma", n, numa=n, pcie=f"{n}", vf_groups=(VfGroup(_vfs(n)),)) for n in (0, 1)]
    return DeviceInventory((*gpus, *nics))


def _vfs(nic: int) -> tuple[VirtualFunction, ...]:
    return tuple(VirtualFunction(number, f"0000:{nic + 1}0:00.{number + 1}") for number in (0, 1))
