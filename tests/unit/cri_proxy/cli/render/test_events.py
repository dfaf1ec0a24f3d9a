from cri_proxy.cli.render.events import render_events
from cri_proxy.node.status.decision_views import EventView, HistoryView

AT = 1_700_000_000.0
PLACED = EventView("shop", "web", "c", AT, "placed", "placed in root on CPU 3")


def test_an_event_is_a_line_with_its_moment() -> None:
    text = render_events(HistoryView((PLACED,), 0.0), 1.0)
    assert text == "2023-11-14 22:13:20  shop/web/c: placed in root on CPU 3"


def test_a_code_that_the_sentence_lacks_stands_before_it_with_repetitions_behind() -> None:
    moved = EventView("shop", "web", "c", AT, "lifted", "from socket #0 to root", 3, AT + 60)
    text = render_events(HistoryView((moved,), 0.0), 1.0)
    assert text.endswith("lifted: from socket #0 to root (3 times, last 2023-11-14 22:14:20)")


def test_what_happens_to_no_container_happens_to_the_node() -> None:
    reload = EventView("", "", "", AT, "configuration", "applied")
    assert render_events(HistoryView((reload,), 0.0), 1.0).endswith("  the node: configuration: applied")


def test_no_event_and_what_cannot_be_known_are_said() -> None:
    nothing = render_events(HistoryView((), AT), AT - 60)
    first, second = nothing.splitlines()
    assert first == "nothing has happened since 2023-11-14 22:12:20"
    assert second.startswith("the daemon started 2023-11-14 22:13:20; what ended before")
