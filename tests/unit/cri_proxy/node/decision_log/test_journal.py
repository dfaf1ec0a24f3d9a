from dataclasses import replace

import pytest

from cri_proxy import events
from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Distribution
from cri_proxy.node.decision_log.journal import FAULT_PERIOD_SECONDS, FAULTS_LOGGED, Journal, notable_code, takes_memory
from cri_proxy.node.decision_log.summary import Circumstances
from cri_proxy.node.persistence import Persistence
from cri_proxy.state.decisions import DecisionRecord, Outcome, pack
from cri_proxy.state.rows import Saved
from cri_proxy.tasks import Tasks
from policies.base import Allocations, Decision, Pinning, Placed, Reason, Rejected, Update
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.clock import ManualClock
from tests.fakes.counters import count_of
from tests.fakes.grants import request, row, small_policy
from tests.fakes.rows import make_record
from tests.fakes.store import MemoryStore

Line = tuple[str, str, dict[str, object]]
REJECTED = Rejected(Reason("full", "no room"))


class Lines:
    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.details: list[tuple[str, dict[str, object]]] = []

    def debug(self, event: str, **fields: object) -> None:
        self.details.append((event, fields))

    def info(self, event: str, **fields: object) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        self.lines.append(("error", event, fields))


def tell(decision: Decision, *problems: str, circumstances: Circumstances | None = None) -> tuple[Journal, Lines]:
    log = Lines()
    journal = Journal(log, ManualClock())
    journal.decided(
        request("a", 2000),
        decision,
        problems=problems,
        seconds=0.00123456,
        circumstances=circumstances or Circumstances(),
    )
    return journal, log


def test_who_debugs_sees_every_decision_as_a_whole() -> None:
    _, log = tell(placed())
    ((event, fields),) = log.details
    record = fields["decision"]
    assert (event, fields["pod"]) == (events.DECIDED, "pod-1")
    assert isinstance(record, DecisionRecord)
    assert record.reasons == placed().reasons


def placed() -> Placed:
    decision = small_policy().decide(Allocations(), request("a", 2000))
    assert isinstance(decision, Placed)
    return decision


def test_a_place_is_no_news_before_somebody_is_in_it() -> None:
    _, log = tell(placed())
    assert log.lines == []


def test_a_placement_is_one_line_with_what_was_chosen_why_and_whom_it_displaced() -> None:
    decision, other = placed(), row("b")
    known = Circumstances(held=Allocations((other.grant,)))
    journal, log = tell(replace(decision, updates=(Update(other.key, decision.pinning),)), circumstances=known)
    journal.carried_out(replace(row("a"), grant=decision.grant))
    ((level, event, fields),) = log.lines
    assert (level, event) == ("info", events.PLACED)
    assert {name: value for name, value in fields.items() if value is not None} == {
        "namespace": "default",
        "pod": "pod-1",
        "container": "a",
        "kind": "exclusive",
        "pool": decision.grant.pool,
        "cpus": str(decision.pinning.cpus),
        "mems": str(decision.pinning.mems),
        "exclusive": str(decision.grant.owned),
        "reason": decision.reasons[0].text,
        "displaced": ["pod-1/b"],
        "displaced_count": 1,
        "duration_seconds": 0.001235,
    }


def test_a_new_size_of_a_live_container_is_told_as_such() -> None:
    journal, log = tell(placed(), circumstances=Circumstances(row=row("a", owned="2")))
    journal.carried_out(row("a", owned="2-3"))
    assert [event for _, event, _ in log.lines] == [events.RESIZED]


def test_a_live_container_that_gets_another_place_of_the_same_size_was_replaced() -> None:
    live = replace(row("a"), grant=placed().grant)
    journal, log = tell(placed(), circumstances=Circumstances(row=live))
    journal.carried_out(live)
    assert [event for _, event, _ in log.lines] == [events.REPLACED]


def test_a_place_that_nobody_came_to_is_one_warning() -> None:
    journal, log = tell(placed())
    journal.not_created(row("a", owned="2-3"), "no such image", code="runtime-refused")
    ((level, event, fields),) = log.lines
    assert (level, event, fields["reason"], fields["exclusive"]) == (
        "warning",
        events.ROLLED_BACK,
        "no such image",
        "2-3",
    )


def test_a_new_size_that_was_undone_is_one_warning() -> None:
    journal, log = tell(placed(), circumstances=Circumstances(row=row("a", owned="2")))
    journal.not_resized(row("a", owned="2"), "the runtime refused")
    assert [(level, event) for level, event, _ in log.lines] == [("warning", events.ROLLED_BACK)]


def test_a_refusal_is_one_warning_with_its_sentence() -> None:
    _, log = tell(REJECTED)
    ((level, event, fields),) = log.lines
    assert (level, event, fields["reason"], fields["code"]) == ("warning", events.REFUSED, "no room", "full")


def test_every_annotation_that_was_not_understood_has_a_line() -> None:
    _, log = tell(placed(), "first", "second")
    assert [(event, fields["reason"]) for _, event, fields in log.lines] == [
        (events.ANNOTATION_IGNORED, "first"),
        (events.ANNOTATION_IGNORED, "second"),
    ]


def test_a_container_that_changes_without_having_asked_is_one_line_with_what_and_why() -> None:
    log, grant = Lines(), row("a", owned="2-3").grant
    Journal(log, ManualClock()).changed(grant, replace(grant, pool="socket #1"), "CPUs went away")
    ((_, event, fields),) = log.lines
    assert (event, fields["change"], fields["reason"]) == (events.REPLACED, "from root to socket #1", "CPUs went away")


def test_memory_that_comes_back_is_told_as_such() -> None:
    log, grant = Lines(), row("a", owned="2-3").grant
    wide = replace(grant, mems=NodeSet.parse("0-1"))
    Journal(log, ManualClock()).changed(wide, replace(wide, mems=NodeSet.of([0])), "there is room again")
    assert [(event, fields["change"]) for _, event, fields in log.lines] == [
        (events.MEMORY_MOVED, "memory nodes from 0-1 to 0")
    ]


def test_the_last_decision_of_a_container_is_kept() -> None:
    journal, _ = tell(REJECTED)
    record = journal.records.get(request("a", 2000).container)
    assert record is not None
    assert (record.outcome, record.decided_at_seconds, len(journal.records.names())) == (
        Outcome.REFUSED,
        1_000_000.0,
        1,
    )


def test_a_record_that_cannot_be_read_is_one_warning() -> None:
    log = Lines()
    journal = Journal(log, ManualClock())
    damaged = replace(pack(make_record()), text="{")
    journal.records.recall(Saved(decisions=(damaged,)), Persistence(MemoryStore(), Tasks(), lambda _: None))
    assert journal.records.get(damaged.key) is None
    assert [(level, event) for level, event, _ in log.lines] == [("warning", events.RECORD_IGNORED)]


def test_a_fault_of_ours_names_what_failed_and_where_and_is_counted() -> None:
    log = Lines()
    journal = Journal(log, ManualClock())
    try:
        request("a", 1).container.name.index("x")
    except ValueError as error:
        journal.failed_open("CreateContainer", error)
    (level, event, fields) = log.lines[0]
    assert (level, event, fields["what"]) == ("error", events.FAULT, "CreateContainer")
    assert "test_a_fault_of_ours" in str(fields["where"])


def test_updates_failures_and_releases_name_the_container() -> None:
    log = Lines()
    journal, each = Journal(log, ManualClock()), row("a", owned="1", acknowledged="1")
    assert each.acknowledged is not None
    journal.updated(each, each.acknowledged)
    journal.update_failed(each, "stuck")
    journal.released(each, "exited")
    journal.noted("anything", count=1)
    assert [(event, fields.get("container")) for _, event, fields in log.lines] == [
        (events.UPDATED, "a"),
        (events.UPDATE_FAILED, "a"),
        (events.RELEASED, "a"),
        ("anything", None),
    ]
    assert [(ended.container, ended.text) for ended in journal.ended.newest] == [("a", "exited")]
    assert journal.incidents.after(0, "n1").incidents == ()


def test_what_an_operator_must_see_is_louder_than_the_rest() -> None:
    log = Lines()
    journal = Journal(log, ManualClock())
    for event in (events.VIOLATION, events.RUNTIME_AWAY, events.RECOVERED):
        journal.noted(event)
    assert [level for level, _, _ in log.lines] == ["error", "warning", "info"]


def test_what_became_of_decisions_is_counted_with_the_code_of_the_reason() -> None:
    journal, _ = tell(REJECTED)
    journal.not_created(row("a", owned="2-3"), "no such image", code="runtime-refused")
    journal.not_created(row("a", owned="2-3"), "disk full", code="store")  # told as a refusal
    journal.noted(events.UNPLACED, container_id="x")
    counts = {s.labels: s.value for s in journal.counters.samples() if s.metric is catalog.DECISIONS and s.value}
    assert counts == {("refused", "other"): 1, ("rolled_back", "runtime-refused"): 1, ("passthrough", "fault"): 1}


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        (["cpus-picked", "pool", "displaced"], "pool"),
        (["cpus-picked", "pool", "lifted"], "lifted"),
        (["cpus-picked", "pool", "device-cpus-kept"], "pool"),
        ([], "pool"),
    ],
)
def test_a_place_is_counted_under_what_was_special_about_it(codes: list[str], code: str) -> None:
    assert notable_code([Reason(each, "") for each in codes]) == code


def test_moves_to_better_places_count_with_the_placement_for_which_they_are() -> None:
    other = row("b").grant
    decision = replace(placed(), moved=(replace(other, pool="socket #1"),), rebalanced=(other.container,))
    journal, _ = tell(decision, circumstances=Circumstances(held=Allocations((other,))))
    assert count_of(journal.counters, catalog.GRANT_CHANGES, "rebalanced") == 0
    journal.carried_out(row("a", owned="2-3"))
    assert count_of(journal.counters, catalog.GRANT_CHANGES, "rebalanced") == 1


def test_every_decision_is_measured_and_every_ignored_annotation_counted() -> None:
    journal, _ = tell(REJECTED, "one is bad", "so is another")
    (measured,) = [s.value for s in journal.counters.samples() if s.metric is catalog.DECISION_SECONDS]
    assert isinstance(measured, Distribution)
    assert sum(measured.counts) == 1
    assert count_of(journal.counters, catalog.ANNOTATIONS_IGNORED) == 2


@pytest.mark.parametrize(
    ("what", "where"),
    [("/runtime.v1.RuntimeService/CreateContainer", "call"), ("background", "background"), ("a new place", "other")],
)
def test_a_fault_is_counted_by_where_it_happened(what: str, where: str) -> None:
    journal = Journal(Lines(), ManualClock())
    journal.failed_open(what, ValueError("no"))
    assert count_of(journal.counters, catalog.FAULTS, where) == 1


async def test_faults_at_one_place_fill_no_log() -> None:
    journal = Journal(lines := Lines(), clock := ManualClock())
    for number in range(FAULTS_LOGGED + 7):
        journal.failed_open("relay", ValueError(f"no preface from client {number}"))
    assert len(lines.lines) == FAULTS_LOGGED
    journal.failed_open("relay", KeyError("another fault"))
    assert len(lines.lines) == FAULTS_LOGGED + 1
    await clock.advance(FAULT_PERIOD_SECONDS)
    journal.failed_open("relay", ValueError("no preface"))
    assert lines.lines[-1][2]["earlier_not_logged"] == 7
    journal.failed_open("relay", ValueError("no preface"))
    assert lines.lines[-1][2]["earlier_not_logged"] is None
    assert count_of(journal.counters, catalog.FAULTS, "relay") == FAULTS_LOGGED + 10


def test_what_went_wrong_in_the_relay_is_a_fault_there() -> None:
    journal = Journal(lines := Lines(), ManualClock())
    journal.failed_open("relay", ValueError("no preface"))
    assert count_of(journal.counters, catalog.FAULTS, "relay") == 1
    assert lines.lines[0][:2] == ("error", events.FAULT)


@pytest.mark.parametrize(
    ("state", "held", "sent", "takes"),
    [
        ("running", "0-1", "0", True),
        ("running", "", "0", True),  # it could use every node
        ("running", "0", "0-1", False),
        ("created", "0-1", "0", False),  # it has no pages yet
        ("running", "0-1", "", False),  # memory is not written
    ],
)
def test_memory_moves_where_a_running_container_loses_a_node(state: str, held: str, sent: str, takes: bool) -> None:
    known = Pinning(CpuSet.parse("1"), NodeSet.parse(held) if held else None)
    each = replace(row("a", owned="1", acknowledged="1"), state=state, acknowledged=known)  # type: ignore[arg-type]
    assert takes_memory(each, Pinning(None, NodeSet.parse(sent) if sent else None)) is takes


def test_a_save_that_succeeded_is_measured() -> None:
    journal = Journal(Lines(), ManualClock())
    journal.saved(0.002)
    (measured,) = [s.value for s in journal.counters.samples() if s.metric is catalog.SAVE_SECONDS]
    assert isinstance(measured, Distribution)
    assert measured.total == 0.002
