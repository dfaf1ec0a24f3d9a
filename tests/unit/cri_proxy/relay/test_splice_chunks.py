"""Chunks of the runtime that end within a frame, and header blocks that a splice reads as they come."""

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.headers import write_literals
from cri_proxy.http2.message import pack
from cri_proxy.http2.status import Failed
from cri_proxy.relay.calls import MAX_REQUEST_HEADER_BYTES, Replied
from cri_proxy.relay.held_call import HeldCallEnded
from cri_proxy.relay.splice import Splice
from cri_proxy.relay.traffic import Passed
from tests.fakes.http2 import (
    GREETING,
    block_frames,
    kinds,
    reply,
    reply_headers,
    request,
    request_headers,
    status,
    trailers,
)
from tests.fakes.spliced import HOLD, PASS, asked, forget, sent, splice, wants

ANSWER = frames.frame(frames.PING, frames.ACK, 0, b"12345678")  # to a PING of the client


# Replies in chunks


def test_an_answer_of_ours_waits_for_the_end_of_a_frame_that_passes() -> None:
    made = splice(request(1, PASS, b""), request(3, HOLD, b""))
    forget(made)
    passing = reply_headers(1) + frames.frame(frames.DATA, 0, 1, bytes(1000))
    made.receive_from_runtime(passing[:-500])
    made.refuse(3, 9, "no")
    assert b"".join(made.to_client) == passing[:-500]
    made.receive_from_runtime(passing[-500:-100])
    assert b"".join(made.to_client) == passing[:-100]
    made.receive_from_runtime(passing[-100:] + trailers(1))
    sent_on = b"".join(made.to_client)
    assert sent_on.startswith(passing)
    assert sent_on.endswith(trailers(1))
    assert kinds(made.to_client, 3) == [frames.HEADERS]
    assert made.is_idle
    made.goaway.ask()
    assert kinds(made.to_client, 0) == [frames.GOAWAY, frames.PING]


@pytest.mark.parametrize("size", [1, 10, 100, 16_384])
def test_a_frame_may_come_in_any_number_of_chunks(size: int) -> None:
    made = splice(request(1, PASS, b""))
    answer = reply_headers(1) + frames.frame(frames.DATA, 0, 1, bytes(16_384)) + ANSWER + trailers(1)
    for at in range(0, len(answer), size):
        made.receive_from_runtime(answer[at : at + size])
    assert b"".join(made.to_client) == answer
    assert made.is_idle


def test_of_held_and_refused_calls_no_part_of_a_frame_passes_unseen() -> None:
    answer, headers = reply(1, b"message"), len(reply_headers(1))
    for cut in range(1, len(answer)):
        chunks = answer[: min(cut, headers)], answer[min(cut, headers) : cut], answer[cut:]
        made, refused = sent(), asked()
        refused.refuse(1, 9, "no")
        forget(refused)
        for chunk in filter(None, chunks):
            made.receive_from_runtime(chunk)
            refused.receive_from_runtime(chunk)
        assert made.events == [HeldCallEnded(1, Replied(b"message"))]
        assert b"".join(made.to_client) == answer
        assert refused.to_client == []


def test_the_headers_of_a_reply_do_not_end_its_call_wherever_they_are_cut() -> None:
    headers = reply_headers(1)
    for cut in range(len(headers)):
        made = splice(request(1, PASS, b""))
        made.receive_from_runtime(headers[:cut])
        made.receive_from_runtime(headers[cut:])
        assert not made.is_idle


def test_a_reset_with_flags_is_a_reset() -> None:
    """Flags that a type does not have say nothing (RFC 9113, 4.1)."""
    made = splice(request(1, PASS, b""))
    made.receive_from_runtime(frames.frame(frames.RST_STREAM, frames.END_HEADERS, 1, bytes(4)))
    assert made.is_idle


def test_the_reserved_bit_of_a_credit_adds_no_window() -> None:
    made = splice(request_headers(1, PASS))
    made.receive_from_runtime(frames.window_update(0, 1 << 31 | 10))
    for _ in range(4):
        made.receive_from_client(frames.frame(frames.DATA, 0, 1, bytes(16_384)))
    with pytest.raises(ProtocolError, match="DATA of 10 bytes in a window of 9"):
        made.receive_from_client(frames.frame(frames.DATA, 0, 1, bytes(10)))


# Header blocks


def test_a_second_request_on_a_stream_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="a request on stream 1 after one on stream 1"):
        splice(request_headers(1, PASS), request_headers(1, PASS))


def test_trailers_are_no_call() -> None:
    passed: Passed = {}
    made = Splice(wants, passed)
    trailer = frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, b"")
    made.receive_from_client(GREETING + request_headers(1, PASS) + request_headers(3, PASS) + trailer)
    assert passed == {PASS.encode(): 2}
    with pytest.raises(ProtocolError, match="on stream 3 after one on stream 3"):
        made.receive_from_client(request_headers(3, PASS))


@pytest.mark.parametrize(("more", "is_refused"), [(0, False), (1, True)])
def test_request_headers_may_have_a_mebibyte(more: int, is_refused: bool) -> None:
    path = write_literals([(b":path", PASS.encode())])
    other = write_literals([(b"x", b"v" * (MAX_REQUEST_HEADER_BYTES - 1000))])
    room = MAX_REQUEST_HEADER_BYTES - len(path) - len(other)
    block = path + other + write_literals([(b"y", b"v" * (room - 6 + more))])
    assert len(block) == MAX_REQUEST_HEADER_BYTES + more
    made = splice(block_frames(1, block))
    assert (kinds(made.to_client, 1) == [frames.HEADERS, frames.RST_STREAM]) is is_refused


def test_each_reply_is_read_for_itself() -> None:
    """One that could not be read, and one with other fields, say nothing of the next."""
    made = splice(request(1, HOLD, b""), request(3, HOLD, b""), request(5, HOLD, b""))
    for stream in (1, 3, 5):
        made.resume(stream, None)
    forget(made)
    unreadable = frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, b"\xbe")
    made.receive_from_runtime(reply_headers(1) + frames.frame(frames.DATA, 0, 1, pack(b"id")) + unreadable)
    made.receive_from_runtime(trailers(3, 5, b"gone") + trailers(5, 6, b"there"))
    assert made.events == [
        HeldCallEnded(1, Replied(b"id")),
        HeldCallEnded(3, Failed(5, "gone")),
        HeldCallEnded(5, Failed(6, "there")),
    ]


def test_a_refusal_within_the_headers_of_a_reply_is_written_as_its_trailers() -> None:
    made = asked()
    first = frames.frame(frames.HEADERS, 0, 1, write_literals([(b":status", b"200")]))
    made.receive_from_runtime(first)
    made.refuse(1, 9, "no")
    made.receive_from_runtime(frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1))
    assert status(made.to_client, 1) == {b"grpc-status": b"9", b"grpc-message": b"no"}
