from dataclasses import replace

import pytest

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.signals import Signal
from cri_proxy.state.rows import RowState
from policies.base import CpuKind, Grant, Pinning
from policies.builder import build_policy
from policies.preferences import Preferences
from policies.topology_aware import TopologyAwareOptions
from sysfs.cpuset import CpuSet
from tests.fakes.grants import NODES, ledger_with, row, small_policy
from tests.fakes.rows import confirmed_cpus


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
    assert [r.key.name for r in ledger.occupants(row("a", owned="1-2"))] == ["b"]


def test_nobody_grows_onto_cpus_that_are_still_held_alone() -> None:
    """The grant of ``a`` moved from CPU 1 to CPU 2, but the runtime has not confirmed the move."""
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="3-7"))
    ledger.put(replace(row("a", owned="2"), acknowledged=Pinning(CpuSet.parse("1"), None)))
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
    ledger.mark_unconfirmed(row("b").key, Pinning(CpuSet.parse("3-7"), None))
    known = ledger.get(row("b").key)
    assert known is not None
    assert cpus(known.acknowledged) == "2-7"
    assert ledger.due(known)


def test_an_answer_ends_the_doubt() -> None:
    ledger = ledger_with(row("b", acknowledged="2-3"))
    ledger.mark_unconfirmed(row("b").key, Pinning(CpuSet.parse("1-7"), None))
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
    wish = replace(passed.grant.request, preferences=Preferences(preserve_cpu=True))
    for request, withheld in ((passed.grant.request, ""), (wish, "1-2")):
        ledger = ledger_with(replace(passed, grant=Grant(request, "", CpuKind.PRESERVE)))
        assert str(ledger.allocations.withheld) == withheld


def test_an_answer_ends_the_doubt_about_the_fields_that_it_is_about() -> None:
    ledger = ledger_with(row("b", acknowledged="1-7"))
    ledger.mark_unconfirmed(row("b").key, Pinning(CpuSet.parse("1-7"), NODES))
    ledger.confirm(row("b").key, Pinning(CpuSet.parse("1-7"), None))
    assert ledger.unconfirmed(row("b").key) == Pinning(None, NODES)


@pytest.mark.parametrize(("state", "may_use"), [("created", "3-7"), ("running", "2-7")])
def test_on_cpus_that_others_hold_alone_a_container_may_go_on_but_not_start(state: RowState, may_use: str) -> None:
    """The grant of ``a`` shrank to CPU 1; that it left CPU 2 is not confirmed."""
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1-2"))
    ledger.put(replace(row("a", owned="1"), acknowledged=Pinning(CpuSet.parse("1-2"), None)))
    ledger.put(replace(row("b", state=state), acknowledged=Pinning(CpuSet.parse("2-7"), None)))
    assert cpus(ledger.sendable(row("b").key)) == may_use
    (b,) = (r for r in ledger.active() if r.key == row("b").key)
    assert (ledger.due(b) is not None) is (state == "created")


def test_where_cpus_are_not_pinned_nobody_sits_on_anybodys() -> None:
    machine = small_policy().machine
    options = TopologyAwareOptions(machine.online, CpuSet.parse("0"), pin_cpu=False)
    ledger = Ledger(build_policy("topology-aware", machine, options))
    ledger.put(row("a", owned="1", acknowledged="1"), row("b", acknowledged="0-7"))
    assert ledger.occupants(row("a", owned="1")) == ()
    assert ledger.waits_for(row("a", owned="1")) == frozenset()
    assert ledger.sendable(row("a").key) == Pinning(None, None)  # its memory nodes would be written


def test_whose_pinning_is_unknown_may_sit_anywhere() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b"))
    assert [r.key.name for r in ledger.occupants(row("a", owned="1"))] == ["b"]
    assert ledger.waits_for(row("a", owned="1")) == {row("b").key}  # neither is its own known


def test_while_nothing_may_be_sent_a_doubt_asks_for_no_call() -> None:
    """Else it would be tried again and again at once."""
    ledger = ledger_with(row("b", acknowledged="1-7"))
    ledger.put(row("a", owned="1"))
    ledger.mark_unconfirmed(row("a").key, Pinning(CpuSet.parse("1"), None))
    known = ledger.get(row("a").key)
    assert known is not None
    assert not ledger.due(known)


@pytest.mark.parametrize(
    ("text", "full"), [("id-a", "id-a"), ("id-al", "id-alone"), ("id-", "id-"), ("", ""), ("x", "x")]
)
def test_an_unambiguous_prefix_stands_for_an_id(text: str, full: str) -> None:
    assert ledger_with(row("a"), row("alone")).full_id(text) == full
    assert ledger_with(row("a")).full_id("") == ""


def test_what_is_tried_on_a_copy_changes_nothing_and_nobody_hears_of_it() -> None:
    changed, heard = Signal[[]](), list[str]()
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1-2"), row("b", acknowledged="3-7"), changed=changed)
    changed.connect(lambda: heard.append("a change"))
    before = ledger.version, ledger.active(), ledger.allocations, dict(ledger.desired())
    trial = ledger.copy()
    assert (trial.allocations, trial.active(), cpus(trial.sendable(row("b").key))) == (*before[2:0:-1], "3-7")
    trial.put(row("c", owned="4", acknowledged="4"))
    trial.confirm(row("b").key, Pinning(CpuSet.parse("3"), None))
    trial.leave_to_another("id-b", CpuSet.parse("5"))
    trial.drop(row("a").key)
    assert (ledger.version, ledger.active(), ledger.allocations, dict(ledger.desired())) == before
    assert (str(confirmed_cpus(ledger, row("a").key)), heard) == ("1-2", [])
