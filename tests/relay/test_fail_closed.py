"""A call whose headers a relay cannot follow never passes unread: it is refused, or its connection ends."""

import asyncio
from contextlib import suppress

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.headers import write_literals
from cri_proxy.http2.message import pack
from cri_proxy.metrics import catalog
from cri_proxy.relay.server import SpliceRelay
from tests.fakes.http2 import GREETING, block_frames
from tests.relay.h2_client import Shape
from tests.relay.stage import H2_ONLY, RELAY_VIAS, Place, Stage

HOLD, PASS = "/runtime.v1.RuntimeService/HoldThis", "/runtime.v1.RuntimeService/Version"
SECRET, LAST = b"the secret message", b"the last"
FIELDS = [(b":scheme", b"http"), (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc")]


def call(*paths: str, stream: int = 1, before: bytes = b"") -> bytes:
    """A call that has these paths, with a message."""
    block = before + write_literals([(b":method", b"POST"), *((b":path", path.encode()) for path in paths), *FIELDS])
    return block_frames(stream, block) + b"".join(frames.data_frames(stream, pack(SECRET), end_stream=True))


UNREADABLE = {
    "no path": (call(), "path"),
    "an empty path": (call(""), "path"),
    "a path without its slash": (call(HOLD[1:]), "path"),
    "a long path": (call(HOLD + "x" * 5000), "path"),
    "two paths": (call(PASS, HOLD), "path"),
    "the reserved bit": (call(HOLD, stream=1 << 31 | 1), "stream_id"),
    "the reserved bit after a call": (call(PASS) + call(HOLD, stream=1 << 31 | 3), "stream_id"),
    "a stream that is not new": (call(PASS, stream=5) + call(HOLD, stream=3), "protocol"),
    "an entry that the table does not have": (call(before=b"\xbe"), "compression"),
    "headers of 2 MiB": (call(HOLD, before=write_literals([(b"x", b"y" * (2 << 20))])), "header_size"),
}


def counted(stage: Stage) -> dict[str, object]:
    """What a splice did not understand, by reason."""
    assert isinstance(stage.relay, SpliceRelay)
    samples = [s for s in stage.relay.boundary.traffic.samples() if s.metric is catalog.MALFORMED and s.value]
    return {sample.labels[0]: sample.value for sample in samples}


async def has_read(reader: asyncio.StreamReader) -> None:
    """Wait until the other side has read what was sent: it answers the last PING, or ends the connection."""
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            head = await reader.readexactly(frames.HEADER_BYTES)
            body = await reader.readexactly(int.from_bytes(head[:3], "big"))
            if (head[3], head[4], body) == (frames.PING, frames.ACK, LAST):
                return


async def play(stage: Stage, data: bytes) -> None:
    reader, writer = await asyncio.open_unix_connection(stage.path)
    with suppress(ConnectionError):
        writer.write(GREETING + frames.settings_ack() + data + frames.frame(frames.PING, 0, 0, LAST))
        await writer.drain()
    async with asyncio.timeout(30):
        await has_read(reader)
    assert (await stage.call(HOLD, b"next")).code == 0
    writer.close()


@RELAY_VIAS
@H2_ONLY
@pytest.mark.parametrize("case", UNREADABLE)
async def test_a_call_that_cannot_be_read_never_passes_unread(stage: Stage, case: str) -> None:
    data, reason = UNREADABLE[case]
    await play(stage, data)
    asked = [call.message for call in stage.interceptor.asked]
    held = {request for seen in stage.runtime.calls if seen.method != PASS for request in seen.requests}
    assert held <= set(asked)
    if isinstance(stage.relay, SpliceRelay):  # grpcio's core overlooks some; what it makes of them is inspected
        assert (asked, counted(stage)) == ([b"next"], {reason: 1})


@RELAY_VIAS
@H2_ONLY
@pytest.mark.parametrize("case", ["a path without its slash", "a long path", "the reserved bit"])
async def test_a_runtime_that_would_take_such_a_call_does_not_get_it(place: Place, case: str) -> None:
    async with place.staged(runtime=Shape()) as stage:
        await play(stage, UNREADABLE[case][0])
        assert sum(SECRET in request.body for request in stage.other.calls) == len(stage.interceptor.asked) - 1


@RELAY_VIAS
@H2_ONLY
@pytest.mark.parametrize("size", [0, 1, 100])
async def test_a_flood_of_small_frames_of_headers_ends_its_connection_and_nothing_else(stage: Stage, size: int) -> None:
    block = write_literals([(b":method", b"POST"), (b":path", HOLD.encode()), *FIELDS])
    flood = frames.frame(frames.CONTINUATION, 0, 1, write_literals([(b"x", bytes(size))])[:size])
    await play(stage, frames.frame(frames.HEADERS, 0, 1, block) + flood * 100_000)
    assert [call.message for call in stage.interceptor.asked] == [b"next"]
    if isinstance(stage.relay, SpliceRelay):
        assert counted(stage) == {"flood": 1}
