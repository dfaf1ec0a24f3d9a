"""A third client finds the same: grpclib, a gRPC library of others on the HTTP/2 of python-h2, at its own defaults."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from grpclib.client import Channel, StreamStreamMethod, UnaryUnaryMethod
from grpclib.encoding.base import CodecBase
from grpclib.exceptions import GRPCError

from cri_proxy.relay.calls import Replied
from tests.fakes.grpc_runtime import Script
from tests.relay.stage import LARGEST_BYTES, RELAY_VIAS, VIAS, Place, Stage, stage

VERSION = "/runtime.v1.RuntimeService/Version"
HOLD = "/runtime.v1.RuntimeService/HoldThis"


class RawCodec(CodecBase):
    """Bytes as they are."""

    __content_subtype__ = "proto"

    def encode(self, message: bytes, message_type: object) -> bytes:
        return message

    def decode(self, data: bytes, message_type: object) -> bytes:
        return data


def converse(via: str, act: Callable[[Stage, Channel], Awaitable[None]]) -> None:
    """Run one conversation with a grpclib client."""

    async def run() -> None:
        async with stage(Place(via, "grpcio")) as set_up:
            channel = Channel(path=set_up.path, codec=RawCodec())
            try:
                await act(set_up, channel)
            finally:
                channel.close()
                await asyncio.sleep(0)

    asyncio.run(run())


def unary(channel: Channel, method: str) -> UnaryUnaryMethod[bytes, bytes]:
    return UnaryUnaryMethod(channel, method, bytes, bytes)


@VIAS
def test_a_unary_call_and_its_status(via: str) -> None:
    async def act(stage: Stage, channel: Channel) -> None:
        assert await unary(channel, VERSION)(b"message", timeout=20) == b"message"
        with pytest.raises(GRPCError) as error:
            await unary(channel, VERSION)(b"x", metadata=[Script(code=5, message="né 100%").metadata()])
        assert (error.value.status.value, error.value.message) == (5, "né 100%")

    converse(via, act)


@VIAS
def test_the_largest_reply(via: str) -> None:
    async def act(stage: Stage, channel: Channel) -> None:
        script = Script(replies=1, reply_bytes=LARGEST_BYTES)
        assert len(await unary(channel, VERSION)(b"x", metadata=[script.metadata()])) == LARGEST_BYTES

    converse(via, act)


@VIAS
def test_a_conversation(via: str) -> None:
    async def act(stage: Stage, channel: Channel) -> None:
        async with StreamStreamMethod(channel, "/not.yet.Invented/Method", bytes, bytes).open() as stream:
            for message in (b"one", b"two"):
                await stream.send_message(message)
                assert await stream.recv_message() == message
            await stream.end()
            assert await stream.recv_message() is None

    converse(via, act)


@RELAY_VIAS
def test_held_calls(via: str) -> None:
    async def act(stage: Stage, channel: Channel) -> None:
        call = unary(channel, HOLD)
        message = b"rewrite" + bytes(200_000)
        assert await call(message) == message + b" rewritten"
        assert stage.interceptor.outcomes[0][1] == Replied(message + b" rewritten")
        with pytest.raises(GRPCError) as error:
            await call(b"refuse no")
        assert (error.value.status.value, error.value.message) == (9, "no")
        assert await call(b"again") == b"again"

    converse(via, act)


@RELAY_VIAS
def test_a_refused_service(via: str) -> None:
    async def act(stage: Stage, channel: Channel) -> None:
        with pytest.raises(GRPCError) as error:
            await unary(channel, "/runtime.v1alpha2.RuntimeServiceOld/Version")(b"x")
        assert error.value.status.value == 12

    converse(via, act)
