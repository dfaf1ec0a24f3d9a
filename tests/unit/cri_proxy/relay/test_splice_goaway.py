"""Which calls a splice knows to be worth waiting for, and what it tells a client that shall leave."""

import pytest

from cri_proxy.http2 import frames
from cri_proxy.relay.held_call import HeldCallEnded
from cri_proxy.relay.splice import Splice
from tests.fakes.http2 import GREETING, parse, reply_headers, request, request_headers, trailers
from tests.fakes.spliced import HOLD, OLD, PASS, forget, splice, wants

EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"


@pytest.mark.parametrize(
    "call",
    [request(1, PASS, b"x"), request(1, HOLD, b"x"), request_headers(1, HOLD), request_headers(1, PASS)],
    ids=["passes", "is held", "is held and incomplete", "passes and is incomplete"],
)
def test_a_call_is_worth_waiting_for_until_the_runtime_has_ended_it(call: bytes) -> None:
    made = splice(call)
    assert not made.is_idle
    made.receive_from_runtime(reply_headers(1))
    assert not made.is_idle
    made.receive_from_runtime(trailers(1))
    assert made.is_idle


@pytest.mark.parametrize(
    "frame",
    [
        frames.frame(frames.DATA, frames.END_STREAM, 1),
        frames.rst_stream(1, frames.CANCEL),
        frames.frame(frames.GOAWAY, 0, 0, bytes(8)),
        frames.frame(frames.HEADERS, frames.END_STREAM, 1) + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1),
    ],
)
def test_a_call_that_the_runtime_ends_in_another_way_is_not_waited_for(frame: bytes) -> None:
    made = splice(request(1, PASS, b"x"), request(3, PASS, b"y"))
    made.receive_from_runtime(trailers(3) + frame)
    assert made.is_idle


def test_a_call_that_its_client_has_given_up_is_not_waited_for() -> None:
    made = splice(request(1, PASS, b"x"), request(3, HOLD, b"x"))
    made.receive_from_client(frames.rst_stream(1, frames.CANCEL) + frames.rst_stream(3, frames.CANCEL))
    assert made.is_idle


def test_a_refused_call_is_not_waited_for() -> None:
    made = splice(request(1, OLD, b"x"), request(3, HOLD, b"x"))
    made.refuse(3, 9, "no")
    assert made.is_idle


def test_a_stream_without_end_is_not_waited_for() -> None:
    assert splice(request(1, EVENTS, b""), request(3, EVENTS, b"")).is_idle


def test_the_answer_to_our_ping_stays_here_and_others_go_on() -> None:
    made = splice()
    made.goaway.ask()
    ours = parse(made.to_client)[1][3]
    theirs = frames.frame(frames.PING, frames.ACK, 0, b"12345678")
    made.receive_from_client(frames.frame(frames.PING, frames.ACK, 0, ours) + theirs)
    assert b"".join(made.to_runtime) == theirs
    assert made.goaway.is_answered


def test_at_the_end_the_client_learns_which_call_was_the_last_to_go_on() -> None:
    made = splice(request(1, PASS, b"x"), request(3, PASS, b"x"), request(5, PASS, b"x")[:20])
    forget(made)
    made.finish()
    assert parse(made.to_client) == [(frames.GOAWAY, 0, 0, (3).to_bytes(4, "big") + bytes(4))]


def test_a_client_is_asked_to_leave_only_after_the_runtimes_first_word() -> None:
    made = Splice(wants)
    made.goaway.ask()
    assert made.to_client == []
    made.receive_from_client(GREETING)
    made.receive_from_runtime(frames.settings([]))
    assert [frame[0] for frame in parse(made.to_client)] == [frames.SETTINGS, frames.GOAWAY, frames.PING]


def test_a_held_call_that_the_runtime_still_serves_goes_on_after_its_goaway() -> None:
    made = splice(request(1, HOLD, b"x") + request(3, HOLD, b"y"))
    made.resume(1, None)
    made.resume(3, None)
    forget(made)
    made.receive_from_runtime(frames.frame(frames.GOAWAY, 0, 0, (1).to_bytes(4, "big") + bytes(4)))
    assert [event.stream for event in made.events if isinstance(event, HeldCallEnded)] == [3]
