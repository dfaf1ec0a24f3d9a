"""A cgroup written by hand, on cgroup v2 and on v1."""

import pytest

from sysfs.cpuset import NodeSet
from tests.vm.report import Report

pytestmark = pytest.mark.timeout(1500)
VICTIM = "victim/c0"


@pytest.fixture(params=["two_packages", "two_kinds"], ids=["v2", "v1"])
def report(request: pytest.FixtureRequest) -> Report:
    """Each version of cgroups."""
    found: Report = request.getfixturevalue(request.param)
    assert found.facts["drift: is v2"] == (request.param == "two_packages")
    return found


def test_cpus_that_somebody_widened_are_put_back(report: Report) -> None:
    before, widened, after = (
        report.steps[f"drift: {step}"][VICTIM] for step in ("before", "cpus widened", "cpus put back")
    )
    assert before.cpus <= widened.cpus != before.cpus
    assert after == before


def test_memory_nodes_that_somebody_widened_are_put_back(report: Report) -> None:
    before, widened, after = (
        report.steps[f"drift: {step}"][VICTIM] for step in ("before", "mems widened", "mems put back")
    )
    assert before.mems <= widened.mems == NodeSet.parse("0-3") != before.mems
    assert after == before


def test_each_repair_is_logged_with_what_was_seen(report: Report) -> None:
    cpus, mems = report.events("drifted", VICTIM)
    assert cpus["cpus"] == str(report.steps["drift: cpus widened"][VICTIM].cpus)
    assert mems["mems"] == "0-3"
