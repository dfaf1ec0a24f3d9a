"""What the ledger makes of a container's states: one that is gone, exited, not created yet, or without a pinning."""

from dataclasses import replace

import pytest

from cri_proxy.node.ledger.ledger import Ledger
from cri_proxy.node.ledger.start_calls import StartCall
from cri_proxy.signals import Signal
from cri_proxy.state.rows import Row, SandboxRow
from policies.base import Allocations, ContainerKey, CpuKind, Grant, Pinning, Pod, QosClass
from policies.preferences import Preferences
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.grants import NODES, ledger_with, row, small_policy
from tests.fakes.rows import confirmed_cpus

GONE = ContainerKey("pod-1", "gone")


def pinned(cpus: str) -> Pinning:
    return Pinning(CpuSet.parse(cpus), None)


def keys(rows: tuple[Row, ...] | list[Row]) -> list[str]:
    return [each.key.name for each in rows]


def preserved(name: str, cpus: str) -> Row:
    """A container that keeps the cpuset it brought along."""
    plain = row(name, acknowledged=cpus)
    wish = replace(plain.grant.request, preferences=Preferences(preserve_cpu=True))
    return replace(plain, grant=Grant(wish, "", CpuKind.PRESERVE))


def exited(name: str, cpus: str) -> Row:
    return replace(row(name, owned=cpus, acknowledged=cpus), state="exited")


def test_what_is_heard_of_a_container_that_is_gone_or_has_exited_is_not_recorded() -> None:
    ledger = ledger_with(row("b", acknowledged="2-7"))
    ledger.put(exited("a", "1"))
    before = ledger.version, tuple(ledger.rows())
    for key in (GONE, row("a").key):
        assert ledger.confirm(key, pinned("3")) is None
        ledger.mark_unconfirmed(key, pinned("3"))
        assert ledger.unconfirmed(key) == Pinning(None, None)
    assert (ledger.version, tuple(ledger.rows())) == before


def test_nothing_is_wanted_of_a_container_that_is_gone_or_has_exited() -> None:
    ledger = ledger_with(row("b", acknowledged="2-7"))
    ledger.put(exited("a", "1"))
    for key in (GONE, row("a").key):
        assert ledger.sendable(key) is None
    assert ledger.can_step_aside(GONE) is False
    assert ledger.waits_for(exited("a", "1")) == frozenset()
    assert not ledger.due(exited("a", "1"))


def test_a_container_that_exits_gives_its_cpus_back_at_once() -> None:
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1-2"), row("b", acknowledged="3-7"))
    ledger.put(exited("a", "1-2"))
    assert not confirmed_cpus(ledger, row("a").key)
    sendable = ledger.sendable(row("b").key)
    assert sendable is not None
    assert str(sendable.cpus) == "1-7"


def test_a_container_whose_pinning_is_unknown_again_has_nothing_alone() -> None:
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1-2"))
    ledger.put(row("a", owned="1-2"))
    assert not confirmed_cpus(ledger, row("a").key)


def test_a_container_that_was_dropped_is_not_found_by_any_name() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="2-7"))
    ledger.drop(GONE, row("a").key)
    assert (keys(list(ledger.rows())), keys(ledger.active())) == (["b"], ["b"])
    assert (ledger.holder("id-a"), ledger.full_id("id-a"[:4])) == (None, "id-a")
    assert [grant.container.name for grant in ledger.allocations.grants] == ["b"]
    assert ledger.grants_with([row("a").grant, row("b").grant])[0].key.name == "b"
    assert not confirmed_cpus(ledger, row("a").key)
    ledger.put(replace(row("a"), container_id="new"))
    assert ledger.holder("id-a") is None


def test_a_row_that_is_put_again_is_found_by_its_id() -> None:
    ledger = ledger_with(row("a", acknowledged="1-7"))
    ledger.put(row("a", acknowledged="1-7"))
    found = ledger.holder("id-a")
    assert found is not None
    assert (found.key.name, ledger.full_id("id-a")) == ("a", "id-a")


def test_a_whole_id_stands_for_itself_though_others_begin_with_it() -> None:
    ledger = ledger_with(replace(row("a"), container_id="1"), replace(row("b"), container_id="12"))
    assert [ledger.full_id(text) for text in ("1", "12", "2")] == ["1", "12", "2"]


def test_the_next_row_comes_after_all_that_were_loaded() -> None:
    ledger = ledger_with(replace(row("a"), created_order=7))
    assert (ledger.next_order(), ledger.next_order()) == (8, 9)


def test_a_pinning_that_changes_the_cpus_withheld_is_a_change_of_the_grants() -> None:
    ledger = ledger_with(preserved("a", "1-2"), row("b", acknowledged="3-7"))
    version = ledger.version
    ledger.confirm(row("a").key, pinned("1"))
    assert (str(ledger.allocations.withheld), ledger.version > version) == ("1", True)
    version = ledger.version
    ledger.confirm(row("b").key, pinned("3-6"))
    assert ledger.version == version  # the grants are what they were, so decisions that are being made stay valid


def test_a_confirmed_pinning_and_a_change_of_the_grants_are_heard_of() -> None:
    changed, heard = Signal[[]](), list[str]()
    ledger = ledger_with(row("b", acknowledged="2-7"), changed=changed)
    changed.connect(lambda: heard.append("a change"))
    ledger.confirm(row("b").key, pinned("1-7"))
    assert heard == ["a change"]
    ledger.put(row("c"))
    assert heard == ["a change"] * 2


def test_fields_that_were_not_sent_are_not_in_doubt() -> None:
    ledger = ledger_with(row("b", acknowledged="1-7"))
    ledger.mark_unconfirmed(row("b").key, Pinning(None, NODES))
    found = ledger.get(row("b").key)
    assert found is not None
    assert (found.acknowledged, found.unconfirmed) == (pinned("1-7"), Pinning(None, NODES))


def test_an_update_in_doubt_to_a_container_without_a_known_pinning_leaves_it_unknown() -> None:
    ledger = ledger_with(row("b"))
    ledger.mark_unconfirmed(row("b").key, pinned("1-3"))
    found = ledger.get(row("b").key)
    assert found is not None
    assert (found.acknowledged, found.unconfirmed) == (None, pinned("1-3"))


def test_an_update_in_doubt_adds_to_what_is_known_and_not_to_what_is_not() -> None:
    ledger = ledger_with(replace(row("b"), acknowledged=Pinning(None, NodeSet.parse("0"))))
    ledger.mark_unconfirmed(row("b").key, Pinning(CpuSet.parse("1-3"), NodeSet.parse("1")))
    found = ledger.get(row("b").key)
    assert found is not None
    assert found.acknowledged == Pinning(None, NODES)


def test_a_container_that_others_left_has_its_contested_cpus_alone() -> None:
    """It grew by CPU 2 while a sharer ran there; when the sharer is confirmed elsewhere, the CPU is its own."""
    ledger = ledger_with(row("a", acknowledged="1-7"), row("b", acknowledged="1-7"))
    ledger.put(replace(row("a", owned="1-2"), acknowledged=pinned("1-7")))
    ledger.confirm(row("a").key, pinned("1-2"))
    assert not confirmed_cpus(ledger, row("a").key)
    ledger.confirm(row("b").key, pinned("3-7"))
    assert str(confirmed_cpus(ledger, row("a").key)) == "1-2"


def test_of_contested_cpus_a_container_gets_only_those_that_are_still_its_own() -> None:
    ledger = ledger_with(row("a", acknowledged="1-7"), row("b", acknowledged="1-7"))
    ledger.put(replace(row("a", owned="1-2"), acknowledged=pinned("1-7")))
    ledger.confirm(row("a").key, pinned("1-2"))
    ledger.put(replace(row("a", owned="1"), acknowledged=pinned("1-2")))
    ledger.confirm(row("b").key, pinned("3-7"))
    assert str(confirmed_cpus(ledger, row("a").key)) == "1"


@pytest.mark.parametrize("is_dropped", [False, True])
def test_what_was_left_to_another_manager_is_free_when_its_container_has_gone(is_dropped: bool) -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"))
    ledger.leave_to_another("id-a", CpuSet.parse("1-2"))
    assert str(ledger.allocations.withheld) == "1-2"
    ledger.drop(row("a").key) if is_dropped else ledger.put(exited("a", "1"))
    assert str(ledger.allocations.withheld) == ""


def test_a_container_without_an_id_sits_on_nobodys_cpus_and_needs_no_call() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), replace(row("b", state="reserved"), container_id=""))
    assert ledger.occupants(row("a", owned="1")) == ()
    assert (ledger.unmet(), ledger.unsettled()) == ((), ())


def test_a_container_does_not_wait_for_itself() -> None:
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1-2"))
    created = row("a", owned="1-2", acknowledged="1-2", state="created")
    assert ledger.waits_for(created) == frozenset()
    ledger.put(row("b", owned="3", acknowledged="2"))
    assert ledger.waits_for(row("a", owned="1-2", acknowledged="1")) == {row("b").key}


@pytest.mark.parametrize(("state", "waits"), [("running", False), ("created", True)])
def test_a_container_that_runs_waits_only_for_cpus_that_it_is_not_on(state: str, waits: bool) -> None:
    ledger = ledger_with(row("a", acknowledged="1-7"), row("b", acknowledged="2-7"))
    wanted = replace(row("a", owned="2-3", acknowledged="1-7"), state=state)  # type: ignore[arg-type]
    ledger.put(wanted)
    assert (row("b").key in ledger.waits_for(wanted)) is waits


def test_cpus_that_are_blocked_are_among_those_asked_about() -> None:
    ledger = ledger_with(row("a", owned="1-2", acknowledged="1-2"), row("b", acknowledged="3-7"))
    assert str(ledger.blocked_cpus(row("b"), CpuSet.parse("2-3"))) == "2"


@pytest.mark.parametrize("is_left", [False, True])
def test_only_containers_that_are_ours_to_move_sit_on_anothers_cpus(is_left: bool) -> None:
    memory_only = replace(row("c"), acknowledged=Pinning(None, NODES))
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="1-7"), memory_only)
    if is_left:
        ledger.leave_to_another("id-b", CpuSet.parse("1-7"))
        assert ledger.desired()[row("b").key] == Pinning(None, None)
    assert keys(ledger.occupants(row("a", owned="1"))) == ([] if is_left else ["b"])
    assert keys(ledger.unmet()) == (["c"] if is_left else ["b", "c"])


def test_nobody_occupies_cpus_of_a_container_that_owns_none_or_is_not_ours_to_move() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="1-7"), row("c"))
    assert keys(ledger.occupants(row("a", owned="1"))) == ["b", "c"]
    assert ledger.occupants(row("b")) == ()
    ledger.leave_to_another("id-a", CpuSet.parse("1"))
    assert ledger.occupants(row("a", owned="1")) == ()


def test_of_a_start_under_way_nothing_remains_for_its_own_next_attempt_or_if_it_keeps_its_cpuset() -> None:
    ledger, first = ledger_with(row("b", acknowledged="2-7")), row("a", owned="1", acknowledged="1")
    ledger.starts.begin(StartCall(first, 0.0, 0))
    ledger.starts.begin(StartCall(preserved("c", "1"), 0.0, 0))
    ledger.put(second := replace(first, container_id="next"))
    assert ledger.remnants() == (first,)
    assert ledger.occupants(second) == ()


def test_the_rows_of_a_pod_and_of_a_sandbox_are_found() -> None:
    ledger = ledger_with(row("a"), row("b"), exited("c", "1"))
    elsewhere = row("d")
    request = replace(elsewhere.grant.request, container=ContainerKey("pod-2", "d"))
    ledger.put(replace(elsewhere, grant=replace(elsewhere.grant, request=request), sandbox_id="sandbox-2"))
    assert (keys(ledger.of_pod("pod-1")), keys(ledger.of_pod("pod-2"))) == (["a", "b"], ["d"])
    assert (keys(ledger.of_sandbox("sandbox-1")), keys(ledger.of_sandbox("sandbox-2"))) == (["a", "b", "c"], ["d"])


def test_another_policy_with_the_same_grants_wants_something_else() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="2-7"))
    assert str(ledger.desired()[row("b").key].cpus) == "2-7"
    assert ledger.use_policy(small_policy("0,7"), ledger.allocations) == ()
    assert str(ledger.desired()[row("b").key].cpus) == "2-6"


def test_a_copy_knows_ids_and_what_is_left_to_others() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="2-7"))
    ledger.leave_to_another("id-a", CpuSet.parse("1"))
    trial = ledger.copy()
    trial.drop(row("b").key)
    found = trial.holder("id-a")
    assert found is not None
    assert (found.key.name, str(trial.allocations.withheld)) == ("a", "1")


def test_another_policy_changes_the_rows_whose_grants_it_changes() -> None:
    ledger = ledger_with(row("a", owned="1", acknowledged="1"), row("b", acknowledged="2-7"))
    after = Allocations().with_grants(row("a", owned="2").grant, row("b").grant, row("gone", owned="3").grant)
    changed = ledger.use_policy(ledger.policy, after)
    assert [(each.key.name, str(each.grant.owned)) for each in changed] == [("a", "2")]
    assert [str(grant.owned) for grant in ledger.allocations.grants] == ["2", ""]


def test_a_copy_has_sandboxes_of_its_own() -> None:
    ledger = Ledger(ledger_with().policy)
    pod = Pod("pod-1", "pod-1", "default", QosClass.GUARANTEED)
    ledger.sandboxes["s1"] = SandboxRow("s1", pod, (), "", b"")
    trial = ledger.copy()
    assert trial.full_sandbox_id("s") == "s1"
    trial.sandboxes.clear()
    assert list(ledger.sandboxes) == ["s1"]


def test_a_container_occupies_what_it_may_be_on_of_anothers_cpus() -> None:
    ledger, owner = ledger_with(), row("a", owned="1-2")
    others = (row("b", acknowledged="2-7"), row("c"), replace(row("d"), acknowledged=Pinning(None, NODES)))
    assert [str(ledger.occupied_by(owner, other)) for other in others] == ["2", "1-2", ""]
