"""A third client finds the same: grpclib, a gRPC library of others on the HTTP/2 of python-h2, at its own defaults."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from grpclib.client import Channel, StreamStreamMethod, UnaryUnaryMethod
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError

from cri_proxy.relay.calls import Replied
from tests.fakes.grpc_runtime import Script
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
