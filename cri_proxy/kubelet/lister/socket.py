"""Serve unary gRPC calls on a Unix socket, on our own HTTP/2 core: grpcio would cost the daemon over 10 MB."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final, cast

from cri_proxy.errors import CallFailed
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.server import Cancelled, Requested, ServerConnection
from cri_proxy.http2.status import Code
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import Published, listen_on

MOST_CLIENTS: Final = 16
_MOST_UNREAD_BYTES: Final = 16 << 20
"""What may wait for a client that does not read; its own windows bound what is answered."""

Handler = Callable[[str, bytes], Awaitable[bytes]]
"""Answers a method and its message. Raises CallFailed."""


class UnaryServer:
    """The socket and its clients. Started and closed once."""

    def __init__(self, handler: Handler, on_error: Callable[[BaseException], None]) -> None:
        """``on_error`` gets what ``handler`` raises beside CallFailed; the call is answered INTERNAL."""
        self.handler: Final = handler
        self.on_error: Final = on_error
        self.clients: Final[set[_Client]] = set()
        self._server: asyncio.Server | None = None
        self._published: Published | None = None

    async def start(self, path: Path, model: Path) -> None:
        """Listen with owner and mode of the socket ``model``, in place of one that is there. Raises ConfigError."""
        listener, self._published = listen_on(path, model, take_over=True)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(partial(_Client, self), sock=listener)

    def problem(self) -> str:
        """Return why new clients cannot connect; '' while they can."""
        return self._published.problem if self._published is not None else ""

    async def close(self) -> None:
        """Stop listening and cancel what is being answered."""
        if self._server is not None:
            self._server.close()
        for client in tuple(self.clients):
            await client.close()
        if self._published is not None:
            self._published.withdraw()


class _Client(asyncio.Protocol):
    """One connection."""

    def __init__(self, server: UnaryServer) -> None:
        self._of = server
        self._http2 = ServerConnection()
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._tasks = Tasks(server.on_error)
        self._transport: asyncio.Transport | None = None

    async def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()
        await self._tasks.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if len(self._of.clients) >= MOST_CLIENTS:
            self._transport.abort()
            return
        self._of.clients.add(self)
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            found = self._http2.receive(data)
        except ProtocolError:
            if self._transport is not None:
                self._transport.abort()
            return
        for event in found:
            match event:
                case Requested():
                    self._calls[event.stream] = self._tasks.start(self._answer(event), name=event.method)
                case Cancelled(stream=stream) if stream in self._calls:
                    self._calls.pop(stream).cancel()
        self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._of.clients.discard(self)
        for call in self._calls.values():
            call.cancel()

    async def _answer(self, asked: Requested) -> None:
        try:
            self._http2.reply(asked.stream, await self._of.handler(asked.method, asked.message))
        except CallFailed as error:
            self._http2.fail(asked.stream, error.code, error.message)
        # Cancelled, too: for a call that its client has given up this does nothing.
        except BaseException:
            self._http2.fail(asked.stream, Code.INTERNAL, "cri-proxy: an internal error, see its log")
            raise
        finally:
            self._calls.pop(asked.stream, None)
            self._flush()

    def _flush(self) -> None:
        output = self._http2.take_output()
        if not output or self._transport is None or self._transport.is_closing():
            return
        self._transport.write(output)
        if self._transport.get_write_buffer_size() > _MOST_UNREAD_BYTES:
            self._transport.abort()
