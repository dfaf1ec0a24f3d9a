"""Kinds of memory that the operator names, on nodes 2 and 3 without CPUs; nodes 0 and 1 are DRAM."""

import pytest

from sysfs.cpuset import NodeSet
from tests.vm.report import Report
from tests.vm.stories.kinds import BRIEF_SECONDS, HELD_MIB
from tests.vm.stories.pods import MIB

pytestmark = pytest.mark.timeout(1500)
DRAM, PMEM = NodeSet.parse("0-1"), NodeSet.parse("2-3")


def mems(report: Report, step: str, pod: str) -> NodeSet:
    return report.steps[f"kinds: {step}"][f"{pod}/c0"].mems


def test_who_asks_for_pmem_has_the_near_pmem_alone(two_kinds: Report) -> None:
    slow = two_kinds.steps["kinds: all"]["slow/c0"]
    assert slow.mems == NodeSet.of({2 + cpu // 4 for cpu in slow.cpus})


def test_who_asks_for_dram_has_no_pmem(two_kinds: Report) -> None:
    assert mems(two_kinds, "all", "fast") <= DRAM


def test_who_asks_for_nothing_has_both(two_kinds: Report) -> None:
    plain = mems(two_kinds, "all", "plain")
    assert len(plain & DRAM) == len(plain & PMEM) == 1


def test_who_accepts_nothing_else_is_refused_what_is_not_there(two_kinds: Report) -> None:
    assert "wanted memory of kind HBM and no other" in two_kinds.facts["kinds: refused"]


@pytest.mark.parametrize("pod", ["slow", "cold"])
def test_pages_are_where_the_nodes_say(two_kinds: Report, pod: str) -> None:
    pages = two_kinds.facts[f"kinds: pages of {pod}"]
    assert pages["2"] + pages["3"] >= HELD_MIB * MIB
    assert pages["0"] + pages["1"] < MIB


def test_a_cold_start_begins_in_pmem_alone_and_outlives_a_crash_of_the_daemon(two_kinds: Report) -> None:
    assert mems(two_kinds, "cold", "cold") <= PMEM


def test_a_cold_start_ends_with_dram_beside_it_and_not_before_its_time(two_kinds: Report) -> None:
    warm = mems(two_kinds, "warm", "brief")
    assert len(warm & DRAM) == len(warm & PMEM) == 1
    assert two_kinds.facts["kinds: seconds until warm"] >= BRIEF_SECONDS
    assert mems(two_kinds, "warm", "cold") == mems(two_kinds, "cold", "cold")  # whose time has not come
