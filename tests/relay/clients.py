"""What every client of the suite can do, whatever its HTTP/2 stack, and the client on grpcio's C core."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import grpc
from grpc import aio

Pairs = Sequence[tuple[str, str | bytes]]

_OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_send_message_length", 32 * 1024 * 1024),
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.default_authority", "x"),  # else it is the socket's path
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 200),
)
_COMPRESSIONS = {"gzip": grpc.Compression.Gzip, "deflate": grpc.Compression.Deflate, None: None}


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended for its client. Metadata is sorted by name; values of one name keep their order."""

    code: int
    details: str
    replies: tuple[bytes, ...] = ()
    initial: tuple[tuple[str, str | bytes], ...] = ()
    trailing: tuple[tuple[str, str | bytes], ...] = ()


class CallUnderWay(Protocol):
    """A bidirectional call. One that has ended takes what is written without a word."""

    async def write(self, message: bytes, *, last: bool = False) -> None:
        """Send a message, and with ``last`` the end of the requests as close to it as the stack allows."""

    async def done_writing(self) -> None:
        """Half-close."""

    async def read(self) -> bytes | None:
        """The next reply; None after the last. Who does not read takes nothing off the connection."""

    def cancel(self) -> None:
        """Give the call up."""

    async def end(self) -> Answer:
        """Read what is left, and say how the call ended."""


class GrpcioClient:
    """On grpcio: HTTP/2 by its C core."""

    def __init__(self, path: str) -> None:
        self._channel: Any = aio.insecure_channel(f"unix:{path}", options=_OPTIONS)

    async def start(
        self, method: str, *, metadata: Pairs = (), timeout_seconds: float | None = None, compression: str | None = None
    ) -> "GrpcioCall":
        start = self._channel.stream_stream(method)
        return GrpcioCall(start(metadata=metadata, timeout=timeout_seconds, compression=_COMPRESSIONS[compression]))

    async def unary(self, method: str, message: bytes) -> Answer:
        call = self._channel.unary_unary(method)(message)
        replies: tuple[bytes, ...] = ()
        with suppress(aio.AioRpcError):
            replies = (await call,)
        return await _answer(call, replies)

    async def close(self) -> None:
        await self._channel.close(None)


class GrpcioCall:
    """Grpcio's own object, with the same manners as any other."""

    def __init__(self, call: Any) -> None:  # noqa: ANN401 - grpc-stubs know typed messages only
        self._call = call
        self._replies: list[bytes] = []

    async def write(self, message: bytes, *, last: bool = False) -> None:
        if not self._call.done():
            try:
                await self._call.wait_for_connection()
                # Not by grpcio's own ``write``: of one that meets the end of its call it makes an INTERNAL, which takes
                # the place of the status that the core has, or will have.
                await self._call._cython_call.send_serialized_message(message)
            except (aio.AioRpcError, aio.InternalError):
                return
        if last:
            await self.done_writing()

    async def done_writing(self) -> None:
        try:
            await self._call.done_writing()
        except (aio.AioRpcError, aio.InternalError, asyncio.InvalidStateError):  # the second: the connection breaks
            return

    async def read(self) -> bytes | None:
        try:
            reply = await self._call.read()
        except (aio.AioRpcError, asyncio.InvalidStateError):
            return None
        return reply if isinstance(reply, bytes) else None

    def cancel(self) -> None:
        self._call.cancel()

    async def end(self) -> Answer:
        replies = []
        while not self._call.cancelled() and (reply := await self.read()) is not None:
            replies.append(reply)
        return await _answer(self._call, tuple(replies))


async def _answer(call: Any, replies: tuple[bytes, ...]) -> Answer:  # noqa: ANN401
    code = await call.code()
    initial, trailing = await call.initial_metadata(), await call.trailing_metadata()
    return Answer(code.value[0], await call.details() or "", replies, plain(initial or ()), plain(trailing or ()))


def plain(metadata: Any) -> tuple[tuple[str, str | bytes], ...]:  # noqa: ANN401
    """Sorted by name: grpcio groups repeated names, in the order of their values."""
    return tuple(sorted(((key, value) for key, value in metadata), key=lambda pair: str(pair[0])))
