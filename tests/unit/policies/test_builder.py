import pytest

from policies.builder import build_policy
from policies.errors import UnknownPolicyError
from policies.registry import POLICIES
from tests.fakes.machines import small_machine
from tests.unit.policies.build import options


@pytest.mark.parametrize("name", [policy.name for policy in POLICIES])
def test_a_policy_is_built_by_its_name(name: str) -> None:
    machine = small_machine()
    policy = build_policy(name, machine, options(machine))
    assert policy.name == name
    assert policy.machine is machine


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    machine = small_machine()
    with pytest.raises(UnknownPolicyError, match=", ".join(policy.name for policy in POLICIES)):
        build_policy("balloons", machine, options(machine))
