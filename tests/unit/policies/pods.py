"""The policy for pods whose containers share one grant, on four NUMA nodes with CPU 0 reserved, and what it gives."""

from policies.base import Allocations, Placed, Request
from policies.topology_aware import TopologyAware
from tests.unit.policies.build import four_nodes, options

MACHINE = four_nodes()
POLICY = TopologyAware(MACHINE, options(MACHINE, "0"))


def fill(*requests: Request, held: Allocations | None = None) -> Allocations:
    """Place these in their order; the pinning of each is the one that the policy derives later."""
    held = held or Allocations()
    for each in requests:
        decision = POLICY.decide(held, each)
        assert isinstance(decision, Placed), decision
        held = held.with_grants(*decision.moved, decision.grant)
        assert POLICY.pinnings(held)[each.container] == decision.pinning
    return held


def owned(held: Allocations) -> dict[str, str]:
    """Return the CPUs of each container, by its name."""
    return {grant.container.name: str(grant.owned) for grant in held.grants}
