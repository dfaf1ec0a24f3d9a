"""Calls of interest STAND_IN in a splice: frames of the client and of a runtime that does not know the method."""

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.headers import write_literals
from cri_proxy.http2.message import pack
from cri_proxy.relay.calls import Interest
from cri_proxy.relay.fallback_answers import Unimplemented
from cri_proxy.relay.splice import Splice
from tests.fakes.http2 import (
    GREETING,
    block_frames,
    body,
    credit,
    kinds,
    parse,
    reply,
    reply_headers,
    request,
    request_headers,
    status,
    trailers,
)
from tests.fakes.spliced import forget

METHOD = "/s/StandIn"
_FIELDS = [(b":status", b"200"), (b"content-type", b"application/grpc")]
# As gRPC for Go answers a method that it does not know: one block, before it has read the request.
UNKNOWN_BLOCK = write_literals([*_FIELDS, (b"grpc-status", b"12"), (b"grpc-message", b"unknown"), (b"more", b"x")])
UNKNOWN = block_frames(1, UNKNOWN_BLOCK, flags=frames.END_STREAM)


def called(*from_runtime: bytes, ends: bool = True) -> Splice:
    made = Splice(lambda method: Interest.STAND_IN if method == METHOD else Interest.PASS, {})
    made.receive_from_client(GREETING)
    made.receive_from_runtime(frames.settings([]))
    made.receive_from_client(frames.settings_ack())
    forget(made)
    made.receive_from_client(request(1, METHOD, b"message") if ends else request_headers(1, METHOD))
    made.receive_from_runtime(b"".join(from_runtime))
    return made


def test_the_request_passes_at_once() -> None:
    assert b"".join(called().to_runtime) == request(1, METHOD, b"message")


def test_unimplemented_is_kept_and_told() -> None:
    made = called(UNKNOWN)
    assert (b"".join(made.to_client), made.events) == (b"", [Unimplemented(1, METHOD)])
    assert made.in_flight == {1}


def test_it_is_answered_with_a_message() -> None:
    made = called(UNKNOWN)
    made.stand_in(1, b"reply")
    assert kinds(made.to_client, 1) == [frames.HEADERS, frames.DATA, frames.HEADERS]
    assert body(made.to_client, 1) == pack(b"reply")
    assert status(made.to_client, 1) == {b"grpc-status": b"0"}
    assert made.is_idle


def test_without_a_message_the_runtimes_block_goes_on_as_it_came() -> None:
    made = called(UNKNOWN)
    made.stand_in(1, None)
    assert b"".join(made.to_client) == UNKNOWN
    assert made.is_idle


@pytest.mark.parametrize(
    "answer",
    [
        reply(1, b"known"),
        trailers(1, 9, b"no"),
        reply_headers(1) + trailers(1, 12),
        block_frames(1, UNKNOWN_BLOCK, flags=frames.END_STREAM, size=7),
        block_frames(1, UNKNOWN_BLOCK),
        frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, b"\xbe"),
        frames.rst_stream(1, 2),
    ],
)
def test_every_other_answer_passes_byte_by_byte(answer: bytes) -> None:
    made = called(answer)
    made.stand_in(1, b"never")
    assert (b"".join(made.to_client), made.events) == (answer, [])


def test_the_runtimes_reset_after_its_answer_does_not_end_the_call_for_the_client() -> None:
    made = called(UNKNOWN, frames.rst_stream(1, frames.NO_ERROR), ends=False)
    made.stand_in(1, b"reply")
    assert frames.RST_STREAM not in kinds(made.to_client, 1)
    assert body(made.to_client, 1) == pack(b"reply")


def test_a_caller_that_has_left_gets_no_answer() -> None:
    made = called(UNKNOWN)
    made.receive_from_client(frames.rst_stream(1, frames.CANCEL))
    made.stand_in(1, b"reply")
    assert b"".join(made.to_client) == b""
    assert made.is_idle


def test_a_small_table_of_the_client_is_kept_to() -> None:
    made = called(UNKNOWN)
    made.receive_from_client(frames.settings([(frames.SETTINGS_HEADER_TABLE_SIZE, 0)]))
    forget(made)
    made.stand_in(1, b"")
    assert parse(made.to_client)[0][3].startswith(b"\x20")


@pytest.mark.parametrize("part_bytes", [5, 13])
def test_what_was_sent_in_the_runtimes_place_is_paid_by_the_clients_next_credit(part_bytes: int) -> None:
    made = called(UNKNOWN)
    made.stand_in(1, b"reply")
    lent = len(pack(b"reply"))
    forget(made)
    for size in (4, lent - 4 + 3, 50):
        frame = frames.window_update(0, size)
        made.receive_from_client(frame[:part_bytes])
        made.receive_from_client(frame[part_bytes:])
    assert credit(made.to_runtime, 0) == 3 + 50


def test_ended_calls_leave_nothing_behind() -> None:
    made = called(ends=False)
    for stream in range(3, 2001, 2):
        made.receive_from_client(request_headers(stream, METHOD) + frames.rst_stream(stream, frames.CANCEL))
    assert len(made._passthrough.replaceable) <= 2
    assert made.in_flight == {1}
