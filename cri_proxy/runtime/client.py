"""Call the runtime from the proxy itself: unary and server-streaming gRPC over a Unix socket, reconnecting.

On our own HTTP/2 core instead of grpcio, which costs over 10 MB and wakes up while idle. An asyncio protocol without a
task sleeps until bytes arrive. The connection is opened by the first call, and again after it broke.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Final, cast

from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.http2.client import STREAM_WINDOW_BYTES, Broken, CallEnded, ClientConnection, Event, Message
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.status import Code, Failed
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.unix_socket import answers, socket_path

# The runtime gets a later deadline than ours, so that the error is ours and says what happened.
_DEADLINE_GRACE_SECONDS: Final = 1.0
_NO_BOUNDS: Final[Mapping[str, int]] = MappingProxyType({})


class _RuntimeConnection(asyncio.Protocol):
    """One socket, its HTTP/2 state, and a queue per call."""

    def __init__(self, max_reply_bytes: Mapping[str, int], on_lost: Callable[[], None]) -> None:
        self._max_reply_bytes = max_reply_bytes
        self._on_lost = on_lost
        self._http2 = ClientConnection()
        self._calls: dict[int, asyncio.Queue[Event]] = {}
        self._transport: asyncio.Transport | None = None

    @property
    def open(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    @property
    def usable(self) -> bool:
        return self.open and self._http2.usable

    def start(self, method: str, message: bytes, timeout_seconds: float | None) -> tuple[int, asyncio.Queue[Event]]:
        bound = self._max_reply_bytes.get(method, STREAM_WINDOW_BYTES)
        stream = self._http2.request(method, message, timeout_seconds=timeout_seconds, max_reply_bytes=bound)
        queue = self._calls[stream] = asyncio.Queue()
        self._flush()
        return stream, queue

    def credit(self, message: Message) -> None:
        self._http2.credit(message.stream, message.window_bytes)
        self._flush()

    def finish(self, stream: int) -> None:
        """Forget a call; cancel it unless it has ended. The last call of a connection that is going away closes it."""
        self._calls.pop(stream, None)
        self._http2.reset(stream)
        self._flush()
        self._close_if_done()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            events = self._http2.receive(data)
        except ProtocolError as error:
            events = self._http2.break_all(str(error))
            self.close()
        self._deliver(events)
        self._flush()
        self._close_if_done()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost()
        self._deliver(self._http2.break_all(str(exc) if exc else "the runtime closed the connection"))

    def _deliver(self, events: list[Event]) -> None:
        for event in events:
            queue = self._calls.get(event.stream)
            if queue is not None:
                queue.put_nowait(event)

    def _flush(self) -> None:
        output = self._http2.take_output()
        if output and self._transport is not None and not self._transport.is_closing():
            self._transport.write(output)

    def _close_if_done(self) -> None:
        if not self._http2.usable and not self._calls:
            self.close()


class RuntimeClient(RuntimeChannel):
    """A runtime channel over a Unix socket."""

    def __init__(self, endpoint: str, *, max_reply_bytes: Mapping[str, int] = _NO_BOUNDS) -> None:
        """``endpoint``: 'unix:///path' or a path. Nothing is connected yet.

        ``max_reply_bytes`` bounds the replies of some methods: a longer one ends its call with RESOURCE_EXHAUSTED.
        """
        self._max_reply_bytes = max_reply_bytes
        self._path = str(socket_path(endpoint))
        self._connecting = asyncio.Lock()
        self._connections: tuple[_RuntimeConnection, ...] = ()  # the newest last; older ones only finish their calls
        self._losses = 0

    def reaches_runtime(self) -> bool:
        """Return True when there is a connection, or the runtime's socket accepts one. Never waits."""
        # A lost connection is opened again by the next call only.
        return bool(self._connections and self._connections[-1].usable) or answers(Path(self._path))

    def losses(self) -> int:
        """See RuntimeChannel."""
        return self._losses

    def _note_loss(self) -> None:
        self._losses += 1

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """See RuntimeChannel."""
        try:
            async with asyncio.timeout(timeout_seconds):
                connection = await self._connected(method)
                events = self._events(connection, method, message, timeout_seconds + _DEADLINE_GRACE_SECONDS)
                # No credit here: the window of a stream holds the largest reply.
                replies = [event.message async for event in events]
        except TimeoutError as error:
            raise RuntimeUnavailable(method, f"no answer within {timeout_seconds:g} s") from error
        if not replies:
            raise CallFailed(method, Code.INTERNAL, "the runtime answered OK without a message")
        return replies[-1]

    async def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        """Call a server-streaming method without a deadline; a caller that stops early cancels the call."""
        connection = await self._connected(method)
        async with aclosing(self._events(connection, method, message, None)) as events:
            async for event in events:
                connection.credit(event)
                yield event.message

    async def _events(
        self, connection: _RuntimeConnection, method: str, message: bytes, timeout_seconds: float | None
    ) -> AsyncGenerator[Message, None]:
        """Yield the replies of a call until it ends. Raises CallFailed and RuntimeUnavailable."""
        stream, events = connection.start(method, message, timeout_seconds)
        try:
            while True:
                match await events.get():
                    case Message() as event:
                        yield event
                    case CallEnded(failure=None):
                        return
                    case CallEnded(failure=Failed() as failure):
                        raise CallFailed(method, failure.code, failure.message)
                    case Broken(problem=problem):
                        raise RuntimeUnavailable(method, problem)
        finally:
            # Where the caller was cancelled or late this resets the stream: the runtime need not go on.
            connection.finish(stream)

    async def close(self) -> None:
        """Close the connection; open calls raise RuntimeUnavailable."""
        for connection in self._connections:
            connection.close()
        self._connections = ()

    async def _connected(self, method: str) -> _RuntimeConnection:
        """Return the connection; open one when there is none. Concurrent callers wait for the same attempt."""
        async with self._connecting:
            if not self._connections or not self._connections[-1].usable:
                try:
                    _, connection = await asyncio.get_running_loop().create_unix_connection(
                        partial(_RuntimeConnection, self._max_reply_bytes, self._note_loss), self._path
                    )
                except OSError as error:
                    raise RuntimeUnavailable(method, f"{self._path}: {error.strerror or error}") from error
                self._connections = (*(old for old in self._connections if old.open), connection)
                if not connection.usable:  # closed before the request: no answer would come
                    raise RuntimeUnavailable(method, f"{self._path}: closed the connection at once")
            return self._connections[-1]
