"""A splice at the edges: quotas and bounds, what comes twice or too late, chunks that end anywhere."""

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.message import pack
from cri_proxy.relay.calls import Aborted
from cri_proxy.relay.held_call import MAX_BODY_BYTES, Held, HeldCallEnded
from cri_proxy.relay.request_quota import RequestQuota
from cri_proxy.relay.splice import Splice
from tests.fakes.http2 import (
    body,
    kinds,
    parse,
    reply,
    reply_headers,
    request,
    request_headers,
    status,
    trailers,
)
from tests.fakes.spliced import HOLD, OLD, PASS, asked, credited, forget, sent, splice

TRAILER = frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 3, b"")


def waiting() -> Splice:
    """One whose held call has used up the window, so that 9,470 of 10,000 bytes of stream 3 wait."""
    made = sent(bytes(65_000))
    made.receive_from_client(request_headers(3, PASS) + frames.frame(frames.DATA, 0, 3, bytes(10_000)))
    assert len(body(made.to_runtime, 3)) == 530
    forget(made)
    return made


# Quotas and bounds


def test_calls_and_bytes_count_while_they_are_held() -> None:
    quota = RequestQuota(max_calls=2)
    made = splice(*(request_headers(stream, HOLD) for stream in (1, 3, 5)), quota=quota)
    assert (quota.calls, quota.held_bytes) == (2, 0)
    assert (status(made.to_client, 5)[b"grpc-status"], kinds(made.to_client, 5)) == (
        b"8",
        [frames.HEADERS, frames.RST_STREAM],
    )
    made.receive_from_client(b"".join(frames.data_frames(1, pack(b"message"), end_stream=True)))
    assert (quota.calls, quota.held_bytes) == (2, 12)
    made.refuse(1, 9, "no")
    made.receive_from_client(frames.rst_stream(3, frames.CANCEL))
    assert (quota.calls, quota.held_bytes, made.is_idle) == (0, 0, True)


def test_a_request_without_room_is_refused_and_never_shown() -> None:
    quota = RequestQuota(max_bytes=10)
    made = splice(request(1, HOLD, b"message"), quota=quota)
    assert (status(made.to_client, 1)[b"grpc-status"], made.events) == (b"8", [])
    assert (quota.calls, quota.held_bytes) == (0, 0)


def test_refusals_are_counted_from_the_last_call_that_went_on() -> None:
    made = splice(request(1, HOLD, b""), quota=RequestQuota(max_calls=1))
    made.receive_from_client(b"".join(request_headers(stream, HOLD) for stream in range(3, 1403, 2)))
    made.resume(1, None)
    made.receive_from_client(b"".join(request_headers(stream, HOLD) for stream in range(1403, 3403, 2)))
    with pytest.raises(ProtocolError, match="1001 calls without room"):
        made.receive_from_client(request_headers(3403, HOLD))


def test_ten_thousand_calls_may_be_in_flight() -> None:
    made = splice(b"".join(request_headers(stream, PASS) for stream in range(1, 20_001, 2)))
    made.receive_from_client(request_headers(20_001, PASS))
    with pytest.raises(ProtocolError, match="more than 10000 calls in flight") as error:
        made.receive_from_client(b"")
    assert error.value.code == frames.ENHANCE_YOUR_CALM


def test_a_request_is_collected_up_to_its_bound() -> None:
    made = splice(request_headers(1, HOLD))
    for data in frames.data_frames(1, bytes(MAX_BODY_BYTES), end_stream=False):
        made.receive_from_client(data)
    assert kinds(made.to_client, 1).count(frames.HEADERS) == 0
    made.receive_from_client(frames.frame(frames.DATA, 0, 1, b"x"))
    assert status(made.to_client, 1)[b"grpc-status"] == b"8"


# What comes twice or too late


def test_a_verdict_counts_once_and_only_for_a_whole_request() -> None:
    made = splice(request_headers(1, HOLD))
    forget(made)
    made.resume(1, b"early")
    assert made.to_runtime == []
    made.receive_from_client(b"".join(frames.data_frames(1, pack(b"message"), end_stream=True)))
    made.resume(1, None)
    made.resume(1, b"again")
    made.refuse(1, 9, "late")
    made.refuse_unseen(1)
    assert body(made.to_runtime, 1) == pack(b"message")
    assert kinds(made.to_runtime, 1) == [frames.DATA]
    assert kinds(made.to_client, 1) == []


def test_data_after_the_end_of_a_request_is_an_error() -> None:
    made = asked()
    with pytest.raises(ProtocolError, match="DATA after the end"):
        made.receive_from_client(frames.frame(frames.DATA, 0, 1, b"more"))


@pytest.mark.parametrize(
    "end",
    [TRAILER, frames.frame(frames.DATA, frames.END_STREAM, 3), frames.rst_stream(3, frames.CANCEL)],
    ids=["trailers", "data", "reset"],
)
def test_a_refused_stream_is_forgotten_once_its_client_has_ended_it(end: bytes) -> None:
    made = splice(request_headers(3, OLD))
    assert list(made._answers.client_ignored) == [3]
    made.receive_from_client(end)
    assert list(made._answers.client_ignored) == []


def test_a_refused_call_whose_request_was_whole_is_not_reset_by_its_client_too() -> None:
    made = asked()
    made.refuse(1, 9, "no")
    forget(made)
    made.receive_from_client(frames.rst_stream(1, frames.CANCEL))
    assert made.to_runtime == []


def test_empty_data_of_a_refused_call_is_not_credited() -> None:
    """A credit of 0 would end the connection (RFC 9113, 6.9)."""
    made = asked()
    made.refuse(1, 9, "no")
    forget(made)
    made.receive_from_runtime(reply_headers(1) + frames.frame(frames.DATA, 0, 1) + trailers(1))
    assert (made.to_client, made.to_runtime) == ([], [])


@pytest.mark.parametrize("frame", [frames.rst_stream(1, 2), frames.frame(frames.GOAWAY, 0, 0, bytes(8))])
def test_a_stream_that_the_runtime_has_ended_is_not_reset_there(frame: bytes) -> None:
    made = asked()
    made.receive_from_runtime(frame)
    assert made.to_runtime == []


def test_a_call_that_ends_before_it_was_sent_whole_is_reset_and_the_rest_is_dropped() -> None:
    made = asked(bytes(100_000))
    made.receive_from_runtime(frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, 200_000)]))
    made.receive_from_client(frames.settings_ack())
    made.resume(1, None)
    forget(made)
    made.receive_from_runtime(trailers(1))
    assert kinds(made.to_runtime, 1) == [frames.RST_STREAM]
    forget(made)
    made.receive_from_runtime(frames.window_update(0, 1 << 20))
    assert made.to_runtime == []


# Trailers and DATA that waits


def test_trailers_of_a_held_call_end_its_request() -> None:
    made = splice(request_headers(3, HOLD), TRAILER)
    assert kinds(made.to_client, 3) == [frames.HEADERS]


def test_trailers_of_a_call_that_passes_go_on() -> None:
    made = splice(request_headers(3, PASS), TRAILER)
    assert b"".join(made.to_runtime) == request_headers(3, PASS) + TRAILER
    assert made.to_client == []


def test_trailers_that_would_overtake_waiting_data_end_the_call() -> None:
    made = waiting()
    made.receive_from_client(TRAILER)
    assert (status(made.to_client, 3)[b"grpc-status"], kinds(made.to_client, 3)) == (b"13", [frames.HEADERS])
    assert kinds(made.to_runtime, 3) == [frames.HEADERS, frames.RST_STREAM]
    assert credited(made) == 9470
    made.receive_from_runtime(trailers(1))
    assert made.is_idle


def test_waiting_data_of_a_call_that_its_client_resets_is_dropped() -> None:
    made = waiting()
    made.receive_from_client(frames.rst_stream(3, frames.CANCEL))
    assert credited(made) == 9470
    made.receive_from_runtime(frames.window_update(0, 1 << 20))
    assert kinds(made.to_runtime, 3) == [frames.RST_STREAM]


# Settings and windows


@pytest.mark.parametrize("flags", [0, 0x2])
def test_a_smaller_window_counts_at_once_and_a_larger_one_when_it_is_acknowledged(flags: int) -> None:
    made = asked(bytes(80_000))
    window = (frames.SETTINGS_INITIAL_WINDOW_SIZE, 1000)
    made.receive_from_runtime(frames.frame(frames.SETTINGS, flags, 0, frames.settings([window])[9:]))
    made.receive_from_runtime(frames.window_update(0, 1 << 20))
    made.resume(1, None)
    assert len(body(made.to_runtime, 1)) == 1000
    made.receive_from_client(frames.settings_ack())
    made.receive_from_runtime(frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, 70_000)]))
    assert len(body(made.to_runtime, 1)) == 1000
    made.receive_from_client(frames.settings_ack())
    assert len(body(made.to_runtime, 1)) == 70_000


def test_a_credit_of_a_held_stream_stays_here_and_its_reserved_bit_says_nothing() -> None:
    made = sent(bytes(100_000))
    made.receive_from_runtime(frames.window_update(0, 1 << 20))
    forget(made)
    made.receive_from_runtime(frames.window_update(1, 1 << 31 | 5))
    assert (len(body(made.to_runtime, 1)), kinds(made.to_client, 1)) == (5, [])


def test_settings_with_other_flags_are_settings() -> None:
    made = splice(
        frames.frame(frames.SETTINGS, 0x2, 0, frames.settings([(frames.SETTINGS_HEADER_TABLE_SIZE, 100)])[9:])
    )
    ((_, _, _, pairs),) = parse(made.to_runtime)
    assert dict(frames.parse_settings(pairs)) == {frames.SETTINGS_HEADER_TABLE_SIZE: 0}


def test_each_side_may_send_frames_as_large_as_the_other_has_said() -> None:
    """Frames of the larger size may be under way when a smaller one is announced."""
    large, later = frames.frame(frames.DATA, 0, 1, bytes(30_000)), [(frames.SETTINGS_MAX_FRAME_SIZE, 16_384)]
    size = [(frames.SETTINGS_MAX_FRAME_SIZE, 32_768)]
    made = splice(request_headers(1, PASS), frames.settings(size), frames.settings(later))
    made.receive_from_runtime(reply_headers(1) + large)
    assert len(body(made.to_client, 1)) == 30_000
    with pytest.raises(ProtocolError, match="a frame of 30000 bytes"):
        made.receive_from_client(large)
    made = splice(request_headers(1, PASS))
    made.receive_from_runtime(frames.settings(size) + frames.settings(later))
    made.receive_from_client(large)
    assert len(body(made.to_runtime, 1)) == 30_000


# Ends, and chunks that end anywhere


def test_a_goaway_ends_the_calls_beyond_its_stream_alone() -> None:
    made = splice(request(1, PASS, b""), request(3, PASS, b""), request(5, HOLD, b""))
    made.events.clear()
    made.receive_from_runtime(frames.frame(frames.GOAWAY, 0, 0, b"\x80\0\0\1" + bytes(4)))  # the first bit is reserved
    assert made.events == [HeldCallEnded(5, Aborted(sent=False))]
    assert not made.is_idle
    made.receive_from_runtime(trailers(1))
    assert made.is_idle


@pytest.mark.parametrize(("flags", "payload", "is_end"), [(0x1, b"last", True), (0x8, b"\0more", False)])
def test_the_last_data_of_a_passing_call_ends_it_wherever_its_frame_is_cut(
    flags: int, payload: bytes, is_end: bool
) -> None:
    frame = frames.frame(frames.DATA, flags, 1, payload)
    for cut in range(len(frame)):
        made = splice(request(1, PASS, b""))
        made.receive_from_runtime(reply_headers(1) + frame[:cut])
        made.receive_from_runtime(frame[cut:])
        assert made.is_idle is is_end


def test_a_message_that_looks_like_frames_is_a_message_wherever_its_chunk_ends() -> None:
    inner = request(5, HOLD, b"inner") + frames.rst_stream(1, 2) + trailers(1)
    calls, answer = request(1, PASS, inner) + request(3, HOLD, inner), reply(1, inner)
    for cut in range(1, len(calls)):
        made = splice(calls[:cut])
        made.receive_from_client(calls[cut:])
        assert made.events == [Held(3, HOLD, inner)]
        assert b"".join(made.to_runtime) == request(1, PASS, inner) + request_headers(3, HOLD)
    for cut in range(1, len(answer)):
        made = splice(request(1, PASS, b""))
        made.receive_from_runtime(answer[:cut])
        assert not made.is_idle
        made.receive_from_runtime(answer[cut:])
        assert b"".join(made.to_client) == answer
        assert made.is_idle
