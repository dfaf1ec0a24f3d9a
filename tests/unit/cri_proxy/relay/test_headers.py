from collections import Counter

import hpack
import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.headers import write_literals
from cri_proxy.http2.message import pack
from cri_proxy.http2.status import Failed
from cri_proxy.relay.calls import Aborted
from cri_proxy.relay.headers import request_reader, timeout_seconds_of
from cri_proxy.relay.held_call import Held, HeldCallEnded
from cri_proxy.relay.splice import Splice
from tests.fakes.http2 import (
    GREETING,
    Pairs,
    block_frames,
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
from tests.fakes.spliced import HOLD, PASS, asked, forget, sent, splice, wants

LONG = 3_000_000


def long_trailers(stream: int, length: int = LONG, code: int = 3) -> list[bytes]:
    """The frames of trailers with a message of this length."""
    block = trailers(stream, code, b"s" * length)[frames.HEADER_BYTES :] + write_literals([(b"after", b"it")])
    raw = block_frames(stream, block, flags=frames.END_STREAM)
    size = frames.HEADER_BYTES + frames.DEFAULT_FRAME_BYTES
    return [raw[at : at + size] for at in range(0, len(raw), size)]


def counting() -> tuple[Splice, Counter[str]]:
    """A splice that counts what it did not understand."""
    seen: Counter[str] = Counter()
    made = Splice(wants, on_malformed=lambda reason: seen.update([reason]))
    made.receive_from_client(GREETING)
    made.receive_from_runtime(frames.settings([]))
    forget(made)
    return made, seen


# Requests


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(b"2M", 120), (b"1500m", 1.5), (b"5S", 5), (b"1H", 3600), (b"99999999u", 99.999999), (b"7n", 7e-9)]
    + [(value, None) for value in (b"", b"5", b"S", b"-5S", b"5s", b"5 S", b"123456789S", "٥S".encode())],
)
def test_the_callers_time_is_read_as_grpc_writes_it(value: bytes, seconds: float | None) -> None:
    for coded in (False, True):
        block = hpack.Encoder().encode([(b"grpc-timeout", value)], huffman=coded)
        assert timeout_seconds_of(request_reader().read(block)) == pytest.approx(seconds)


def test_a_request_that_has_two_timeouts_or_a_broken_one_has_none() -> None:
    twice = write_literals([(b"grpc-timeout", b"5S"), (b"grpc-timeout", b"6S")])
    broken = b"\x10\x0cgrpc-timeout\x81\x00"  # a code that ends with zeros
    for block in (twice, broken, b""):
        assert timeout_seconds_of(request_reader().read(block)) is None


# Replies


@pytest.mark.parametrize("method", [PASS, HOLD])
def test_a_long_block_of_a_reply_goes_on_frame_by_frame_as_it_comes(method: str) -> None:
    made = splice(request(1, method, b"x"))
    made.resume(1, None)
    forget(made)
    for frame in long_trailers(1):
        made.to_client.clear()
        made.receive_from_runtime(frame)
        assert b"".join(made.to_client) == frame


def test_of_a_long_message_the_outcome_has_the_beginning() -> None:
    made = sent()
    *first, last = long_trailers(1)
    made.receive_from_runtime(b"".join(first))
    assert made.events == []
    made.receive_from_runtime(last)
    (ended,) = made.events
    assert isinstance(ended, HeldCallEnded)
    assert isinstance(ended.outcome, Failed)
    assert (ended.outcome.code, ended.outcome.message[:1000]) == (3, "s" * 1000)


def test_a_block_that_cannot_be_read_to_its_end_leaves_the_outcome_unknown_and_goes_on() -> None:
    made = sent()
    raw = block_frames(1, trailers(1, 3, b"s" * 50_000)[frames.HEADER_BYTES : -40_000], flags=frames.END_STREAM)
    made.receive_from_runtime(raw)
    assert (b"".join(made.to_client), made.events) == (raw, [HeldCallEnded(1, Aborted(sent=True))])


def test_two_statuses_leave_the_outcome_unknown() -> None:
    made = sent()
    block = write_literals([(b":status", b"200"), (b"grpc-status", b"3"), (b"grpc-status", b"0")])
    made.receive_from_runtime(block_frames(1, block, flags=frames.END_STREAM))
    assert made.events == [HeldCallEnded(1, Aborted(sent=True))]


def test_an_answer_that_began_before_its_request_is_not_taken_for_the_outcome() -> None:
    made = splice()
    raw = block_frames(1, trailers(1, 3, b"too early")[frames.HEADER_BYTES :], flags=frames.END_STREAM, size=10)
    made.receive_from_runtime(raw[:30])
    made.receive_from_client(request(1, HOLD, b"message"))
    forget(made)
    made.receive_from_runtime(raw[30:])
    assert raw[30:] in b"".join(made.to_client)
    assert made.events == []


def test_a_call_that_passes_is_in_flight_until_its_last_block_is_whole() -> None:
    made = splice(request(1, PASS, b"x"))
    *first, last = long_trailers(1)
    made.receive_from_runtime(b"".join(first))
    assert not made.is_idle
    made.receive_from_runtime(last)
    assert made.is_idle


def test_the_reply_to_a_refused_call_is_dropped_at_any_length() -> None:
    made = asked()
    made.refuse(1, 9, "no")
    forget(made)
    for frame in long_trailers(1):
        made.receive_from_runtime(frame)
    made.receive_from_runtime(frames.frame(frames.GOAWAY, 0, 0, bytes(8)))
    assert [kind for kind, *_ in parse(made.to_client)] == [frames.GOAWAY]


@pytest.mark.parametrize("refuse", ["refuse", "refuse_unseen"])
def test_a_call_that_is_refused_while_the_runtimes_answer_passes_gets_that_answer(refuse: str) -> None:
    made = asked()
    raw = long_trailers(1)
    made.receive_from_runtime(raw[0])
    made.refuse(1, 9, "no") if refuse == "refuse" else made.refuse_unseen(1)
    made.receive_from_runtime(b"".join(raw[1:]))
    assert (b"".join(made.to_client), made.events) == (b"".join(raw), [])
    assert b"".join(made.to_runtime) == frames.rst_stream(1, frames.CANCEL)


@pytest.mark.parametrize("flags", [0, 0x40])  # 0x40: one that HEADERS does not define (RFC 9113, 4.1)
def test_a_call_that_is_refused_while_its_reply_begins_is_answered_after_that_block(flags: int) -> None:
    made = asked()
    raw = block_frames(1, reply_headers(1)[frames.HEADER_BYTES :], flags=flags, size=10)
    made.receive_from_runtime(raw[:30])
    made.refuse(1, 9, "no")
    made.receive_from_runtime(raw[30:])
    assert b"".join(made.to_client).startswith(raw)
    assert dict(status(b"".join(made.to_client)[len(raw) :], 1)) == {b"grpc-status": b"9", b"grpc-message": b"no"}


def test_a_client_that_leaves_while_its_answer_passes_breaks_nothing() -> None:
    made = sent()
    raw = long_trailers(1)
    made.receive_from_runtime(raw[0])
    made.receive_from_client(frames.rst_stream(1, frames.CANCEL))
    made.receive_from_runtime(b"".join(raw[1:]) + frames.frame(frames.PING, 0, 0, bytes(8)))
    assert made.events == [HeldCallEnded(1, Aborted(sent=True))]
    assert b"".join(made.to_client).startswith(b"".join(raw))


def test_credit_for_the_client_waits_for_the_end_of_a_block() -> None:
    made = splice(request(1, PASS, b"x"), request_headers(3, HOLD))
    raw = long_trailers(1, 40_000)
    made.receive_from_runtime(raw[0])
    made.receive_from_client(b"".join(frames.data_frames(3, pack(b"message"), end_stream=True)))
    made.receive_from_runtime(b"".join(raw[1:]))
    assert b"".join(made.to_client).startswith(b"".join(raw))
    assert kinds(made.to_client, 0) == [frames.WINDOW_UPDATE]


# Requests


def encoded(encoder: hpack.Encoder, path: str, extra: Pairs | None = None) -> bytes:
    return encoder.encode([(b":method", b"POST"), (b":path", path.encode()), *(extra or [])], huffman=False)


@pytest.mark.parametrize("length", [900_000, 1_100_000, 15_000_000])
@pytest.mark.parametrize("method", [HOLD, PASS])
def test_a_request_with_long_headers_goes_on_or_is_refused_and_later_ones_are_read(method: str, length: int) -> None:
    made, seen = counting()
    encoder = hpack.Encoder()
    raw = block_frames(1, encoded(encoder, method, [(b"long", b"x" * length)]))
    made.receive_from_client(raw)
    refused = length > 1 << 20
    assert (kinds(made.to_runtime, 1)[-1] == frames.RST_STREAM, dict(seen)) == (
        refused,
        {"header_size": 1} if refused else {},
    )
    assert b"".join(made.to_runtime).startswith(raw)
    if refused:
        assert status(made.to_client, 1)[b"grpc-status"] == b"8"
    data = b"".join(frames.data_frames(3, pack(b"message"), end_stream=True))
    made.receive_from_client(block_frames(3, encoded(encoder, HOLD)) + data)
    assert made.events == [Held(3, HOLD, b"message")]


def test_headers_without_end_end_the_connection() -> None:
    made, seen = counting()
    part = frames.frame(frames.CONTINUATION, 0, 1, bytes(16_000))
    made.receive_from_client(frames.frame(frames.HEADERS, 0, 1, b"\x00\x01x\x7f\x80\x80\x80\x80\x01"))
    with pytest.raises(ProtocolError, match="beyond 16777216 bytes"):
        for _ in range(1200):
            made.receive_from_client(part)
    assert seen == {"flood": 1}


@pytest.mark.parametrize("method", [HOLD, PASS, "/new/Method"])
def test_a_request_with_the_reserved_bit_is_refused(method: str) -> None:
    made, seen = counting()
    made.receive_from_client(request(1, PASS, b"known") + request(1 << 31 | 3, method, b"secret"))
    assert (dict(seen), made.events, body(made.to_runtime, 3)) == ({"stream_id": 1}, [], b"")
    assert status(made.to_client, 3)[b"grpc-status"] == b"13"
    made.receive_from_client(request(5, HOLD, b"message"))
    assert made.events == [Held(5, HOLD, b"message")]


def test_the_reserved_bit_of_other_frames_is_ignored() -> None:
    made, seen = counting()
    data = bytearray(b"".join(frames.data_frames(1, pack(b"message"), end_stream=True)))
    data[5] |= 0x80
    made.receive_from_client(request_headers(1, HOLD) + bytes(data))
    assert (dict(seen), made.events) == ({}, [Held(1, HOLD, b"message")])


@pytest.mark.parametrize("block", [b"\xbe", b"\x83\x44\x04/abc\xc0", b"\x7e\x01x"])
@pytest.mark.parametrize("in_parts", [False, True])
def test_an_entry_that_the_table_does_not_have_ends_the_connection_after_what_came_before(
    block: bytes, in_parts: bool
) -> None:
    made, seen = counting()
    before = request(1, PASS, b"x")
    with pytest.raises(ProtocolError) as error:
        made.receive_from_client(before + block_frames(3, block, size=1 if in_parts else 99))
    assert (error.value.code, dict(seen)) == (frames.COMPRESSION_ERROR, {"compression": 1})
    assert b"".join(made.to_runtime).startswith(before)
    assert frames.END_HEADERS not in [flags & 4 for _, flags, stream, _ in parse(made.to_runtime) if stream == 3]


def test_a_request_on_a_stream_that_is_not_new_ends_the_connection() -> None:
    """To this relay it looks like trailers; which runtime would take it for a call is not known."""
    made, _ = counting()
    with pytest.raises(ProtocolError, match="a request on stream 3 after one on stream 5"):
        made.receive_from_client(request(5, PASS, b"x") + request(3, HOLD, b"secret"))
    assert b"secret" not in b"".join(made.to_runtime)


def test_a_clients_push_promise_ends_the_connection() -> None:
    made, seen = counting()
    with pytest.raises(ProtocolError, match="PUSH_PROMISE"):
        made.receive_from_client(frames.frame(frames.PUSH_PROMISE, frames.END_HEADERS, 1, bytes(4)))
    assert seen == {"protocol": 1}


def test_trailers_in_several_frames_end_a_held_call_after_them() -> None:
    made = asked()
    raw = block_frames(1, write_literals([(b"x", b"y")]), flags=frames.END_STREAM, size=2)
    made.receive_from_client(raw)
    assert b"".join(made.to_runtime) == raw + frames.rst_stream(1, frames.CANCEL)
    assert status(made.to_client, 1)[b"grpc-status"] == b"13"


def test_a_reply_of_another_call_passes_while_a_request_of_many_frames_comes() -> None:
    made = splice(request(1, PASS, b"x"))
    raw = block_frames(3, encoded(hpack.Encoder(), PASS, [(b"long", b"x" * 40_000)]))
    made.receive_from_client(raw[:20_000])
    made.receive_from_runtime(reply(1, b"y"))
    assert b"".join(made.to_client) == reply(1, b"y")
