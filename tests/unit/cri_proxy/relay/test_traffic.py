from cri_proxy.http2.status import Failed
from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Distribution
from cri_proxy.metrics.metric import Metric, Values
from cri_proxy.relay.boundary import new_call
from cri_proxy.relay.calls import Aborted, Forward, Outcome, Refuse, Replied
from cri_proxy.relay.traffic import RelayTotals, Traffic, count_passed

CREATE = "/runtime.v1.RuntimeService/CreateContainer"


def counted(traffic: Traffic, metric: Metric) -> dict[Values, float]:
    values = {s.labels: s.value for s in traffic.samples() if s.metric is metric}
    return {k: sum(v.counts) if isinstance(v, Distribution) else v for k, v in values.items() if v}


def ended(traffic: Traffic, outcome: Outcome) -> None:
    call = new_call(CREATE, b"")
    traffic.begun(call)
    traffic.judged(call, Forward())
    traffic.ended(call, outcome)


def test_an_intercepted_call_counts_under_the_status_that_it_ended_with() -> None:
    traffic = Traffic()
    for outcome in (Replied(b""), Replied(b""), Failed(13, ""), Failed(99, ""), Aborted(sent=True)):
        ended(traffic, outcome)
    calls = {("CreateContainer", code): 1 for code in ("INTERNAL", "other", "none")} | {("CreateContainer", "OK"): 2}
    assert counted(traffic, catalog.CALLS) == calls


def test_a_refused_call_ends_with_our_status_and_is_not_in_flight() -> None:
    traffic, call = Traffic(), new_call(CREATE, b"")
    traffic.begun(call)
    assert counted(traffic, catalog.CALLS_IN_FLIGHT) == {(): 1}
    traffic.judged(call, Refuse(8, "full"))
    assert counted(traffic, catalog.CALLS) == {("CreateContainer", "RESOURCE_EXHAUSTED"): 1}
    assert counted(traffic, catalog.CALLS_IN_FLIGHT) == {}


def test_time_is_measured_until_the_verdict_and_until_the_end() -> None:
    traffic = Traffic(iter([10.0, 10.5, 12.5]).__next__)
    ended(traffic, Replied(b""))
    totals = {s.metric: s.value.total for s in traffic.samples() if isinstance(s.value, Distribution)}
    assert totals == {catalog.HELD_SECONDS: 0.5, catalog.CALL_SECONDS: 2.5}


def test_what_passes_is_counted_unread_and_made_up_names_together() -> None:
    traffic = Traffic()
    for _ in range(2):  # two relays
        passed = traffic.new_passed()
        for path in (b"/runtime.v1.RuntimeService/Version", b"/made.up/One", b"/made.up/Two", b"\xff"):
            count_passed(passed, path)
    assert counted(traffic, catalog.CALLS) == {("Version", "unread"): 2, ("other", "unread"): 6}


def test_made_up_paths_take_no_memory_without_bound() -> None:
    passed = Traffic().new_passed()
    for number in range(2000):
        count_passed(passed, b"/made.up/%d" % number)
    assert len(passed) <= 256
    assert sum(passed.values()) == 2000


def test_no_two_relays_share_what_passes() -> None:
    """A socket for images passes everything: what it has passed is still held at the other."""
    traffic = Traffic()
    count_passed(traffic.new_passed(), CREATE.encode())
    assert CREATE.encode() not in traffic.new_passed()


def test_the_relays_state_is_asked_for_at_a_scrape() -> None:
    traffic = Traffic()
    traffic.add_relay(lambda: RelayTotals(1, 10, 20))
    traffic.add_relay(lambda: RelayTotals(2, 1, 2))
    assert counted(traffic, catalog.CONNECTIONS) == {(): 3}
    assert counted(traffic, catalog.RECEIVED_BYTES) == {("kubelet",): 11, ("runtime",): 22}


def test_a_path_that_has_its_place_is_counted_there_when_the_table_is_full() -> None:
    passed = {b"/full/%d" % number: 1 for number in range(1000)}
    count_passed(passed, b"/full/7")
    assert (passed[b"/full/7"], b"" in passed) == (2, False)


def test_the_counts_of_calls_are_in_the_order_of_their_labels() -> None:
    traffic = Traffic()
    for method in ("Version", "CreateContainer", "Status"):
        count_passed(traffic.new_passed(), b"/runtime.v1.RuntimeService/" + method.encode())
    labels = [sample.labels for sample in traffic.samples() if sample.metric is catalog.CALLS]
    assert labels == sorted(labels)
    assert len(labels) > 3
