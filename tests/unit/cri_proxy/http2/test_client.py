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
from tests.fakes.http2 import block_frames, credit, parse, reply, reply_headers, trailers


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
