"""Who steps aside for others, where to, and until when."""

from dataclasses import replace

from cri_proxy.node.ledger.ledger import Ledger
from policies.base import Pinning
from sysfs.cpuset import CpuSet
from tests.fakes.grants import ledger_with, row, small_policy
from tests.fakes.rows import confirmed_cpus

A = row("a").key


def crossed() -> Ledger:
    """Two containers that are to change places: ``a`` from CPU 1 to 2, ``b`` from 2 to 1."""
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", owned="2", acknowledged="2"))
    ledger.put(row("a", owned="2", acknowledged="1"), row("b", owned="1", acknowledged="2"))
    return ledger


def test_a_container_steps_aside_once() -> None:
    ledger = crossed()
    assert ledger.can_step_aside(A)
    ledger.step_aside(A)
    assert not ledger.can_step_aside(A)


def test_a_container_that_exited_does_not_step_aside_when_it_is_back() -> None:
    ledger = crossed()
    ledger.step_aside(A)
    ledger.put(replace(row("a", owned="2", acknowledged="2"), state="exited"))
    ledger.put(row("a", owned="2", acknowledged="1"))
    assert ledger.can_step_aside(A)


def test_a_container_that_was_dropped_does_not_step_aside_when_it_is_back() -> None:
    ledger = crossed()
    ledger.step_aside(A)
    ledger.drop(A)
    ledger.settle_confirmed()
    ledger.put(row("a", owned="2", acknowledged="1"))
    assert ledger.can_step_aside(A)


def test_a_container_that_has_its_cpus_back_no_longer_counts_as_aside() -> None:
    ledger = crossed()
    ledger.step_aside(A)
    ledger.confirm(row("b").key, Pinning(CpuSet.parse("1"), None))
    ledger.confirm(A, Pinning(CpuSet.parse("2"), None))
    ledger.settle_confirmed()
    assert ledger.can_step_aside(A)


def test_a_container_that_has_its_cpus_back_counts_as_aside_while_others_are_on_them() -> None:
    ledger = crossed()
    ledger.step_aside(A)
    ledger.confirm(A, Pinning(CpuSet.parse("2"), None))
    ledger.settle_confirmed()
    assert not ledger.can_step_aside(A)


def test_a_container_whose_pinning_is_unknown_again_still_counts_as_aside() -> None:
    ledger = crossed()
    ledger.step_aside(A)
    ledger.put(row("a", owned="2"))
    ledger.settle_confirmed()
    assert not ledger.can_step_aside(A)


def test_one_that_is_left_to_another_manager_keeps_no_other_from_giving_up_its_cpus() -> None:
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1-2"), row("b", owned="3-4", acknowledged="3-4"))
    ledger.put(row("a", owned="1", acknowledged="1-2"), row("b", owned="3", acknowledged="3-4"))
    ledger.leave_to_another("id-a", CpuSet.parse("1-2"))
    ledger.put(row("b", owned="3", acknowledged="3"))
    ledger.settle_confirmed()
    assert [str(confirmed_cpus(ledger, row(name).key)) for name in ("a", "b")] == ["1-2", "3"]


def test_a_container_that_steps_aside_stays_on_those_of_its_cpus_that_it_may_use() -> None:
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1-2"), row("b", owned="3", acknowledged="3"))
    ledger.put(row("a", owned="2-3", acknowledged="1-2"), row("b", owned="1", acknowledged="3"))
    ledger.step_aside(A)
    found = ledger.sendable(A)
    assert found is not None
    assert str(found.cpus) == "2"


def test_a_container_can_step_aside_where_it_may_stay_though_every_cpu_has_an_owner() -> None:
    ledger = ledger_with(row("a", owned="0-3", acknowledged="0-3"), row("b", owned="4-7", acknowledged="4-7"))
    ledger.use_policy(small_policy(""), ledger.allocations)
    ledger.put(row("a", owned="3-6", acknowledged="0-3"), row("b", owned="0-2,7", acknowledged="4-7"))
    assert ledger.can_step_aside(A)


def test_a_container_does_not_step_aside_onto_reserved_cpus_that_another_still_has_alone() -> None:
    ledger = ledger_with(row("a", owned="0-3", acknowledged="0-3"), row("b", owned="4-7", acknowledged="4-7"))
    ledger.use_policy(small_policy("5"), ledger.allocations)
    ledger.put(row("a", owned="4,6-7", acknowledged="0-3"), row("b", owned="0-3", acknowledged="4-7"))
    assert not ledger.can_step_aside(A)


def test_one_that_has_not_run_is_on_no_cpu_that_a_former_owner_still_has_alone() -> None:
    """Its start waits for none who moves, as it owns nothing itself."""
    ledger = ledger_with(row("a", owned="4-7", acknowledged="4-7"))
    sharer = row("s", acknowledged="4-7", state="created", pool="socket #1")
    ledger.put(row("a", owned="2-3", acknowledged="4-7"), sharer)
    assert ledger.due(sharer) == Pinning(CpuSet.parse("1"), ledger.desired()[sharer.key].mems)
    ledger.confirm(sharer.key, Pinning(CpuSet.parse("1"), None))
    ledger.put(replace(sharer, state="running", acknowledged=Pinning(CpuSet.parse("1"), None)))
    assert ledger.sendable(sharer.key) is None
    ledger.confirm(A, Pinning(CpuSet.parse("2-3"), None))
    target = ledger.sendable(sharer.key)
    assert target is not None
    assert str(target.cpus) == "4-7"
