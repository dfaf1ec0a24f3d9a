"""The client half of HTTP/2, against a strict peer (python-h2) and against frames that no peer should send."""

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.foreign_text import admit
from cri_proxy.http2 import frames
from cri_proxy.http2.client import STREAM_WINDOW_BYTES, Broken, CallEnded, ClientConnection, Event, Message
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.message import pack
from cri_proxy.http2.status import Code, Failed
from tests.fakes.http2 import block_frames, body, credit, kinds, parse, reply, reply_headers, trailers


class Runtime:
    def __init__(self, **limits: int) -> None:
        self.http2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding=None))
        self.http2.initiate_connection()
        settings = {getattr(h2.settings.SettingCodes, name.upper()): value for name, value in limits.items()}
        self.http2.update_settings(settings)
        self.bodies: dict[int, bytes] = {}
        self.headers: dict[int, dict[bytes, bytes]] = {}
        self.ended: list[int] = []

    def exchange(self, client: ClientConnection) -> list[Event]:
        events: list[Event] = []
        while True:
            to_runtime, to_client = client.take_output(), self.http2.data_to_send()
            if not to_runtime and not to_client:
                return events
            for event in self.http2.receive_data(to_runtime):
                self.see(event)
            events += client.receive(to_client)

    def see(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self.headers[event.stream_id] = dict(event.headers)
            self.bodies[event.stream_id] = b""
        if isinstance(event, h2.events.DataReceived):
            self.bodies[event.stream_id] += event.data
            self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        if isinstance(event, h2.events.StreamEnded | h2.events.StreamReset):
            self.ended.append(event.stream_id)


def client() -> ClientConnection:
    """One with a call on stream 1, its output forgotten."""
    made = ClientConnection()
    made.request("/m", b"", timeout_seconds=None)
    made.take_output()
    return made


@pytest.mark.parametrize("size", [0, 100, 65_535, 1_000_000])
@pytest.mark.parametrize("window", [1000, 65_535, 3_000_000])
def test_a_request_arrives_within_the_runtimes_windows(size: int, window: int) -> None:
    runtime, made = Runtime(initial_window_size=window), ClientConnection()
    runtime.exchange(made)
    stream = made.request("/s/M", b"x" * size, timeout_seconds=1.5)
    runtime.exchange(made)
    assert runtime.bodies[stream] == pack(b"x" * size)
    assert runtime.ended == [stream]
    assert runtime.headers[stream][b":path"] == b"/s/M"
    assert runtime.headers[stream][b"grpc-timeout"] == b"1500m"


def test_beyond_the_runtimes_limit_calls_wait_their_turn() -> None:
    runtime, made = Runtime(max_concurrent_streams=1), ClientConnection()
    runtime.exchange(made)
    first, second = (made.request("/m", b"", timeout_seconds=None) for _ in range(2))
    runtime.exchange(made)
    assert list(runtime.bodies) == [first]
    runtime.http2.send_headers(first, [(b":status", b"200"), (b"grpc-status", b"0")], end_stream=True)
    assert runtime.exchange(made) == [CallEnded(first, None)]
    assert list(runtime.bodies) == [first, second]


def test_a_reply_is_given_whole() -> None:
    assert client().receive(reply(1, b"x" * 100_000)) == [Message(1, b"x" * 100_000, 100_005), CallEnded(1, None)]


@given(st.lists(st.integers(1, 50)))
@settings(deadline=None)
def test_any_chunking_gives_the_same_events(sizes: list[int]) -> None:
    data, made, events, start = reply(1, b"message" * 20), client(), [], 0
    for size in [*sizes, len(data)]:
        events += made.receive(data[start : start + size])
        start += size
    assert events == [Message(1, b"message" * 20, 145), CallEnded(1, None)]


def test_a_failure_has_code_and_message() -> None:
    assert client().receive(trailers(1, 5, b"n%C3%A9")) == [CallEnded(1, Failed(5, "né"))]


def test_a_header_block_may_come_in_several_frames() -> None:
    block = trailers(1)[frames.HEADER_BYTES :]
    split = frames.frame(frames.HEADERS, frames.END_STREAM, 1, block[:3])
    split += frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1, block[3:])
    assert client().receive(split) == [CallEnded(1, None)]


@pytest.mark.parametrize("length", [700_000, 3_000_000])
def test_of_a_long_refusal_the_beginning_is_read_and_the_connection_stays(length: int) -> None:
    made = client()
    made.request("/m", b"", timeout_seconds=None)
    block = trailers(1, 3, b"level: " + b"s" * length)[frames.HEADER_BYTES :]
    assert made.receive(block_frames(1, block, flags=frames.END_STREAM)) == [
        CallEnded(1, Failed(3, admit(("level: " + "s" * length)[:4096], goes_on=length > 4000)))
    ]
    assert made.receive(reply(3, b"x")) == [Message(3, b"x", 6), CallEnded(3, None)]


def test_a_flood_of_small_frames_in_a_header_block_ends_the_connection() -> None:
    made, flood = client(), frames.frame(frames.CONTINUATION, 0, 1)
    with pytest.raises(ProtocolError, match="more than 128 CONTINUATION frames below 1024 bytes"):
        made.receive(frames.frame(frames.HEADERS, 0, 1) + flood * 129)


def test_a_ping_is_answered() -> None:
    made = client()
    made.receive(frames.frame(frames.PING, 0, 0, b"12345678") + frames.frame(frames.PING, frames.ACK, 0, bytes(8)))
    assert parse(made.take_output()) == [(frames.PING, frames.ACK, 0, b"12345678")]


def test_what_was_taken_of_a_stream_is_credited_and_what_was_not_is_not() -> None:
    made = client()
    (message,) = made.receive(reply_headers(1) + b"".join(frames.data_frames(1, pack(b"event"), end_stream=False)))
    assert made.take_output() == b""
    assert isinstance(message, Message)
    made.credit(1, message.window_bytes)
    assert credit(made.take_output(), 1) == 10


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (frames.rst_stream(1, 2), "reset with HTTP/2 code 2"),
        (frames.frame(frames.DATA, frames.END_STREAM, 1, pack(b"")), "without a status"),
        (frames.frame(frames.GOAWAY, 0, 0, bytes(8)), "did not take the call"),
        (frames.frame(frames.DATA, 0, 1, b"\1\0\0\0\0"), "compressed"),
        (frames.frame(frames.DATA, 0, 1, b"\0\xff\xff\xff\xff"), "a reply of 4294967300 bytes"),
    ],
)
def test_a_call_without_an_answer_is_broken(data: bytes, problem: str) -> None:
    broken = client().receive(data)[-1]
    assert isinstance(broken, Broken)
    assert problem in broken.problem


def test_after_a_goaway_calls_go_on_and_no_new_ones_start() -> None:
    made = client()
    assert made.receive(frames.frame(frames.GOAWAY, 0, 0, b"\0\0\0\1" + bytes(4))) == []
    assert not made.usable
    assert made.receive(reply(1, b"")) == [Message(1, b"", 5), CallEnded(1, None)]


def test_a_cancelled_call_is_reset_and_heard_of_no_more() -> None:
    made = client()
    made.reset(1)
    assert parse(made.take_output()) == [(frames.RST_STREAM, 0, 1, (8).to_bytes(4, "big"))]
    assert made.receive(reply(1, b"late")) == []


def test_a_lost_connection_breaks_every_call() -> None:
    made = client()
    assert made.break_all("gone") == [Broken(1, "gone")]
    assert not made.usable


def test_a_reply_that_ends_before_the_request_is_sent_resets_the_rest() -> None:
    made = ClientConnection()
    stream = made.request("/m", bytes(100_000), timeout_seconds=None)
    made.take_output()
    made.receive(trailers(stream, 8))
    assert [kind for kind, *_ in parse(made.take_output())] == [frames.RST_STREAM]


@pytest.mark.parametrize(
    "data",
    [
        frames.frame(frames.PUSH_PROMISE, frames.END_HEADERS, 1, bytes(4)),
        frames.frame(frames.CONTINUATION, frames.END_HEADERS, 1),
        frames.frame(frames.HEADERS, 0, 1) + frames.frame(frames.PING, 0, 0, bytes(8)),
        frames.frame(frames.SETTINGS, 0, 0, b"x"),
        frames.frame(frames.DATA, 0, 1, bytes(1 << 19)),
    ],
)
def test_a_malformed_frame_is_a_protocol_error(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        client().receive(data)


@given(st.binary(max_size=100))
@settings(deadline=None)
def test_any_bytes_are_read_or_are_a_protocol_error(data: bytes) -> None:
    try:
        client().receive(data)
    except ProtocolError:
        return


def test_a_stream_has_room_for_the_largest_reply() -> None:
    assert STREAM_WINDOW_BYTES >= 16 * 1024 * 1024 + 5


def test_a_reply_beyond_its_calls_bound_ends_that_call_alone_before_it_is_read() -> None:
    connection = ClientConnection()
    bounded = connection.request("/s/Exec", b"", timeout_seconds=None, max_reply_bytes=10)
    free = connection.request("/s/List", b"", timeout_seconds=None)
    connection.take_output()
    (ended,) = connection.receive(reply_headers(bounded) + frames.frame(frames.DATA, 0, bounded, pack(b"x" * 11)[:5]))
    assert ended == CallEnded(bounded, Failed(Code.RESOURCE_EXHAUSTED, "a reply of 11 bytes, more than 10"))
    assert parse(connection.take_output()) == [(frames.RST_STREAM, 0, bounded, frames.CANCEL.to_bytes(4, "big"))]
    late = frames.frame(frames.DATA, 0, bounded, b"x" * 1000)
    assert connection.receive(late) == []
    assert [type(event) for event in connection.receive(reply(free, b"y" * 11))] == [Message, CallEnded]


# Windows, limits and the ends of calls, frame by frame


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
