"""The rules about devices hold for every registered policy, and a policy that breaks one of them is found."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.base import Allocations, Decision, Placed, Reinstated, Request
from policies.device_requests import NOTHING_ASKED
from policies.policy import Policy
from policies.registry import POLICIES, Registered
from policies.topology_aware import TopologyAware
from tests.contract.device_rules import DEVICES, MACHINE, OPTIONS, RULES, Rule

TINY = Registered("everywhere", "tests.contract.everywhere:Everywhere", reason_codes=("everywhere",))


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.parametrize("policy", (*POLICIES, TINY), ids=lambda policy: policy.name)
def test_a_policy_follows_the_rules_about_devices(policy: Registered, rule: Rule) -> None:
    rule(policy.load()(MACHINE, OPTIONS, DEVICES))


class LosesWhatIsAsked(TopologyAware):
    """Places containers without the devices that they ask for."""

    def decide(self, held: Allocations, request: Request) -> Decision:
        asked = replace(request.preferences, devices=NOTHING_ASKED)
        return super().decide(held, replace(request, preferences=asked))


class LosesOneOfSeveral(TopologyAware):
    """Grants one device fewer."""

    def decide(self, held: Allocations, request: Request) -> Decision:
        decision = super().decide(held, request)
        if not isinstance(decision, Placed):
            return decision
        return replace(decision, grant=replace(decision.grant, devices=decision.grant.devices[:-1]))


class LosesWhatOthersChose(TopologyAware):
    """Does not know the devices that the kubelet gave."""

    def decide(self, held: Allocations, request: Request) -> Decision:
        return super().decide(held, replace(request, given=()))


class ForgetsDevicesOfRunning(TopologyAware):
    """Chooses devices anew when a container is resized."""

    def decide(self, held: Allocations, request: Request) -> Decision:
        return super().decide(held.without(request.container), replace(request, previous=None))


class LosesDevicesAtARestart(TopologyAware):
    """Keeps the CPUs of grants, and not their devices."""

    def reinstate(self, held: Allocations, requests: Sequence[Request] = ()) -> Reinstated:
        found = super().reinstate(held, requests)
        bare = (replace(grant, devices=()) for grant in found.allocations.grants)
        return replace(found, allocations=found.allocations.with_grants(*bare))


class GrantsHeldDevices(TopologyAware):
    """Does not look at the devices that others hold."""

    def decide(self, held: Allocations, request: Request) -> Decision:
        others = (replace(grant, devices=()) for grant in held.grants if grant.container != request.container)
        return super().decide(held.with_grants(*others), request)


@pytest.mark.parametrize(
    "mutant",
    [
        LosesWhatIsAsked,
        LosesOneOfSeveral,
        LosesWhatOthersChose,
        ForgetsDevicesOfRunning,
        LosesDevicesAtARestart,
        GrantsHeldDevices,
    ],
)
def test_a_policy_that_loses_devices_breaks_a_rule(mutant: type[Policy]) -> None:
    with pytest.raises(AssertionError):
        for rule in RULES:
            rule(mutant(MACHINE, OPTIONS, DEVICES))
