"""Build a policy from its name, a machine, options and devices; importing this module imports every policy class."""

from policies.devices import EMPTY_INVENTORY, DeviceInventory
from policies.options import PolicyOptions
from policies.policy import Policy
from policies.registry import POLICIES, registered
from sysfs.model import Machine

# All at once: what a reload imported later could be of a newer version than the code that runs.
_CLASSES = {policy.name: policy.load() for policy in POLICIES}


def build_policy(
    name: str, machine: Machine, options: PolicyOptions, devices: DeviceInventory = EMPTY_INVENTORY
) -> Policy:
    """Bind the policy of this name to a machine, options and the devices that it may give to containers.

    Raises UnknownPolicyError, and PolicyOptionsError where the options leave nothing to place on.
    """
    return _CLASSES[registered(name).name](machine, options, devices)
