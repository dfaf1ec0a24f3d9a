"""Five minutes of soak: both relays, both runtimes, and the proof that a leak would have been seen.

Longer ones, and what is in them: ``python -m tests.soak --help``.
"""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import missing
from tests.soak.grounds import Wanted
from tests.soak.soak import MIX, Plan, Result, soak

ROOT = Path(__file__).resolve().parent.parent.parent
HALF = {name: (count + 1) // 2 for name, count in MIX["embedded"].items()}
LIVES = {"turnover": 40}

pytestmark = pytest.mark.timeout(1200)


def soaked(plan: Plan) -> Result:
    """The result, which is printed: pytest shows it when a test fails."""
    result = asyncio.run(soak(plan))
    print("\n".join(result.lines()))
    return result


def test_nothing_grows_behind_the_splice() -> None:
    assert soaked(Plan(3, seed=1)).is_good


def test_nothing_grows_behind_the_relay_on_grpcio() -> None:
    assert soaked(Plan(0.75, seed=2, wanted=Wanted("grpc"), mix=HALF)).is_good


@pytest.mark.parametrize("relay", ["splice", "grpc"])
def test_nothing_grows_before_a_real_containerd(relay: str) -> None:
    if reason := missing():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(reason)
    assert soaked(Plan(0.5, "containerd", seed=3, wanted=Wanted(relay))).is_good


def mutant(*leaks: str) -> Wanted:
    """A daemon that has these leaks."""
    command = (sys.executable, "-m", "tests.soak.mutants", ",".join(leaks))
    return Wanted(command=command, environment=(("PYTHONPATH", str(ROOT)),))


def test_a_soak_sees_memory_descriptors_and_tasks_that_are_kept() -> None:
    result = soaked(Plan(0, seed=4, wanted=mutant("request", "descriptor", "task"), mix=LIVES))
    assert {"blocks", "files", "tasks"} <= set(result.leaks)
    assert result.problems == ()


def test_a_soak_sees_a_grant_that_is_kept() -> None:
    result = soaked(Plan(0, seed=5, wanted=mutant("grant"), mix=LIVES, rest_seconds=20))
    assert "hold a grant and are gone" in result.problems[0]
