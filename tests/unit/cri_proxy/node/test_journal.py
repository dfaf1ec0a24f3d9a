"""One log line per decision, and the last decision of every container."""

from dataclasses import replace

from cri_proxy import events
from cri_proxy.node import journal as module
from cri_proxy.node.journal import Journal
from policies.base import Allocations, Decision, Placed, Reason, Rejected, Update
from tests.fakes.clock import ManualClock
from tests.fakes.grants import request, row, small_policy

Line = tuple[str, str, dict[str, object]]
REJECTED = Rejected(Reason("full", "no room"))


class Lines:
    """A log that keeps its lines: level, event, fields."""

    def __init__(self) -> None:
        self.lines: list[Line] = []

    def info(self, event: str, **fields: object) -> None:
        self.lines.append(("info", event, fields))

    def warning(self, event: str, **fields: object) -> None:
        self.lines.append(("warning", event, fields))

    def error(self, event: str, **fields: object) -> None:
        self.lines.append(("error", event, fields))


def tell(decision: Decision, *problems: str) -> tuple[Journal, list[Line]]:
    log = Lines()
    journal = Journal(log, ManualClock())
    journal.decided(request("a", 2000), decision, problems=problems, seconds=0.00123456)
    return journal, log.lines


def placed() -> Placed:
    decision = small_policy().decide(Allocations(), request("a", 2000))
    assert isinstance(decision, Placed)
    return decision


def test_a_placement_is_one_line_with_what_was_chosen_why_and_whom_it_displaced() -> None:
    decision = placed()
    other = row("b")
    _, ((level, event, fields),) = tell(replace(decision, updates=(Update(other.key, decision.pinning),)))
    assert (level, event) == ("info", events.PLACED)
    assert fields == {
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
        "duration_seconds": 0.001235,
    }


def test_a_refusal_is_one_warning_with_its_sentence() -> None:
    _, ((level, event, fields),) = tell(REJECTED)
    assert (level, event, fields["reason"], fields["code"]) == ("warning", events.REFUSED, "no room", "full")


def test_every_annotation_that_was_not_understood_has_a_line() -> None:
    _, lines = tell(placed(), "first", "second")
    assert [(event, fields["reason"]) for _, event, fields in lines[:2]] == [
        (events.ANNOTATION_IGNORED, "first"),
        (events.ANNOTATION_IGNORED, "second"),
    ]


def test_the_last_decision_of_a_container_is_kept() -> None:
    journal, _ = tell(placed())
    journal.decided(request("a", 2000), REJECTED, problems=(), seconds=0.0)
    record = journal.record_of(request("a", 2000).container)
    assert record is not None
    assert (record.decision, record.decided_at_seconds, len(journal.records())) == (REJECTED, 1_000_000.0, 1)


def test_only_so_many_decisions_are_kept_the_oldest_go() -> None:
    journal = Journal(Lines(), ManualClock())
    for number in range(module.KEPT_DECISIONS + 1):
        journal.decided(request(f"c{number}", 0), REJECTED, problems=(), seconds=0.0)
    assert len(journal.records()) == module.KEPT_DECISIONS
    assert journal.records()[0].request.container.name == "c1"


def test_a_fault_of_ours_names_what_failed_and_where_and_is_counted() -> None:
    log = Lines()
    journal = Journal(log, ManualClock())
    try:
        request("a", 1).container.name.index("x")
    except ValueError as error:
        journal.failed_open("CreateContainer", error)
    (level, event, fields) = log.lines[0]
    assert (level, event, fields["what"], journal.faults) == ("error", events.FAULT, "CreateContainer", 1)
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


def test_what_an_operator_must_see_is_louder_than_the_rest() -> None:
    log = Lines()
    journal = Journal(log, ManualClock())
    for event in (events.VIOLATION, events.RUNTIME_AWAY, events.RECOVERED):
        journal.noted(event)
    assert [level for level, _, _ in log.lines] == ["error", "warning", "info"]
