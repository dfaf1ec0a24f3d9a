from dataclasses import replace

import pytest

from cri_proxy.node.decision_log.records import PUT_OFF, Records
from cri_proxy.node.decision_log.summary import Circumstances
from cri_proxy.node.persistence import Persistence
from cri_proxy.state.decisions import KEPT_WITHOUT_ROW, DecisionRecord, Granted, GrantMove, Outcome, pack
from cri_proxy.state.rows import GonePod, Row, Saved
from cri_proxy.tasks import Tasks
from policies.base import CpuKind, Grant, Pinning, Placed, Reason
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.clock import ManualClock
from tests.fakes.grants import row
from tests.fakes.rows import make_row
from tests.fakes.store import MemoryStore

ROW, OTHER = row("a", owned="2-3"), row("b", owned="4")
PLACED = DecisionRecord(
    ROW.grant.request,
    Outcome.PLACED,
    1.0,
    granted=Granted("root", CpuKind.EXCLUSIVE, Pinning(CpuSet.parse("2-3"), None)),
)
DRAWN = (Reason("affinity", "b draws it"),)
REFUSED = DecisionRecord(ROW.grant.request, Outcome.REFUSED, 2.0, reasons=(Reason("cpu-full", "no room"),))
REFUSED_OTHER = replace(REFUSED, request=OTHER.grant.request)


def records(*confirmed: DecisionRecord) -> Records:
    kept = Records(ManualClock(), pytest.fail)
    for record in confirmed:
        opened(kept, record)
        kept.confirmed(ROW)
    return kept


def opened(kept: Records, record: DecisionRecord, live: Row | None = None, moved: tuple[Grant, ...] = ()) -> None:
    kept.open(
        record, Placed(ROW.grant, Pinning(None, None), (), moved), Circumstances(live, affinity_reasons=lambda: DRAWN)
    )


def last(kept: Records, of: DecisionRecord = PLACED) -> DecisionRecord:
    record = kept.get(of.key)
    assert record is not None
    return record


def said(kept: Records, of: DecisionRecord = PLACED) -> list[tuple[str, str]]:
    return [(change.what, change.text) for change in last(kept, of).history]


def test_a_place_counts_at_once_and_is_confirmed_later() -> None:
    kept = records()
    opened(kept, PLACED)
    assert not last(kept).is_confirmed
    assert kept.confirmed(ROW) is not None
    assert last(kept).is_confirmed


def test_what_was_confirmed_already_is_not_told_again() -> None:
    assert records(PLACED).confirmed(ROW) is None


def test_a_place_that_is_given_back_says_why() -> None:
    kept = records()
    opened(kept, PLACED)
    failed = kept.given_up(ROW, "no such image")
    assert (failed.outcome, failed.failure, last(kept)) == (Outcome.NOT_CREATED, "no such image", failed)


def test_a_new_attempt_goes_on_with_what_happened_to_the_last() -> None:
    kept = records(PLACED)
    opened(kept, replace(PLACED, decided_at_seconds=9.0))
    assert said(kept) == [("placed", "placed in root on CPUs 2-3")]


def test_a_refused_new_attempt_is_what_counts() -> None:
    kept = records(PLACED)
    kept.refused(REFUSED, Circumstances())
    assert (last(kept).outcome, said(kept)) == (Outcome.REFUSED, [("placed", "placed in root on CPUs 2-3")])


def test_a_container_that_finds_no_other_place_is_not_told_to_be_resized() -> None:
    kept = records(PLACED)
    kept.refused(replace(REFUSED, request=ROW.grant.request), Circumstances(ROW))
    assert said(kept) == [("no-other-place", "no room")]


def test_a_refused_new_size_leaves_the_decision_and_is_noted() -> None:
    kept = records(PLACED)
    kept.refused(replace(REFUSED, request=replace(ROW.grant.request, cpu_request_mcpu=9000)), Circumstances(ROW))
    assert (last(kept).outcome, said(kept)) == (Outcome.PLACED, [("resize-refused", "no room")])


def test_a_new_size_that_is_undone_brings_the_decision_before_it_back() -> None:
    kept = records(PLACED)
    opened(kept, replace(PLACED, decided_at_seconds=9.0), ROW)
    kept.kept(ROW, "the runtime refused: no")
    assert last(kept).decided_at_seconds == 1.0
    assert said(kept) == [("resize-undone", "the runtime refused: no")]


def test_one_that_moved_to_a_better_place_names_the_container_beside_which_it_had_too_few_cpus() -> None:
    moved = GrantMove(OTHER.grant.request.full_name, "socket #0", "socket #1", NodeSet(), NodeSet(), is_rebalanced=True)
    kept = records()
    opened(kept, replace(PLACED, moves=(moved,)), moved=(OTHER.grant,))
    kept.confirmed(ROW)
    (change,) = last(kept, DecisionRecord(OTHER.grant.request, Outcome.PLACED, 0)).history
    text = "from socket #0 to socket #1, as too few CPUs were left beside default/pod-1/a"
    assert (change.what, change.text) == ("rebalanced", text)


def test_whoever_made_room_has_a_line_once_it_is_for_somebody() -> None:
    moved = GrantMove(OTHER.grant.request.full_name, "socket #0", "root", NodeSet(), NodeSet())
    kept = records()
    opened(kept, replace(PLACED, moves=(moved,)), moved=(OTHER.grant,))
    assert kept.get(OTHER.key) is None
    kept.confirmed(ROW)
    (change,) = last(kept, DecisionRecord(OTHER.grant.request, Outcome.PLACED, 0)).history
    assert (change.what, change.text) == ("lifted", "from socket #0 to root, to make room for default/pod-1/a")


def test_a_container_that_was_placed_again_says_what_changed_and_why() -> None:
    kept = records(PLACED)
    kept.changed(ROW.grant, replace(ROW.grant, pool="socket #1"), "CPUs went away")
    assert said(kept) == [("re-placed", "from root to socket #1: CPUs went away")]


def test_a_change_while_a_new_size_is_open_is_kept_whatever_becomes_of_it() -> None:
    kept = records(PLACED)
    opened(kept, PLACED, ROW)
    kept.changed(ROW.grant, replace(ROW.grant, pool="socket #1"), "moved")
    kept.kept(ROW, "no")
    assert [what for what, _ in said(kept)] == ["re-placed", "resize-undone"]


def test_a_container_that_ran_before_is_adopted() -> None:
    kept = records()
    kept.changed(None, ROW.grant, "had no grant yet")
    assert last(kept).outcome is Outcome.ADOPTED


def test_only_the_newest_without_a_row_are_kept() -> None:
    kept = records(PLACED)
    for number in range(KEPT_WITHOUT_ROW + 2):
        each = replace(row(f"r{number}").grant.request)
        kept.refused(replace(REFUSED, request=each), Circumstances())
    assert len(kept.names()) == KEPT_WITHOUT_ROW + 1
    assert kept.get(row("r1").key) is None
    assert kept.get(ROW.key) is not None


def test_a_container_whose_row_is_gone_is_known_for_a_while() -> None:
    kept = records(PLACED)
    kept.forgotten([ROW.key, OTHER.key])
    assert kept.get(ROW.key) is not None
    for number in range(KEPT_WITHOUT_ROW):
        kept.refused(replace(REFUSED, request=row(f"r{number}").grant.request), Circumstances())
    assert kept.get(ROW.key) is None


async def test_what_becomes_of_a_decision_is_saved_and_recalled() -> None:
    store, tasks = MemoryStore(), Tasks()
    kept = records()
    kept.recall(Saved(), Persistence(store, tasks, lambda _: None))
    opened(kept, PLACED)
    await tasks.join()
    assert store.load() == Saved()
    kept.confirmed(ROW)
    await tasks.join()
    saved = store.load()
    again = Records(ManualClock(), pytest.fail)
    again.recall(saved, Persistence(MemoryStore(), Tasks(), lambda _: None))
    assert again.get(ROW.key) == replace(PLACED, is_confirmed=True, affinity_reasons=("b draws it",))
    assert again.names() == {ROW.key: PLACED.request.full_name}


async def test_a_record_is_known_before_it_is_packed_and_saved() -> None:
    store, tasks = MemoryStore(), Tasks()
    saver = Persistence(store, tasks, lambda _: None, gather_seconds=60)
    kept = records()
    kept.recall(Saved(), saver)
    opened(kept, PLACED)
    versions = [kept.version]
    kept.confirmed(ROW)
    versions.append(kept.version)
    assert last(kept).is_confirmed
    assert kept.names() == {ROW.key: PLACED.request.full_name}
    versions.append(kept.version)
    assert (versions[0] < versions[1], versions[2]) == (True, versions[1])  # to pack it changes nothing
    assert store.load() == Saved()
    kept.refused(REFUSED_OTHER, Circumstances())
    assert kept.refused_since(0.0) == (REFUSED_OTHER.key,)
    saver.stop_gathering()
    await tasks.join()
    assert {decision.key for decision in store.load().decisions} == {ROW.key, REFUSED_OTHER.key}


async def test_few_records_wait_to_be_packed() -> None:
    saver = Persistence(MemoryStore(), Tasks(), lambda _: None, gather_seconds=60)
    kept = records()
    kept.recall(Saved(), saver)
    for number in range(2 * PUT_OFF - 1):
        kept.refused(replace(REFUSED, request=row(f"r{number}").grant.request), Circumstances())
    assert (len(kept._late), len(kept._packed)) == (PUT_OFF - 1, PUT_OFF)
    saver.stop_gathering()


async def test_of_a_pod_that_is_gone_nothing_is_saved_later() -> None:
    store, tasks = MemoryStore(), Tasks()
    saver = Persistence(store, tasks, lambda _: None, gather_seconds=60)
    kept = records()
    kept.recall(Saved(), saver)
    kept.refused(REFUSED_OTHER, Circumstances())
    kept.pods_gone([REFUSED_OTHER.key.pod_uid])
    saver.save_later([], [GonePod(REFUSED_OTHER.key.pod_uid)])
    saver.stop_gathering()
    await tasks.join()
    assert (store.load(), kept.get(REFUSED_OTHER.key)) == (Saved(), None)


def test_a_record_that_cannot_be_read_is_told_of_once_and_forgotten() -> None:
    told: list[str] = []
    kept = Records(ManualClock(), told.append)
    damaged = replace(pack(PLACED), text="{")
    kept.recall(Saved(decisions=(damaged,)), Persistence(MemoryStore(), Tasks(), lambda _: None))
    assert (kept.get(ROW.key), kept.get(ROW.key), kept.names()) == (None, None, {})
    assert len(told) == 1
    assert told[0].startswith("default/pod-1/a: ")


def test_a_decision_of_this_process_counts_more_than_a_saved_one() -> None:
    kept = records(PLACED)
    older = replace(PLACED, decided_at_seconds=0.5)
    kept.recall(Saved(decisions=(pack(older),)), Persistence(MemoryStore(), Tasks(), lambda _: None))
    assert last(kept).decided_at_seconds == 1.0


def test_late_refusals_are_found_newest_first() -> None:
    kept = records(PLACED)
    for number in range(4):
        late = replace(REFUSED, request=row(f"r{number}").grant.request, decided_at_seconds=float(number))
        kept.refused(late, Circumstances())
    assert [key.name for key in kept.refused_since(1.0)] == ["r3", "r2", "r1"]


def test_what_happens_again_and_again_is_noted_once() -> None:
    kept = records(PLACED)
    for _ in range(3):
        kept.happened(ROW, "drifted", "put back")
    assert said(kept) == [("drifted", "put back")]
    assert [entry.count for entry in last(kept).history] == [3]


def test_the_same_failure_of_every_attempt_is_counted() -> None:
    kept = records()
    for attempt in range(1, 6):
        opened(kept, replace(PLACED, decided_at_seconds=float(attempt)))
        kept.given_up(ROW, f"the runtime refused: {attempt}f{attempt}a: exit status {attempt}")
    (entry,) = last(kept).history
    assert (entry.what, entry.count, entry.at_seconds, entry.last_at_seconds) == ("not created", 4, 1.0, 4.0)
    assert last(kept).failure == "the runtime refused: 5f5a: exit status 5"


def test_what_is_known_of_a_pod_goes_with_it() -> None:
    kept = records()
    kept.refused(REFUSED, Circumstances())
    kept.refused(replace(REFUSED, request=make_row("pod-2").grant.request), Circumstances())
    opened(kept, PLACED)
    kept.pods_gone({ROW.key.pod_uid})
    assert [key.pod_uid for key in kept.names()] == ["pod-2"]
