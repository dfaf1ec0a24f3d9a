import subprocess
import sys

import pytest

from policies.options import PolicyOptions
from policies.registry import POLICIES, REASON_CODES, Registered


def test_names_are_unique() -> None:
    names = [policy.name for policy in POLICIES]
    assert len(set(names)) == len(names)


def test_the_registry_loads_no_policy() -> None:
    program = "import sys, policies.registry; print(*(policy.path.split(':')[0] in sys.modules for policy in POLICIES))"
    program = program.replace("POLICIES", "policies.registry.POLICIES")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert set(done.stdout.split()) == {"False"}


def test_no_two_policies_share_an_options_model() -> None:
    models = [policy.options for policy in POLICIES if policy.options is not PolicyOptions]
    assert len(set(models)) == len(models)


def test_every_reason_code_is_listed_once() -> None:
    assert {"pool", "memory-short", "not-managed"} < set(REASON_CODES)
    assert len(set(REASON_CODES)) == len(REASON_CODES)


@pytest.mark.parametrize("path", ["policies.base:Grant", "policies.registry:registered"])
def test_a_line_that_names_no_policy_is_an_error(path: str) -> None:
    with pytest.raises(TypeError, match=f"{path} is not a Policy"):
        Registered("grant", path).load()


def test_the_options_of_a_policy_stand_under_its_name_in_camel_case() -> None:
    assert {policy.name: policy.group for policy in POLICIES}["topology-aware"] == "topologyAware"
    assert all(policy.group.casefold() == policy.name.replace("-", "") for policy in POLICIES)
