"""The server half of HTTP/2, against a strict client (python-h2) and against frames that no client should send."""

import h2.config
import h2.connection
import h2.events
import h2.settings
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.message import pack
from cri_proxy.http2.server import MOST_STREAMS, Cancelled, Event, Requested, ServerConnection
from cri_proxy.http2.status import Code
from tests.fakes.http2 import GREETING, GRPC_FIELDS, parse, request, request_headers


class Client:
    def __init__(self, *, window: int = 65_535) -> None:
        self.http2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self.http2.initiate_connection()
        self.http2.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: window})
        self.bodies: dict[int, bytes] = {}
        self.trailers: dict[int, dict[bytes, bytes]] = {}
        self.reset: list[int] = []

    def call(self, method: str, message: bytes) -> int:
        stream = self.http2.get_next_available_stream_id()
        self.http2.send_headers(stream, [(b":method", b"POST"), (b":path", method.encode()), *GRPC_FIELDS])
        self.http2.send_data(stream, pack(message), end_stream=True)
        return stream

    def exchange(self, server: ServerConnection) -> list[Event]:
        found: list[Event] = []
        while True:
            to_server, to_client = self.http2.data_to_send(), server.take_output()
            if not to_server and not to_client:
                return found
            found += server.receive(to_server)
            for event in self.http2.receive_data(to_client):
                self.see(event)

    def see(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.ResponseReceived():
                self.bodies[event.stream_id] = b""
                self.trailers[event.stream_id] = dict(event.headers)
            case h2.events.DataReceived():
                self.bodies[event.stream_id] += event.data
                self.http2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.TrailersReceived():
                self.trailers[event.stream_id] = dict(event.headers)
            case h2.events.StreamReset():
                self.reset.append(event.stream_id)


def greeted() -> ServerConnection:
    server = ServerConnection()
    server.receive(GREETING)
    server.take_output()
    return server


@pytest.mark.parametrize(
    ("size", "window"),
    [(100, 1), (0, 1000), (65_535, 1000), (65_535, 65_535), (1_000_000, 65_535), (1_000_000, 3_000_000)],
)
def test_a_call_is_answered_whatever_the_windows_are(size: int, window: int) -> None:
    client, server = Client(window=window), ServerConnection()
    stream = client.call("/a.B/C", b"question")
    assert client.exchange(server) == [Requested(stream, "/a.B/C", b"question")]
    message = bytes(range(256)) * (size // 256 + 1)
    server.reply(stream, message[:size])
    client.exchange(server)
    assert client.bodies[stream] == pack(message[:size])
    assert client.trailers[stream] == {b"grpc-status": b"0"}
    server.reply(stream, b"again")
    assert server.take_output() == b""


def test_two_replies_share_the_connections_window() -> None:
    client, server = Client(window=1 << 20), ServerConnection()
    streams = [client.call("/m", b""), client.call("/n", b"")]
    client.exchange(server)
    for stream in streams:
        server.reply(stream, bytes(200_000))
    client.exchange(server)
    assert [len(client.bodies[stream]) for stream in streams] == [200_005, 200_005]


def test_a_refusal_ends_the_call_with_its_words() -> None:
    client, server = Client(), ServerConnection()
    stream = client.call("/m", b"")
    client.exchange(server)
    server.fail(stream, Code.NOT_FOUND, "no pod ü%")
    client.exchange(server)
    assert client.trailers[stream][b"grpc-status"] == b"5"
    assert client.trailers[stream][b"grpc-message"] == b"no pod %C3%BC%25"
    server.fail(stream, Code.NOT_FOUND, "again")
    assert server.take_output() == b""


def test_a_call_that_is_given_up_is_reported_once_and_its_answer_dropped() -> None:
    client, server = Client(), ServerConnection()
    stream = client.call("/m", b"")
    client.exchange(server)
    client.http2.reset_stream(stream)
    assert client.exchange(server) == [Cancelled(stream)]
    server.reply(stream, b"late")
    assert server.take_output() == b""
    assert server.receive(frames.rst_stream(stream, frames.CANCEL)) == []


def test_more_calls_than_are_served_are_refused_as_not_processed() -> None:
    server = greeted()
    calls = b"".join(request(2 * n + 1, "/m", b"") for n in range(MOST_STREAMS + 2))
    assert len(server.receive(calls)) == MOST_STREAMS
    refused = [frame for frame in parse(server.take_output()) if frame[0] == frames.RST_STREAM]
    assert [(frame[2], frame[3]) for frame in refused] == [
        (2 * MOST_STREAMS + 1, frames.REFUSED_STREAM.to_bytes(4, "big")),
        (2 * MOST_STREAMS + 3, frames.REFUSED_STREAM.to_bytes(4, "big")),
    ]
    server.reply(1, b"")
    assert len(server.receive(request(2 * MOST_STREAMS + 5, "/m", b""))) == 1


@pytest.mark.parametrize("sent", [10, 65_535])
def test_a_long_request_is_refused_by_its_size_before_it_has_come(sent: int) -> None:
    server = greeted()
    data = frames.data_frames(1, pack(bytes(100_000))[:sent], end_stream=False)
    assert server.receive(request_headers(1, "/m") + b"".join(data)) == []
    (answer,) = (frame for frame in parse(server.take_output()) if frame[0] == frames.HEADERS)
    assert b"8" in answer[3] and b"a request of 100000 bytes" in answer[3]
    assert len(server.receive(request(3, "/m", b""))) == 1


def test_a_body_that_is_no_message_is_refused() -> None:
    server = greeted()
    bodies = {1: b"", 3: b"\0\0\0\0\5abc", 5: b"\1" + pack(b"abc")[1:]}
    for stream, body in bodies.items():
        frame = frames.data_frames(stream, body, end_stream=True)
        assert server.receive(request_headers(stream, "/m") + b"".join(frame)) == []
    answers = [frame for frame in parse(server.take_output()) if frame[0] == frames.HEADERS]
    assert [b"13" in answers[0][3], b"13" in answers[1][3], b"12" in answers[2][3]] == [True] * 3


def test_a_ping_is_answered_and_a_goaway_lets_calls_end() -> None:
    server = greeted()
    server.receive(request(1, "/m", b"") + frames.frame(frames.GOAWAY, 0, 0, bytes(8)))
    assert server.receive(frames.frame(frames.PING, 0, 0, b"12345678")) == []
    server.reply(1, b"x")
    kinds = [(frame[0], frame[1]) for frame in parse(server.take_output())]
    assert (frames.PING, frames.ACK) in kinds and kinds[-1] == (frames.HEADERS, frames.END_STREAM | frames.END_HEADERS)


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        GREETING + request_headers(2, "/m"),
        GREETING + frames.frame(frames.CONTINUATION, 0, 1),
        GREETING + frames.frame(frames.HEADERS, 0, 1) + frames.settings_ack(),
        GREETING + frames.frame(frames.PUSH_PROMISE, 0, 1),
        GREETING + frames.frame(frames.DATA, 0, 0, bytes(20_000)),
        GREETING + frames.frame(frames.WINDOW_UPDATE, 0, 0, b"abc"),
    ],
)
def test_what_is_no_http2_breaks_the_connection(sent: bytes) -> None:
    with pytest.raises(ProtocolError):
        ServerConnection().receive(sent)


@settings(max_examples=60)
@given(st.binary(max_size=400), st.integers(1, 40))
def test_garbage_and_any_cutting_of_it_do_no_more_than_that(garbage: bytes, size: int) -> None:
    sent = GREETING + request(1, "/m", b"hello") + garbage
    server, found = ServerConnection(), []
    try:
        for at in range(0, len(sent), size):
            found += server.receive(sent[at : at + size])
    except ProtocolError:
        pass
    assert found[:1] in ([], [Requested(1, "/m", b"hello")])
