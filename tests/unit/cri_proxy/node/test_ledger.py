"""What the ledger says about who may be written what, and when."""

from dataclasses import replace

from policies.base import CpuKind, Grant, Pinning, Wishes
from sysfs.cpuset import CpuSet
from tests.fakes.grants import ledger_with, row


def cpus(pinning: Pinning | None) -> str | None:
    return None if pinning is None or pinning.cpus is None else str(pinning.cpus)


def test_a_container_that_is_where_it_should_be_needs_no_call() -> None:
    ledger = ledger_with(replace(row("a", owned="1"), acknowledged=Pinning(CpuSet.parse("1"), None)))
    assert cpus(ledger.sendable(row("a").key)) == "1"
    assert [r.key.name for r in ledger.unsettled() if r.acknowledged and r.acknowledged.cpus != CpuSet.parse("1")] == []


def test_a_sharer_is_wanted_off_cpus_that_were_granted_to_another() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="1-7"))
    assert cpus(ledger.sendable(row("b").key)) == "2-7"


def test_whoever_owns_cpus_waits_while_another_sits_on_them() -> None:
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1"), row("b", acknowledged="2-7"))
    assert cpus(ledger.sendable(row("a").key)) == "1"
    assert [r.key.name for r in ledger.sitting_on(row("a", owned="1-2"))] == ["b"]


def test_nobody_grows_onto_cpus_that_are_still_held_alone() -> None:
    """The grant of ``a`` moved from CPU 1 to CPU 2, but the runtime has not confirmed the move."""
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="3-7"))
    moved = replace(row("a", owned="2"), acknowledged=Pinning(CpuSet.parse("1"), None))
    ledger.put(moved)
    assert cpus(ledger.sendable(row("b").key)) == "3-7"


def test_an_old_attempts_id_finds_nothing() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"))
    ledger.put(replace(row("a", owned="1"), container_id="new"))
    assert ledger.holder("id-a") is None
    assert ledger.holder("new") is not None


def test_an_exited_container_holds_nothing_and_is_remembered() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"))
    ledger.put(replace(row("a", owned="1"), state="exited"))
    assert ledger.allocations.grants == ()
    assert ledger.get(row("a").key) is not None


def test_an_update_without_an_answer_leaves_the_container_on_the_cpus_of_both() -> None:
    ledger = ledger_with(row("b", acknowledged="2-3"))
    ledger.doubt(row("b").key, Pinning(CpuSet.parse("3-7"), None))
    known = ledger.get(row("b").key)
    assert known is not None
    assert cpus(known.acknowledged) == "2-7"
    assert ledger.differs(known)


def test_an_answer_ends_the_doubt() -> None:
    ledger = ledger_with(row("b", acknowledged="2-3"))
    ledger.doubt(row("b").key, Pinning(CpuSet.parse("1-7"), None))
    ledger.confirm(row("b").key, ledger.desired()[row("b").key])
    assert ledger.unsettled() == ()


def test_every_change_has_a_version_of_its_own() -> None:
    ledger = ledger_with(row("a"))
    before = ledger.version
    ledger.drop(row("a").key)
    assert ledger.version > before


def test_only_who_wishes_to_be_left_alone_keeps_others_from_owning_its_cpus() -> None:
    """A container that the policy none let through has no such wish: the next policy may give its CPUs away."""
    passed = row("a", acknowledged="1-2")
    wish = replace(passed.grant.request, wishes=Wishes(preserve_cpu=True))
    for request, withheld in ((passed.grant.request, ""), (wish, "1-2")):
        ledger = ledger_with(replace(passed, grant=Grant(request, "", CpuKind.PRESERVE)))
        assert str(ledger.allocations.withheld) == withheld
