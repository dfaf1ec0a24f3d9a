"""Who can run on CPUs that were granted to somebody alone."""

from dataclasses import replace

from cri_proxy.node.adoption import Left
from cri_proxy.node.reachable import reachable_by, unpinned
from policies.base import CpuKind
from sysfs.cpuset import CpuSet
from tests.fakes.grants import ledger_with, row

OWNER = row("a", owned="2-3", acknowledged="2-3")


def test_whoever_runs_anywhere_or_on_such_a_cpu_is_named() -> None:
    others = [Left("anywhere", None), Left("near", CpuSet.parse("3-5")), Left("far", CpuSet.parse("4-5"))]
    assert reachable_by(OWNER, others) == ("anywhere", "near")


def test_a_container_that_owns_nothing_has_nothing_to_fear() -> None:
    assert reachable_by(row("s", acknowledged="4-7"), [Left("anywhere", None)]) == ()


def test_nobody_reaches_itself() -> None:
    assert reachable_by(OWNER, [Left("default/pod-1/a", None)]) == ()


def test_a_preserved_container_counts_with_the_cpus_that_it_brought() -> None:
    preserved = row("p", acknowledged="1-3")
    preserved = replace(preserved, grant=replace(preserved.grant, kind=CpuKind.PRESERVE))
    left = Left("default/old/c", None)
    assert unpinned(ledger_with(OWNER, preserved), [left]) == (Left("default/pod-1/p", CpuSet.parse("1-3")), left)
