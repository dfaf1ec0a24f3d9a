"""What every policy is given."""

from policies.options import PolicyOptions
from policies.registry import POLICIES


def test_every_policy_has_options_that_need_no_configuration() -> None:
    assert [policy.options() for policy in POLICIES if policy.options is PolicyOptions] == [PolicyOptions()]
    assert all(isinstance(policy.options(), PolicyOptions) for policy in POLICIES)
