"""What breaks HTTP/2 ends its own two connections, and nothing else: no other client, no other call, no relay.

What grpcio's core takes for broken is its own affair (it overlooks some); what holds for others holds for it too.
"""

import asyncio

import pytest

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.relay.calls import Aborted, Replied
from cri_proxy.relay.server import SpliceRelay
from tests.fakes.grpc_runtime import Script
from tests.fakes.http2 import GREETING, request
from tests.relay.clients import GrpcioClient
from tests.relay.h2_client import Shape
from tests.relay.stage import CLIENTS, RELAY_VIAS, Place, Stage, until

HOLD, PASS = "/runtime.v1.RuntimeService/HoldThis", "/runtime.v1.RuntimeService/Version"
EVENTS = "/runtime.v1.RuntimeService/GetContainerEvents"
OPEN_BLOCK = frames.frame(frames.HEADERS, 0, 3, b"")
DAMAGE = {
    "headers of no stream": frames.frame(frames.HEADERS, frames.END_HEADERS, 0, b"\x88"),
    "an entry that is not in the table": frames.frame(frames.HEADERS, frames.END_HEADERS, 3, b"\xff\xff\x03"),
    "an interrupted header block": OPEN_BLOCK + frames.frame(frames.PING, 0, 0, bytes(8)),
    "a continuation of nothing": frames.frame(frames.CONTINUATION, frames.END_HEADERS, 3, b""),
    "a continuation of something else": OPEN_BLOCK + frames.frame(frames.CONTINUATION, frames.END_HEADERS, 5, b""),
    "half a setting": frames.frame(frames.SETTINGS, 0, 0, b"abc"),
    "a frame beyond the bound": b"\xff\xff\xff" + frames.frame(frames.DATA, 0, 3)[3:],
}


def reported(stage: Stage) -> list[type[BaseException]]:
    return [type(error) for error in stage.errors]


@RELAY_VIAS
@CLIENTS
@pytest.mark.parametrize("damage", ["no HTTP/2", *DAMAGE])
async def test_a_malformed_frame_of_a_client_ends_its_connection_and_nothing_else(damage: str, stage: Stage) -> None:
    bystander = await stage.start(EVENTS, b"x", script=Script(replies=2, hang=True))
    assert await bystander.read() == b"0 "
    reader, writer = await asyncio.open_unix_connection(stage.path)
    writer.write(GREETING + DAMAGE[damage] if damage in DAMAGE else b"GET / HTTP/1.1\r\n\r\n" * 9)
    if isinstance(stage.relay, SpliceRelay):
        async with asyncio.timeout(30):
            await ends(reader)
        assert reported(stage) == [ProtocolError]
        connections = stage.relay.boundary.traffic._relays[0]
        await until(lambda: connections().connections == 1)  # both sides are closed; the bystander's are not
    writer.close()
    assert (await bystander.read(), (await stage.call(HOLD, b"x")).code) == (b"1 ", 0)
    bystander.cancel()


async def ends(reader: asyncio.StreamReader) -> None:
    """Read what is left. A connection that its other side has closed with bytes unread ends by a reset."""
    try:
        await reader.read()
    except ConnectionResetError:
        return


@RELAY_VIAS
@CLIENTS
async def test_the_held_calls_of_a_broken_connection_end_and_no_others(stage: Stage) -> None:
    other = await stage.start(HOLD, b"wait...other")
    await until(lambda: len(stage.interceptor.asked) == 1)
    _, writer = await asyncio.open_unix_connection(stage.path)
    extra = [(b":scheme", b"http"), (b":authority", b"x"), (b"te", b"trailers"), (b"content-type", b"application/grpc")]
    writer.write(GREETING + request(1, HOLD, b"wait...broken", extra=extra))
    await until(lambda: len(stage.interceptor.asked) == 2)
    writer.write(DAMAGE["half a setting"])
    await until(lambda: bool(stage.interceptor.outcomes))
    told = [(call.message, outcome) for call, outcome in stage.interceptor.outcomes]
    assert told == [(b"wait...broken", Aborted(sent=False))]
    writer.close()
    other.cancel()


@pytest.mark.parametrize("via", ["splice"])
@CLIENTS
@pytest.mark.parametrize("damage", sorted(DAMAGE.keys() - {"an entry that is not in the table"}))
async def test_a_malformed_frame_of_the_runtime_ends_its_connection_and_no_byte_of_it_passes(
    place: Place, damage: str
) -> None:
    """The client on python-h2 would complain of any; what it called meanwhile fails, and what it calls next works."""
    async with place.staged(runtime=Shape()) as stage:
        calls = await stage.held(*((method, b"x") for method in (PASS, HOLD)))
        line = stage.other.lines[0]
        line.write(DAMAGE[damage])
        async with asyncio.timeout(30):
            assert 0 not in {(await call.end()).code for call in calls}
        await until(lambda: line.is_over)
        assert [outcome for _, outcome in stage.interceptor.outcomes] == [Aborted(sent=True)]
        stage.other.is_holding = False
        await works_again(stage)
        assert reported(stage) == [ProtocolError]


async def works_again(stage: Stage) -> None:
    """The next call is answered; or the one after, where grpcio's core writes into what it has not seen end yet."""
    async with asyncio.timeout(30):
        while (answer := await stage.call(HOLD, b"x")).code != 0:
            assert isinstance(stage.client, GrpcioClient)
            assert answer.code == 14


@pytest.mark.parametrize("via", ["splice"])
@CLIENTS
@pytest.mark.parametrize("damage", ["half a setting", "a continuation of nothing"])
async def test_replies_that_came_with_a_malformed_frame_of_the_runtime_but_before_it_arrive(
    place: Place, damage: str
) -> None:
    async with place.staged(runtime=Shape()) as stage:
        calls = await stage.held(*((method, b"x") for method in (PASS, HOLD)))
        stage.other.release()
        stage.other.lines[0].write(DAMAGE[damage])  # in the same turn: the relay reads both at once
        assert [(await call.end()).replies for call in calls] == [(b"x",), (b"x",)]
        assert [outcome for _, outcome in stage.interceptor.outcomes] == [Replied(b"x")]
        await until(lambda: stage.other.lines[0].is_over)
