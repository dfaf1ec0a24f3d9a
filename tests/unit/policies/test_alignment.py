"""The topology manager's words are the kubelet's, and it does nothing unless it is asked."""

from policies.alignment import TopologyOptions, TopologyPolicy, TopologyScope
from policies.hints import POLICIES


def test_every_policy_is_one_that_hints_are_merged_by() -> None:
    assert {policy.value for policy in TopologyPolicy} <= set(POLICIES)


def test_by_default_nothing_is_merged() -> None:
    assert TopologyOptions() == TopologyOptions(TopologyPolicy.NONE, TopologyScope.CONTAINER, prefers_closest=False)
