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


def test_a_line_that_names_no_policy_is_an_error() -> None:
    with pytest.raises(TypeError, match=r"policies\.base:Grant is not a Policy"):
        Registered("grant", "policies.base:Grant").load()
