"""The policies that can be configured, written out by hand."""

from collections.abc import Callable

from policies import none
from policies.base import Policy
from policies.errors import UnknownPolicyError
from policies.options import PolicyOptions
from policies.topology_aware import policy
from sysfs.model import Machine

Build = Callable[[Machine, PolicyOptions], Policy]

POLICIES: tuple[tuple[str, Build], ...] = (
    (policy.NAME, policy.TopologyAware),
    (none.NAME, none.NonePolicy),
)


def build_policy(name: str, machine: Machine, options: PolicyOptions) -> Policy:
    """The policy of this name, bound to a machine and options.

    Raises UnknownPolicyError, and PolicyOptionsError when the options leave nothing to place on.
    """
    for known, build in POLICIES:
        if known == name:
            return build(machine, options)
    raise UnknownPolicyError(name, tuple(known for known, _ in POLICIES))
