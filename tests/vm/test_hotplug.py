"""A CPU that is owned goes offline and comes back, on cgroup v2 and on v1."""

import pytest

from sysfs.cpuset import CpuSet
from tests.vm.report import Report, Seen

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture(params=["two_packages", "two_kinds"], ids=["v2", "v1"])
def report(request: pytest.FixtureRequest) -> Report:
    """Each version of cgroups."""
    found: Report = request.getfixturevalue(request.param)
    return found


def at(report: Report, step: str, pod: str) -> Seen:
    return report.steps[f"hotplug: {step}"][f"{pod}/c0"]


def test_the_owner_of_a_cpu_that_went_has_another_one_for_it(report: Report) -> None:
    lost = CpuSet.of([report.facts["hotplug: lost"]])
    before, offline = at(report, "before", "owner"), at(report, "offline", "owner")
    assert lost <= before.cpus
    assert len(offline.cpus) == len(before.cpus)
    assert offline.written.isdisjoint(lost)
    assert before.pid == offline.pid


def test_the_new_cpu_is_nobody_elses(report: Report) -> None:
    for step in ("offline", "online"):
        for other in ("sharer", "bystander"):
            assert at(report, step, "owner").cpus.isdisjoint(at(report, step, other).cpus), (step, other)


def test_whoever_lost_nothing_stays_where_it_is(report: Report) -> None:
    looks = [at(report, step, "bystander") for step in ("before", "offline", "online")]
    assert looks[0] == looks[1] == looks[2]


def test_the_shared_set_grows_when_the_cpu_is_back(report: Report) -> None:
    lost = CpuSet.of([report.facts["hotplug: lost"]])
    assert at(report, "online", "sharer").cpus == at(report, "offline", "sharer").cpus | lost
    assert lost <= at(report, "online", "sharer").written


def test_where_the_pods_cgroup_lacks_the_cpu_nobody_gets_it_and_an_operator_is_told(two_kinds: Report) -> None:
    """Cgroup v1 takes a CPU that goes offline out of every set for good; the runtime would refuse to give it out."""
    lost = two_kinds.facts["hotplug: lost"]
    assert at(two_kinds, "lacking", "sharer") == at(two_kinds, "offline", "sharer")
    assert two_kinds.events("update_failed", "sharer/c0") == []
    (warning,) = (text for text in two_kinds.facts["hotplug: warnings"] if "pods' cgroup" in text)
    assert f"CPU {lost} is online" in warning
    assert "write it back to cpuset.cpus" in warning


@pytest.mark.parametrize("pod", ["sharer", "owner", "bystander"])
def test_a_cpu_that_went_is_nobodys_tampering(report: Report, pod: str) -> None:
    assert report.events("drifted", f"{pod}/c0") == []


def test_the_owner_does_not_move_a_second_time(report: Report) -> None:
    assert at(report, "online", "owner") == at(report, "offline", "owner")


def lone(report: Report, step: str) -> Seen:
    return report.steps[f"last CPU: {step}"]["lone/c0"]


def test_whoever_lost_his_only_cpu_has_another_one(two_packages: Report) -> None:
    before, offline = lone(two_packages, "before"), lone(two_packages, "offline")
    assert len(offline.cpus) == len(before.cpus) == 1
    assert offline.cpus.isdisjoint(before.cpus)
    assert two_packages.facts["last CPU: warnings"] == []


def test_on_v1_his_processes_leave_the_cgroup_and_an_operator_is_told_what_helps(two_kinds: Report) -> None:
    """The kernel's doing (cpuset(7)): no update of the cgroup brings them back."""
    fled = lone(two_kinds, "offline")
    assert len(fled.cpus) > 1
    (warning,) = (text for text in two_kinds.facts["last CPU: warnings"] if "lone/c0" in text)
    assert f"its processes run on CPUs {fled.cpus}, outside its cgroup" in warning
    assert "Restart the container" in warning
