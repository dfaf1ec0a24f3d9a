"""Clients that break rules at others' cost: what they make a relay hold is bounded, and in the end they are left."""

import asyncio

from cri_proxy.http2 import frames
from cri_proxy.http2.message import pack
from cri_proxy.relay.request_quota import MAX_CONNECTION_CALLS
from cri_proxy.relay.server import SpliceRelay
from tests.fakes.http2 import GREETING, parse, request_headers
from tests.relay.clients import Answer, CallUnderWay
from tests.relay.h2_client import Shape
from tests.relay.stage import CLIENTS, H2_ONLY, RELAY_VIAS, Place, Stage

HOLD, PASS = "/runtime.v1.RuntimeService/HoldThis", "/runtime.v1.RuntimeService/Version"
MIB = 1 << 20
RESOURCE_EXHAUSTED = 8
FIELDS = [(b":scheme", b"http"), (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc")]


def begun(stream: int, method: str) -> bytes:
    return request_headers(stream, method, extra=FIELDS)


@RELAY_VIAS
@CLIENTS
async def test_requests_that_wait_for_their_verdict_are_bounded_together(stage: Stage) -> None:
    """Of the largest there is room for a few; once they have ended there is room again."""
    message = b"wait..." + bytes(15 * MIB)
    calls: list[tuple[CallUnderWay, asyncio.Task[None], asyncio.Task[Answer]]] = []
    async with asyncio.timeout(60):
        while True:
            call = await stage.start(HOLD)
            writing = asyncio.get_running_loop().create_task(call.write(message, last=True))
            ending = asyncio.get_running_loop().create_task(call.end())
            while len(stage.interceptor.asked) == len(calls) and not ending.done():  # noqa: ASYNC110 - bounded
                await asyncio.sleep(0.01)
            if ending.done():
                assert ending.result().code == RESOURCE_EXHAUSTED
                break
            calls.append((call, writing, ending))
    assert 2 <= len(calls) <= 4
    for call, *tasks in calls:
        call.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)  # a cancelled call of grpcio raises
    answer = await stage.call(HOLD, bytes(15 * MIB))
    assert (answer.code, len(answer.replies[0])) == (0, 15 * MIB)


@RELAY_VIAS
@H2_ONLY
async def test_calls_that_are_begun_and_never_sent_are_bounded(place: Place) -> None:
    """The splice passes the runtime's limit on, which need not have one, and refuses what it will not hold itself."""
    async with place.staged(runtime=Shape(streams=1_000_000)) as stage:
        reader, writer = await asyncio.open_unix_connection(stage.path)
        try:
            writer.write(GREETING + frames.frame(frames.PING, 0, 0, b"greeting"))
            greeting = parse(await until_ponged(reader, b"greeting"))[0]
            writer.write(frames.settings_ack())
            if isinstance(stage.relay, SpliceRelay):
                writer.write(b"".join(begun(stream, HOLD) for stream in range(1, 4201, 2)))
                writer.write(frames.frame(frames.PING, 0, 0, b"the last"))
                answers = parse(await until_ponged(reader, b"the last"))
                refused = {stream for kind, _, stream, _ in answers if kind == frames.HEADERS}
                assert refused == set(range(2 * MAX_CONNECTION_CALLS + 1, 4201, 2))
                assert stage.relay.quota.calls == MAX_CONNECTION_CALLS
            else:  # grpcio's core refuses as it thinks best, depending on what it has in hand
                limits = dict(frames.parse_settings(greeting[3]))
                assert limits[frames.SETTINGS_MAX_CONCURRENT_STREAMS] == MAX_CONNECTION_CALLS
        finally:
            writer.close()


async def until_ponged(reader: asyncio.StreamReader, body: bytes) -> bytes:
    """What the relay sends until it has answered this PING."""
    received = b""
    async with asyncio.timeout(60):
        while body not in received:
            received += await reader.read(1 << 16)
    return received[: received.index(body) + len(body)]


@RELAY_VIAS
@CLIENTS
async def test_an_unfinished_request_does_not_count_once_its_client_has_left(stage: Stage) -> None:
    for _ in range(8):
        _, writer = await asyncio.open_unix_connection(stage.path)
        body = pack(bytes(15 * MIB))[:65_000]
        writer.write(GREETING + begun(1, HOLD) + b"".join(frames.data_frames(1, body, end_stream=False)))
        await writer.drain()
        writer.close()
    assert (await stage.call(HOLD, bytes(15 * MIB))).code == 0
