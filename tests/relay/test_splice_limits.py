"""What the splice keeps to: the windows of the runtime, and the rules of HTTP/2."""

import gzip

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.message import pack
from cri_proxy.relay.held_call import Held
from cri_proxy.relay.request_quota import RequestQuota
from cri_proxy.relay.splice import Splice
from tests.fakes.http2 import GREETING, body, kinds, parse, request, request_headers, status, trailers
from tests.fakes.spliced import HOLD, PASS, asked, credited, sent, splice, wants

# Flow control


def test_the_runtimes_credit_pays_what_we_sent_in_the_clients_place_first() -> None:
    made = sent(b"x" * 1000)
    made.receive_from_runtime(frames.window_update(0, 600) + frames.window_update(1, 600))
    assert made.to_client == []
    made.receive_from_runtime(frames.window_update(0, 600))
    assert (made.to_client, credited(made)) == ([], 195)
    made.receive_from_runtime(trailers(1))
    assert parse(made.to_client)[-1] == (frames.WINDOW_UPDATE, 0, 0, (195).to_bytes(4, "big"))


def test_a_large_request_takes_as_many_rounds_as_the_windows_ask() -> None:
    made = asked()
    made.resume(1, b"x" * 200_000)
    got = body(made.to_runtime, 1)
    assert len(got) == 65_535
    while len(got) < 200_005:
        made.to_runtime.clear()
        made.receive_from_runtime(frames.window_update(0, 30_000) + frames.window_update(1, 20_000))
        got += body(made.to_runtime, 1)
    assert got == pack(b"x" * 200_000)
    assert parse(made.to_runtime)[-1][1] == frames.END_STREAM


def test_the_initial_window_is_that_of_the_runtime() -> None:
    made = Splice(wants)
    made.receive_from_client(GREETING)
    made.receive_from_runtime(frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, 100)]))
    made.receive_from_client(frames.settings_ack() + request(1, HOLD, b"x"))
    made.resume(1, b"x" * 1000)
    assert len(body(made.to_runtime, 1)) == 100


def test_a_smaller_initial_window_counts_at_once_for_open_streams() -> None:
    made = asked()
    made.receive_from_runtime(frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, 100)]))
    made.resume(1, b"x" * 1000)
    assert len(body(made.to_runtime, 1)) == 100


def test_a_larger_initial_window_counts_when_it_is_acknowledged() -> None:
    made = asked()
    made.receive_from_runtime(
        frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, 70_000)]) + frames.window_update(0, 90_000)
    )
    made.resume(1, b"x" * 80_000)
    assert len(body(made.to_runtime, 1)) == 65_535
    made.receive_from_client(frames.settings_ack())
    assert len(body(made.to_runtime, 1)) == 70_000


def test_data_of_the_client_waits_when_we_used_the_window_up() -> None:
    made = sent(b"x" * 60_000)
    upload = request_headers(3, PASS) + frames.frame(frames.DATA, frames.END_STREAM, 3, bytes(10_000))
    made.receive_from_client(upload)
    assert len(body(made.to_runtime, 3)) == 65_535 - 60_005
    made.receive_from_runtime(frames.window_update(0, 60_005))
    assert body(made.to_runtime, 3) == bytes(10_000)


# Malformed


@pytest.mark.parametrize(
    "data",
    [
        frames.frame(frames.HEADERS, frames.END_HEADERS, 0, b""),
        frames.frame(frames.HEADERS, frames.END_HEADERS, 1, b"\xff"),
        frames.frame(frames.HEADERS, frames.PADDED, 1, b"\7abc"),
        frames.frame(frames.HEADERS, 0, 1, b"") + frames.frame(frames.PING, 0, 0, bytes(8)),
        frames.frame(frames.CONTINUATION, 0, 1, b""),
        frames.frame(frames.HEADERS, 0, 1, b"") + frames.frame(frames.CONTINUATION, 0, 3, b""),
        frames.frame(frames.SETTINGS, 0, 0, b"abc"),
        frames.frame(frames.DATA, 0, 1, bytes(20_000)),
    ],
)
def test_a_malformed_frame_of_the_client_is_a_protocol_error(data: bytes) -> None:
    made = splice(frames.frame(frames.PING, 0, 0, bytes(8)))
    with pytest.raises(ProtocolError):
        made.receive_from_client(data)


def test_a_client_that_does_not_speak_http2_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        Splice(wants).receive_from_client(b"GET / HTTP/1.1\r\n\r\n")


def test_what_came_before_a_malformed_frame_is_sent_on() -> None:
    made = splice()
    good = request(1, PASS, b"x")
    with pytest.raises(ProtocolError):
        made.receive_from_client(good + frames.frame(frames.CONTINUATION, 0, 1, b""))
    assert b"".join(made.to_runtime) == good


def test_asking_the_client_to_leave_gives_no_call_up() -> None:
    made = splice()
    made.goaway.ask()
    assert parse(made.to_client)[0] == (frames.GOAWAY, 0, 0, b"\x7f\xff\xff\xff" + bytes(4))


# What a connection may hold


MIB = 1 << 20
COMPRESSED = [(b"grpc-encoding", b"gzip")]


def upload(stream: int, size: int) -> bytes:
    """A request of a wanted method that is never complete."""
    return request_headers(stream, HOLD) + b"".join(frames.data_frames(stream, bytes(size), end_stream=False))


def test_unfinished_requests_are_bounded_together_and_the_newest_is_refused() -> None:
    quota = RequestQuota()
    made = splice(quota=quota)
    for number in range(4):
        made.receive_from_client(upload(2 * number + 1, 10 * MIB))
        assert quota.held_bytes <= 32 * MIB
    assert status(made.to_client, 7)[b"grpc-status"] == b"8"
    assert [kind for kind in kinds(made.to_client, 5) if kind == frames.HEADERS] == []
    made.lost()
    assert (quota.calls, quota.held_bytes) == (0, 0)


def test_a_relays_connections_are_bounded_together() -> None:
    quota = RequestQuota()
    connections = [splice(quota=quota) for _ in range(4)]
    for made in connections:
        made.receive_from_client(upload(1, 15 * MIB) + upload(3, 15 * MIB))
    refused = [kinds(made.to_client, 3).count(frames.HEADERS) for made in connections]
    assert (refused, quota.held_bytes) == ([0, 0, 1, 1], 60 * MIB)


def test_a_compressed_request_counts_with_what_it_holds() -> None:
    quota = RequestQuota()
    made = splice(quota=quota)
    squeezed = gzip.compress(bytes(15 * MIB))
    body = b"\1" + len(squeezed).to_bytes(4, "big") + squeezed
    data = b"".join(frames.data_frames(1, body, end_stream=True))
    for stream in (1, 3, 5):
        one = request_headers(stream, HOLD, extra=COMPRESSED) + data.replace(b"\0\0\0\1", bytes((0, 0, 0, stream)))
        made.receive_from_client(one)
    assert [type(event) for event in made.events] == [Held, Held]
    assert quota.held_bytes == 2 * (15 * MIB + len(body))
    assert status(made.to_client, 5)[b"grpc-status"] == b"8"


@pytest.mark.parametrize("message", [b"", b"x", b"y" * 100_000])
def test_a_request_counts_once_and_until_its_call_has_ended(message: bytes) -> None:
    quota = RequestQuota()
    made = splice(request(1, HOLD, message), quota=quota)
    assert (quota.calls, quota.held_bytes) == (1, len(message) + 5)
    made.receive_from_runtime(frames.window_update(0, 1 << 20) + frames.window_update(1, 1 << 20))
    made.resume(1, None)
    assert body(made.to_runtime, 1) == pack(message)
    made.receive_from_runtime(trailers(1))
    assert (quota.calls, quota.held_bytes) == (0, 0)


def test_calls_that_are_begun_and_never_sent_are_bounded_and_their_client_is_left_in_the_end() -> None:
    quota = RequestQuota()
    made = splice(quota=quota)
    with pytest.raises(ProtocolError, match="without room"):
        for stream in range(1, 20_001, 2):
            made.receive_from_client(request_headers(stream, HOLD))
            made.to_client.clear()
    assert quota.calls == 2000


def test_calls_that_pass_and_never_end_are_bounded() -> None:
    made = splice()
    with pytest.raises(ProtocolError, match="10000 calls in flight") as error:
        for stream in range(1, 30_001, 2):
            made.receive_from_client(request_headers(stream, PASS))
            made.to_runtime.clear()
    assert (stream, error.value.code) == (20_003, frames.ENHANCE_YOUR_CALM)


def test_data_beyond_the_window_ends_the_connection() -> None:
    made = splice(request_headers(1, PASS))
    made.receive_from_client(b"".join(frames.data_frames(1, bytes(65_535), end_stream=False)))
    with pytest.raises(ProtocolError, match="in a window of 0") as error:
        made.receive_from_client(frames.frame(frames.DATA, 0, 1, b"x"))
    assert error.value.code == frames.FLOW_CONTROL_ERROR
