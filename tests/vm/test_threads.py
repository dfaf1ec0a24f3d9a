"""Hyperthreads on true thread siblings: CPUs 2n and 2n+1 are the threads of a core."""

import pytest

from sysfs.cpuset import CpuSet
from tests.vm.report import Report, Seen

pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def seen(two_packages: Report) -> dict[str, Seen]:
    """Two owners of cores and two that share."""
    return two_packages.steps["threads"]


def cores(cpus: CpuSet) -> set[int]:
    return {cpu // 2 for cpu in cpus}


def test_own_core_makes_three_cpus_two_whole_cores(seen: dict[str, Seen]) -> None:
    owns = seen["owners/owns"].cpus
    assert (len(owns), len(cores(owns))) == (4, 2)


def test_hide_runs_on_one_thread_of_the_core_that_it_owns(seen: dict[str, Seen]) -> None:
    hides = seen["owners/hides"].cpus
    assert len(hides) == len(cores(hides)) == 1


@pytest.mark.parametrize("name", ["owners/hides", "owners/owns"])
def test_nobody_else_runs_on_a_sibling_of_an_owned_cpu(seen: dict[str, Seen], name: str) -> None:
    for other in seen.keys() - {name}:
        assert cores(seen[other].cpus).isdisjoint(cores(seen[name].cpus)), other


def test_who_shares_and_hides_runs_on_one_thread_of_each_shared_core(seen: dict[str, Seen]) -> None:
    halves = seen["halves/c0"].cpus
    assert len(halves) == len(cores(halves)) > 1


def test_the_other_threads_of_shared_cores_stay_there_for_others(seen: dict[str, Seen]) -> None:
    sharer = seen["sharer/c0"].cpus
    assert len(sharer) > len(cores(sharer)) > 0
