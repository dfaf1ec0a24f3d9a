import gzip
from collections.abc import Callable

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.message import MAX_MESSAGE_BYTES, pack
from cri_proxy.http2.status import Failed
from cri_proxy.relay.calls import Aborted, Replied
from cri_proxy.relay.held_call import Held, HeldCallEnded
from cri_proxy.relay.splice import Event, Splice
from cri_proxy.relay.traffic import Passed
from tests.fakes.http2 import (
    GREETING,
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
from tests.fakes.spliced import HOLD, OLD, PASS, asked, credited, forget, sent, splice, wants

# What goes on


def test_a_call_that_is_not_wanted_goes_on_byte_by_byte() -> None:
    calls = request(1, PASS, b"message") + request(3, "/not/Known", b"x" * 50_000)
    assert b"".join(splice(calls).to_runtime) == calls


def test_calls_that_pass_are_counted_by_their_path_over_all_connections() -> None:
    passed: Passed = {}
    for _ in range(2):
        made = Splice(wants, passed)
        made.receive_from_client(GREETING + request(1, PASS, b"") + request(3, HOLD, b"") + request(5, PASS, b""))
    assert passed == {PASS.encode(): 4}


def test_a_path_beyond_the_bound_passes_and_is_counted_with_the_others() -> None:
    passed: Passed = {b"/full/%d" % number: 1 for number in range(256)}
    made = Splice(wants, passed)
    calls = request(1, PASS, b"a") + request(3, PASS, b"b")
    made.receive_from_client(GREETING + calls)
    assert b"".join(made.to_runtime).endswith(calls)
    assert (passed.get(PASS.encode()), passed[b""]) == (None, 2)


def test_a_reply_goes_on_byte_by_byte() -> None:
    made = splice(request(1, PASS, b"x"))
    made.receive_from_runtime(reply(1, b"y" * 50_000))
    assert b"".join(made.to_client) == reply(1, b"y" * 50_000)


@pytest.mark.parametrize(
    "frame",
    [
        frames.frame(frames.PING, frames.ACK, 0, b"12345678"),
        frames.frame(frames.PING, 0, 0, b"of another size"),
        frames.frame(frames.GOAWAY, 0, 0, bytes(8) + b"bye"),
        frames.frame(frames.PRIORITY, 0, 7, bytes(5)),
        frames.frame(0xBE, 0xFF, 9, b"of a type yet to come"),
        frames.settings_ack(),
        frames.window_update(0, 16_385),
        frames.window_update(7, 5),
        frames.rst_stream(7, 8),
        frames.frame(frames.DATA, frames.PADDED, 7, b"\3abc..."),
    ],
)
def test_other_frames_go_on_both_ways(frame: bytes) -> None:
    made = splice(frame)
    made.receive_from_runtime(frame)
    assert (b"".join(made.to_runtime), b"".join(made.to_client)) == (frame, frame)


def test_a_push_promise_goes_on_with_its_continuation() -> None:
    push = frames.frame(frames.PUSH_PROMISE, 0, 1, bytes(4)) + frames.frame(
        frames.CONTINUATION, frames.END_HEADERS, 1, b"x"
    )
    made = splice()
    made.receive_from_runtime(push)
    assert b"".join(made.to_client) == push


def test_the_client_asks_for_replies_without_a_compression_table() -> None:
    made = Splice(wants)
    made.receive_from_client(frames.PREFACE + frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, 9)]))
    ((_, _, _, payload),) = parse(made.to_runtime)
    pairs = dict(frames.parse_settings(payload))
    assert pairs == {frames.SETTINGS_INITIAL_WINDOW_SIZE: 9, frames.SETTINGS_HEADER_TABLE_SIZE: 0}


def test_later_settings_do_not_bring_the_table_back() -> None:
    plain = frames.settings([(frames.SETTINGS_ENABLE_PUSH, 0)])
    made = splice(plain, frames.settings([(frames.SETTINGS_HEADER_TABLE_SIZE, 4096)]))
    assert b"".join(made.to_runtime) == plain + frames.settings([(frames.SETTINGS_HEADER_TABLE_SIZE, 0)])


# What is held


def test_headers_of_a_held_call_go_on_at_once_and_its_message_does_not() -> None:
    made = splice(request(1, HOLD, b"message"))
    assert b"".join(made.to_runtime) == request_headers(1, HOLD)
    assert made.events == [Held(1, HOLD, b"message")]


def test_what_a_held_call_spent_is_credited_at_once() -> None:
    data = frames.frame(frames.DATA, frames.PADDED, 1, b"\2" + pack(b"part")[:6] + b"..")
    made = splice(request_headers(1, HOLD), data)
    assert (credit(made.to_client, 0), credit(made.to_client, 1)) == (9, 9)


def test_the_last_frame_of_a_stream_is_credited_to_the_connection_only() -> None:
    made = splice(request(1, HOLD, b"message"))
    assert (credited(made), credit(made.to_client, 1)) == (12, 0)


def test_a_held_call_does_not_hold_others() -> None:
    made = asked()
    made.receive_from_client(request(3, PASS, b"x"))
    assert b"".join(made.to_runtime) == request(3, PASS, b"x")


def test_headers_in_several_frames_are_read_and_sent_on_as_they_came() -> None:
    block = request_headers(1, HOLD)[frames.HEADER_BYTES :]
    split = (
        frames.frame(frames.HEADERS, 0, 1, block[:5])
        + frames.frame(frames.CONTINUATION, 0, 1, block[5:9])
        + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, block[9:])
    )
    made = splice(split, *frames.data_frames(1, pack(b"m"), end_stream=True))
    assert b"".join(made.to_runtime) == split
    assert made.events == [Held(1, HOLD, b"m")]


def test_nothing_of_ours_stands_inside_a_header_block() -> None:
    made = sent(b"x" * 70_000)
    half = frames.frame(frames.HEADERS, 0, 3, request_headers(3, PASS)[frames.HEADER_BYTES :])
    made.receive_from_client(half)
    made.receive_from_runtime(frames.window_update(0, 9000) + frames.window_update(1, 9000))
    end = frames.frame(frames.CONTINUATION, frames.END_HEADERS, 3)
    made.receive_from_client(end)
    assert half + end in b"".join(made.to_runtime)
    assert len(body(made.to_runtime, 1)) == len(pack(b"x" * 70_000)) - frames.DEFAULT_WINDOW_BYTES


def test_forwarded_bytes_are_those_that_came() -> None:
    made = asked()
    made.resume(1, None)
    assert parse(made.to_runtime) == [(frames.DATA, frames.END_STREAM, 1, pack(b"message"))]


def test_a_compressed_request_is_forwarded_as_it_came_and_rewritten_plainly() -> None:
    packed = b"\1" + pack(gzip.compress(b"message"))[1:]
    for message, expected in ((None, packed), (b"other", pack(b"other"))):
        made = splice(
            request_headers(1, HOLD, extra=[(b"grpc-encoding", b"gzip")]),
            *frames.data_frames(1, packed, end_stream=True),
        )
        assert made.events == [Held(1, HOLD, b"message")]
        made.resume(1, message)
        assert body(made.to_runtime, 1) == expected


def test_a_verdict_on_a_call_that_ended_does_nothing() -> None:
    made = asked()
    made.receive_from_client(frames.rst_stream(1, frames.CANCEL))
    forget(made)
    made.resume(1, b"late")
    made.refuse(1, 9, "late")
    assert (made.to_client, made.to_runtime) == ([], [])


def test_a_call_without_a_message_is_the_runtimes_to_refuse() -> None:
    headers = request_headers(1, HOLD, end=True)
    made = splice(headers)
    assert (b"".join(made.to_runtime), made.events) == (headers, [])


# What is answered


def test_a_refused_call_is_reset_at_the_runtime_and_answered_with_trailers_only() -> None:
    made = asked()
    made.refuse(1, 9, "100% né")
    assert b"".join(made.to_runtime) == frames.rst_stream(1, frames.CANCEL)
    answer = status(made.to_client, 1)
    assert (answer[b":status"], answer[b"grpc-status"], answer[b"grpc-message"]) == (b"200", b"9", b"100%25 n%C3%A9")
    assert parse(made.to_client)[0][1] == frames.END_STREAM | frames.END_HEADERS
    assert made.events == []


def test_a_refusal_after_the_runtime_began_to_reply_is_written_as_trailers() -> None:
    made = asked()
    made.receive_from_runtime(reply_headers(1))
    made.refuse(1, 9, "no")
    assert status(made.to_client, 1) == {b"grpc-status": b"9", b"grpc-message": b"no"}


def test_a_call_that_is_turned_away_is_reset_on_both_sides_as_never_looked_at() -> None:
    made = asked()
    made.refuse_unseen(1)
    assert b"".join(made.to_runtime) == frames.rst_stream(1, frames.CANCEL)
    assert b"".join(made.to_client) == frames.rst_stream(1, frames.REFUSED_STREAM)
    made.refuse_unseen(1)
    assert (made.events, kinds(made.to_client, 1)) == ([], [frames.RST_STREAM])


def test_a_call_whose_reply_has_begun_cannot_be_turned_away_and_is_refused() -> None:
    made = asked()
    made.receive_from_runtime(reply_headers(1))
    made.refuse_unseen(1)
    assert status(made.to_client, 1)[b"grpc-status"] == b"14"


def test_what_the_runtime_still_says_of_a_refused_call_goes_nowhere_and_is_credited() -> None:
    made = asked()
    made.refuse(1, 9, "no")
    forget(made)
    made.receive_from_runtime(reply(1, b"message") + frames.rst_stream(1, 0) + frames.window_update(1, 5))
    assert made.to_client == []
    assert parse(made.to_runtime) == [(frames.WINDOW_UPDATE, 0, 0, (12).to_bytes(4, "big"))]


def test_a_method_of_a_refused_service_is_answered_before_its_message_comes() -> None:
    made = splice(request_headers(1, OLD))
    assert status(made.to_client, 1)[b"grpc-status"] == b"12"
    assert b"".join(made.to_runtime) == request_headers(1, OLD) + frames.rst_stream(1, frames.CANCEL)
    assert kinds(made.to_client, 1) == [frames.HEADERS, frames.RST_STREAM]


@pytest.mark.parametrize(("table_bytes", "begin"), [(0, b"\x20"), (100, b"\x20"), (4096, b""), (65_536, b"")])
def test_an_answer_of_ours_tells_a_client_that_made_its_table_smaller(table_bytes: int, begin: bytes) -> None:
    """RFC 7541, 4.2: the first header block after such a change begins by saying so, whoever sends it."""
    made = splice(frames.settings([(frames.SETTINGS_HEADER_TABLE_SIZE, table_bytes)]), request_headers(1, OLD))
    (block,) = [payload for kind, _, _, payload in parse(made.to_client) if kind == frames.HEADERS]
    assert block.startswith(begin + b"\x10\x07:status")


def test_the_rest_of_a_refused_request_goes_nowhere_and_is_credited() -> None:
    made = splice(request_headers(1, OLD))
    forget(made)
    made.receive_from_client(b"".join(frames.data_frames(1, pack(b"x"), end_stream=True)) + frames.window_update(1, 5))
    assert (made.to_runtime, credited(made)) == ([], 6)


def test_a_refused_call_that_its_client_resets_is_not_reset_twice() -> None:
    made = splice(request_headers(1, OLD))
    forget(made)
    made.receive_from_client(frames.rst_stream(1, frames.CANCEL))
    assert made.to_runtime == []


@pytest.mark.parametrize(
    ("data", "code"), [(b"", b"13"), (pack(b"a") + pack(b"b"), b"13"), (b"\1" + pack(b"squeezed")[1:], b"12")]
)
def test_what_is_not_one_readable_message_is_refused(data: bytes, code: bytes) -> None:
    made = splice(request_headers(1, HOLD), *frames.data_frames(1, data, end_stream=True))
    assert (status(made.to_client, 1)[b"grpc-status"], made.events) == (code, [])


def test_a_request_beyond_the_bound_is_refused_before_it_is_complete() -> None:
    made = splice(request_headers(1, HOLD))
    chunk = b"".join(frames.data_frames(1, bytes(1 << 20), end_stream=False))
    for _ in range(18):
        made.receive_from_client(chunk)
    answer = status(made.to_client, 1)
    assert answer[b"grpc-status"] == b"8"
    assert str(MAX_MESSAGE_BYTES).encode() in answer[b"grpc-message"]


def test_request_trailers_end_a_held_call() -> None:
    trailer = frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, b"")
    made = splice(request_headers(1, HOLD), trailer)
    assert status(made.to_client, 1)[b"grpc-status"] == b"13"
    assert b"".join(made.to_runtime) == request_headers(1, HOLD) + trailer + frames.rst_stream(1, frames.CANCEL)


# What is reported


def ended(made: Splice) -> list[Event]:
    return [event for event in made.events if isinstance(event, HeldCallEnded)]


def test_a_reply_is_reported_with_its_message() -> None:
    made = sent()
    made.receive_from_runtime(reply(1, b"id"))
    assert ended(made) == [HeldCallEnded(1, Replied(b"id"))]


def test_a_padded_reply_in_several_frames_is_reported_whole() -> None:
    made = sent()
    packed = pack(b"id")
    parts = frames.frame(frames.DATA, frames.PADDED, 1, b"\1" + packed[:3] + b".") + frames.frame(
        frames.DATA, 0, 1, packed[3:]
    )
    made.receive_from_runtime(reply_headers(1) + parts + trailers(1))
    assert ended(made) == [HeldCallEnded(1, Replied(b"id"))]


def test_a_compressed_reply_is_reported_plainly() -> None:
    made = sent()
    packed = b"\1" + pack(gzip.compress(b"id"))[1:]
    data = b"".join(frames.data_frames(1, packed, end_stream=False))
    made.receive_from_runtime(reply_headers(1, extra=[(b"grpc-encoding", b"gzip")]) + data + trailers(1))
    assert ended(made) == [HeldCallEnded(1, Replied(b"id"))]


def test_a_failure_is_reported_with_code_and_message() -> None:
    made = sent()
    made.receive_from_runtime(trailers(1, 5, b"n%C3%A9"))
    assert ended(made) == [HeldCallEnded(1, Failed(5, "né"))]


@pytest.mark.parametrize("code", [1, 4, 14])
def test_a_failure_that_leaves_the_outcome_open_is_no_failure_yet(code: int) -> None:
    made = sent()
    made.receive_from_runtime(trailers(1, code))
    assert ended(made) == [HeldCallEnded(1, Aborted(sent=True))]


@pytest.mark.parametrize(
    ("frame", "was_sent"),
    [
        (frames.rst_stream(1, frames.CANCEL), True),
        (frames.rst_stream(1, frames.REFUSED_STREAM), False),
        (frames.frame(frames.DATA, frames.END_STREAM, 1), True),
        (trailers(1, 0), True),  # OK without a message
        (frames.frame(frames.GOAWAY, 0, 0, bytes(8)), False),  # streams above 0 were not taken
    ],
)
def test_an_end_without_an_answer_is_reported(frame: bytes, was_sent: bool) -> None:
    made = sent()
    made.receive_from_runtime(frame)
    assert ended(made) == [HeldCallEnded(1, Aborted(sent=was_sent))]
    assert b"".join(made.to_client) == frame


def test_a_goaway_that_counts_the_call_in_leaves_it_alone() -> None:
    made = sent()
    made.receive_from_runtime(frames.frame(frames.GOAWAY, 0, 0, b"\0\0\0\1" + bytes(4)) + reply(1, b"id"))
    assert ended(made) == [HeldCallEnded(1, Replied(b"id"))]


@pytest.mark.parametrize(("call", "was_sent"), [(asked, False), (sent, True)])
def test_a_reset_by_the_client_goes_on_and_is_reported(call: Callable[[], Splice], was_sent: bool) -> None:
    made = call()
    made.receive_from_client(frames.rst_stream(1, frames.CANCEL))
    assert ended(made) == [HeldCallEnded(1, Aborted(sent=was_sent))]
    assert b"".join(made.to_runtime) == frames.rst_stream(1, frames.CANCEL)


@pytest.mark.parametrize(("call", "was_sent"), [(asked, False), (sent, True)])
def test_a_lost_connection_is_reported(call: Callable[[], Splice], was_sent: bool) -> None:
    made = call()
    made.lost()
    assert ended(made) == [HeldCallEnded(1, Aborted(sent=was_sent))]


def test_a_call_that_was_never_shown_is_never_reported() -> None:
    made = splice(request_headers(1, HOLD))
    made.lost()
    assert made.events == []


def test_a_runtime_that_ends_a_call_before_it_has_the_request_gets_a_reset_in_its_place() -> None:
    made = asked()
    made.receive_from_runtime(trailers(1, 4, b"late"))
    assert ended(made) == [HeldCallEnded(1, Aborted(sent=False))]
    assert b"".join(made.to_client) == trailers(1, 4, b"late")
    assert b"".join(made.to_runtime) == frames.rst_stream(1, frames.CANCEL)


def test_the_rest_of_a_request_that_the_runtime_ended_goes_nowhere() -> None:
    made = splice(request_headers(1, HOLD))
    made.receive_from_runtime(trailers(1, 4))
    forget(made)
    made.receive_from_client(b"".join(frames.data_frames(1, pack(b"x"), end_stream=True)))
    assert (made.to_runtime, credited(made)) == ([], 6)


def test_trailers_that_use_a_table_against_the_rules_still_go_on() -> None:
    made = sent()
    made.receive_from_runtime(reply_headers(1) + b"".join(frames.data_frames(1, pack(b"id"), end_stream=False)))
    forget(made)
    indexed = frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, 1, b"\xbe")
    made.receive_from_runtime(indexed)
    assert (b"".join(made.to_client), made.events) == (indexed, [HeldCallEnded(1, Replied(b"id"))])


def test_a_call_that_was_sent_whole_is_not_reset_when_its_reply_ends() -> None:
    made = sent()
    made.receive_from_runtime(reply(1, b"answer"))
    assert not any(kinds(made.to_runtime, 1))
