"""The client half of HTTP/2 at the edges: windows, limits and the ends of calls, frame by frame."""

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.client import STREAM_WINDOW_BYTES, Broken, CallEnded, ClientConnection, Message
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.message import pack
from tests.fakes.http2 import body, kinds, parse, reply, trailers
from tests.unit.cri_proxy.http2.test_client import Runtime, client


def settings_frame(**limits: int) -> bytes:
    return frames.settings([(getattr(frames, f"SETTINGS_{name.upper()}"), value) for name, value in limits.items()])


def test_the_greeting_says_what_this_side_takes() -> None:
    greeting = ClientConnection().take_output()
    assert greeting.startswith(frames.PREFACE)
    first, second = parse(greeting)
    announced = dict(frames.parse_settings(first[3]))
    assert announced[frames.SETTINGS_ENABLE_PUSH] == 0
    assert announced[frames.SETTINGS_INITIAL_WINDOW_SIZE] == STREAM_WINDOW_BYTES
    assert second == (frames.WINDOW_UPDATE, 0, 0, ((1 << 30) - 65_535).to_bytes(4, "big"))
    largest = pack(bytes(announced[frames.SETTINGS_MAX_FRAME_SIZE] - 5))
    (message,) = client().receive(frames.frame(frames.DATA, 0, 1, largest))
    assert isinstance(message, Message)
    with pytest.raises(ProtocolError, match="a frame of"):
        client().receive(frames.frame(frames.DATA, 0, 1, largest + b"x"))


def test_the_connection_is_credited_by_each_mebibyte_that_came() -> None:
    made = client()
    parts = frames.data_frames(1, pack(bytes(2 << 20))[: 2 << 20], end_stream=False)
    for half in (parts[:64], parts[64:]):
        for part in half[:-1]:
            made.receive(part)
        assert made.take_output() == b""
        made.receive(half[-1])
        assert parse(made.take_output()) == [(frames.WINDOW_UPDATE, 0, 0, (1 << 20).to_bytes(4, "big"))]


def test_padding_is_credited_to_its_stream_at_once_and_does_not_end_it() -> None:
    made = client()
    assert made.receive(frames.frame(frames.DATA, frames.PADDED, 1, b"\x09" + pack(b"x") + bytes(9))) == [
        Message(1, b"x", 6)
    ]
    assert parse(made.take_output()) == [(frames.WINDOW_UPDATE, 0, 1, (10).to_bytes(4, "big"))]
    assert made.receive(trailers(1)) == [CallEnded(1, None)]


def test_nothing_is_credited_to_a_stream_that_is_over_or_for_no_bytes() -> None:
    made = client()
    made.credit(1, 0)
    made.receive(trailers(1))
    made.credit(1, 10)
    assert made.take_output() == b""


def test_a_connection_is_usable_until_its_stream_numbers_are_used_up() -> None:
    """Those of a client are odd and less than 2 ** 31 (RFC 9113, 5.1.1)."""
    made = ClientConnection()
    assert made.usable is True
    made._next_stream = (1 << 31) - 5
    assert made.usable is True
    made._next_stream = (1 << 31) - 3
    assert made.usable is False


@pytest.mark.parametrize(("seconds", "header"), [(0.0, b"1m"), (0.0014, b"1m"), (0.002, b"2m"), (1e9, b"99999999m")])
def test_a_timeout_is_written_within_its_eight_digits(seconds: float, header: bytes) -> None:
    runtime, made = Runtime(), ClientConnection()
    stream = made.request("/m", b"", timeout_seconds=seconds)
    runtime.exchange(made)
    assert runtime.headers[stream][b"grpc-timeout"] == header


def one_at_a_time(streams: int, most: int = 1) -> ClientConnection:
    """One whose runtime takes this many calls at a time, with more calls, its output forgotten."""
    made = ClientConnection()
    made.receive(settings_frame(max_concurrent_streams=most))
    for _ in range(streams):
        made.request("/m", b"", timeout_seconds=None)
    made.take_output()
    return made


def test_a_call_that_is_cancelled_while_it_waits_never_starts() -> None:
    made = one_at_a_time(3)
    made.reset(3)
    assert made.take_output() == b""
    made.receive(trailers(1))
    assert {stream for _, _, stream, _ in parse(made.take_output())} == {5}


def test_a_cancelled_call_makes_room_for_the_next() -> None:
    made = one_at_a_time(2)
    made.reset(1)
    assert [(kind, stream) for kind, _, stream, _ in parse(made.take_output())] == [
        (frames.RST_STREAM, 1),
        (frames.HEADERS, 3),
        (frames.DATA, 3),
    ]


def test_a_larger_limit_starts_the_calls_that_wait() -> None:
    made = one_at_a_time(2, most=0)
    made.receive(settings_frame(max_concurrent_streams=1))
    assert [(kind, stream) for kind, _, stream, _ in parse(made.take_output())][-2:] == [
        (frames.HEADERS, 1),
        (frames.DATA, 1),
    ]


def test_a_lost_connection_breaks_each_call_once_those_that_wait_too() -> None:
    made = one_at_a_time(2)
    assert made.break_all("gone") == [Broken(1, "gone"), Broken(3, "gone")]
    assert made.break_all("gone") == []


def test_a_goaway_breaks_the_calls_that_it_does_not_count_in_and_those_that_wait() -> None:
    made = one_at_a_time(3, most=2)
    events = made.receive(frames.frame(frames.GOAWAY, 0, 0, b"\x80\0\0\1\0\0\0\2"))  # the first bit is reserved
    assert [event.stream for event in events] == [3, 5]
    assert made.break_all("gone") == [Broken(1, "gone")]


def test_a_window_that_changes_counts_for_calls_that_have_begun() -> None:
    """The runtime may also take back what it has announced (RFC 9113, 6.9.2)."""
    made = ClientConnection()
    stream = made.request("/m", bytes(200_000), timeout_seconds=None)
    sizes = [len(body(made.take_output(), stream))]
    for data in (
        frames.window_update(0, 1 << 20),
        settings_frame(initial_window_size=70_000),
        settings_frame(initial_window_size=80_000),
        settings_frame(initial_window_size=60_000),
        frames.window_update(stream, 19_999),
        frames.window_update(stream, 1),
        frames.window_update(stream, 1),
        frames.window_update(stream, 30_000),
    ):
        made.receive(data)
        sizes.append(len(body(made.take_output(), stream)))
    assert sizes == [65_535, 0, 4465, 10_000, 0, 0, 0, 1, 30_000]


def test_without_window_no_frame_is_sent() -> None:
    made = ClientConnection()
    made.request("/m", bytes(100_000), timeout_seconds=None)
    made.take_output()
    made.receive(frames.window_update(1, 10))
    assert made.take_output() == b""


@pytest.mark.parametrize("flags", [0x2, 0x4])
def test_flags_that_are_not_known_say_nothing(flags: int) -> None:
    """RFC 9113, 4.1."""
    made = client()
    made.receive(frames.frame(frames.SETTINGS, flags, 0) + frames.frame(frames.PING, flags, 0, b"12345678"))
    assert parse(made.take_output()) == [
        (frames.SETTINGS, frames.ACK, 0, b""),
        (frames.PING, frames.ACK, 0, b"12345678"),
    ]


def test_a_call_that_the_runtime_has_reset_is_not_reset_in_turn() -> None:
    made = ClientConnection()
    stream = made.request("/m", bytes(100_000), timeout_seconds=None)
    made.take_output()
    assert len(made.receive(frames.rst_stream(stream, 8))) == 1
    assert made.take_output() == b""


def test_a_call_that_was_sent_whole_ends_without_a_reset() -> None:
    made = client()
    made.receive(reply(1, b"x"))
    assert made.take_output() == b""


def test_a_call_that_has_ended_is_not_broken_later() -> None:
    made = client()
    made.receive(frames.frame(frames.DATA, frames.END_STREAM, 1, pack(b"")))
    assert made.break_all("gone") == []


def test_a_reply_may_be_as_large_as_its_bounds_and_no_larger() -> None:
    made = ClientConnection()
    bounded = made.request("/m", b"", timeout_seconds=None, max_reply_bytes=10)
    assert made.receive(reply(bounded, b"x" * 10)) == [Message(bounded, b"x" * 10, 15), CallEnded(bounded, None)]
    bounded = made.request("/m", b"", timeout_seconds=None, max_reply_bytes=10)
    assert [type(event) for event in made.receive(reply(bounded, b"x" * 11))] == [CallEnded]
    made.request("/m", b"", timeout_seconds=None)
    made.take_output()
    largest = STREAM_WINDOW_BYTES - 5
    assert made.receive(frames.frame(frames.DATA, 0, 5, b"\0" + largest.to_bytes(4, "big"))) == []
    made = client()
    (broken,) = made.receive(frames.frame(frames.DATA, 0, 1, b"\0" + (largest + 1).to_bytes(4, "big")))
    assert isinstance(broken, Broken)
    assert kinds(made.take_output(), 1) == [frames.RST_STREAM]


@pytest.mark.parametrize(
    "interrupting",
    [frames.frame(frames.CONTINUATION, frames.END_HEADERS, 3), frames.frame(frames.DATA, 0, 1)],
)
def test_nothing_else_may_stand_in_a_header_block(interrupting: bytes) -> None:
    with pytest.raises(ProtocolError, match="interrupted"):
        client().receive(frames.frame(frames.HEADERS, 0, 1) + interrupting)
