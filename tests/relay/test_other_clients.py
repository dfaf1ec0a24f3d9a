"""Two other clients find the same: grpclib, on the HTTP/2 of python-h2 at its own defaults, and curl, on nghttp2."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from grpclib.client import Channel, StreamStreamMethod, UnaryUnaryMethod
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError

from cri_proxy.relay.calls import Replied
from tests.fakes.grpc_runtime import Script
from tests.relay.clients import Answer
from tests.relay.curl_client import CurlClient
from tests.relay.stage import LARGEST_BYTES, RELAY_VIAS, VIAS, Stage

VERSION = "/runtime.v1.RuntimeService/Version"
HOLD = "/runtime.v1.RuntimeService/HoldThis"


class RawCodec(CodecBase):
    __content_subtype__ = "proto"

    def encode(self, message: bytes, message_type: object) -> bytes:
        return message

    def decode(self, data: bytes, message_type: object) -> bytes:
        return data


@pytest.fixture
def client() -> str:
    return "grpcio"


@pytest.fixture
async def channel(stage: Stage) -> AsyncIterator[Channel]:
    """A grpclib client of the stage's relay."""
    channel = Channel(path=stage.path, codec=RawCodec())
    yield channel
    channel.close()
    await asyncio.sleep(0)


def unary(channel: Channel, method: str) -> UnaryUnaryMethod[bytes, bytes]:
    return UnaryUnaryMethod(channel, method, bytes, bytes)


@VIAS
async def test_a_unary_call_and_its_status(channel: Channel) -> None:
    assert await unary(channel, VERSION)(b"message", timeout=20) == b"message"
    with pytest.raises(GRPCError) as error:
        await unary(channel, VERSION)(b"x", metadata=[Script(code=5, message="né 100%").metadata()])
    assert (error.value.status.value, error.value.message) == (5, "né 100%")


@VIAS
async def test_the_largest_reply(channel: Channel) -> None:
    script = Script(replies=1, reply_bytes=LARGEST_BYTES)
    assert len(await unary(channel, VERSION)(b"x", metadata=[script.metadata()])) == LARGEST_BYTES


@VIAS
async def test_a_conversation(channel: Channel) -> None:
    async with StreamStreamMethod(channel, "/not.yet.Invented/Method", bytes, bytes).open() as stream:
        for message in (b"one", b"two"):
            await stream.send_message(message)
            assert await stream.recv_message() == message
        await stream.end()
        assert await stream.recv_message() is None


@RELAY_VIAS
async def test_held_calls(stage: Stage, channel: Channel) -> None:
    call = unary(channel, HOLD)
    message = b"rewrite" + bytes(200_000)
    assert await call(message) == message + b" rewritten"
    assert stage.interceptor.outcomes[0][1] == Replied(message + b" rewritten")
    with pytest.raises(GRPCError) as error:
        await call(b"refuse no")
    assert (error.value.status.value, error.value.message) == (9, "no")
    assert await call(b"again") == b"again"


@RELAY_VIAS
async def test_a_refused_service(channel: Channel) -> None:
    with pytest.raises(GRPCError) as error:
        await unary(channel, "/runtime.v1alpha2.RuntimeServiceOld/Version")(b"x")
    assert error.value.status.value == 12


# A first call is often sent before the relay has even connected to the runtime. None is refused before its message: of
# such a one curl says that the stream broke, in front of containerd itself too.
FIRST_CALLS = {
    "passes": (VERSION, b"x", (0, b"x")),
    "is held": (HOLD, b"x", (0, b"x")),
    "is rewritten and large": (HOLD, b"rewrite" + bytes(50_000), (0, b"rewrite" + bytes(50_000) + b" rewritten")),
    "is larger than the first window": (HOLD, bytes(200_000), (0, bytes(200_000))),
    "is refused": (HOLD, b"refuse no", (9, b"")),
}
FRESH_CONNECTIONS = 30


def outcome(answer: Answer) -> tuple[int, bytes]:
    return answer.code, b"".join(answer.replies)


@RELAY_VIAS
@pytest.mark.parametrize("first", FIRST_CALLS)
async def test_every_fresh_connection_of_curl_is_served_whatever_its_first_call(stage: Stage, first: str) -> None:
    method, message, expected = FIRST_CALLS[first]
    curl = CurlClient(stage.path)
    answers = [outcome(await curl.unary(method, message)) for _ in range(FRESH_CONNECTIONS)]
    assert answers == [expected] * FRESH_CONNECTIONS
