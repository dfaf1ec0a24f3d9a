from dataclasses import replace

from cri_proxy.node.decision_log.incidents import Incident, IncidentKind
from cri_proxy.node.status.history import events_of, other_events
from cri_proxy.node.status.model import ReloadView
from cri_proxy.state.decisions import HistoryEntry, Outcome
from policies.base import Reason
from tests.fakes.views import decision_record

DECIDED = 1_700_000_000.0
RECORD = replace(
    decision_record(),
    history=(
        HistoryEntry(DECIDED - 10, "refused", "refused: no room", 3, DECIDED - 5),
        HistoryEntry(DECIDED + 10, "lifted", "from socket #0 to root"),
    ),
)


def test_a_decision_and_what_came_before_and_after_it_are_events() -> None:
    found = list(events_of(RECORD, 0))
    assert [(event.what, event.at_seconds - DECIDED, event.count) for event in found] == [
        ("placed", 0, 1),
        ("refused", -10, 3),
        ("lifted", 10, 1),
    ]
    assert found[0].text == "placed in socket #0 on CPUs 2-3"
    assert str(found[0]) == "default/web/c0"


def test_what_is_older_is_left_out_unless_it_happened_again() -> None:
    assert [event.what for event in events_of(RECORD, DECIDED - 7)] == ["placed", "refused", "lifted"]
    assert [event.what for event in events_of(RECORD, DECIDED + 1)] == ["lifted"]


def test_a_refusal_says_why() -> None:
    refused = replace(RECORD, outcome=Outcome.REFUSED, granted=None, reasons=(Reason("cpu-full", "no room"),))
    assert next(events_of(refused, DECIDED)).text == "refused: no room"


def test_a_restored_container_has_no_decision_to_tell() -> None:
    restored = replace(RECORD, decided_at_seconds=None, history=())
    assert list(events_of(restored, 0)) == []


def test_ends_and_the_last_reload_are_events() -> None:
    ended = (Incident(1, 5.0, IncidentKind.ENDED, "d", "a", "u", "c", "stopped"),)
    reload = ReloadView(7.0, "rejected", "policy: unknown", "f.yaml", is_asked=False)
    found = [(event.pod, event.what, event.text) for event in other_events(ended, reload, 0)]
    assert found == [("a", "ended", "stopped"), ("", "configuration", "rejected: policy: unknown")]
    assert [event.what for event in other_events(ended, reload, 6)] == ["configuration"]
    assert list(other_events(ended, None, 6)) == []
