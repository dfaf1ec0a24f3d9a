"""The proxy's own connection to the runtime: unary and server-streaming calls over a Unix socket.

On our own HTTP/2 core instead of grpcio, which costs over 10 MB and wakes up while idle. One task-free asyncio
protocol: it sleeps until bytes come. The connection is made on the first call and again after it broke.
"""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, cast

from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.http2.client import Broken, CallEnded, ClientConnection, Event, Message
from cri_proxy.http2.frames import ProtocolError
from cri_proxy.http2.status import Code, Failed
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.unix_socket import answers, socket_path

# The runtime learns a deadline a little later than ours, so that it is we who give up, and say so.
_DEADLINE_GRACE_SECONDS: Final = 1.0


class _Link(asyncio.Protocol):
    """One socket, its HTTP/2 state, and a queue per call."""

    def __init__(self) -> None:
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
        stream = self._http2.request(method, message, timeout_seconds=timeout_seconds)
        queue = self._calls[stream] = asyncio.Queue()
        self._flush()
        return stream, queue

    def taken(self, message: Message) -> None:
        self._http2.credit(message.stream, message.window_bytes)
        self._flush()

    def finish(self, stream: int) -> None:
        """Forget a call; if it has not ended, cancel it. A connection that is going away is closed after its last."""
        self._calls.pop(stream, None)
        self._http2.reset(stream)
        self._flush()
        self._close_if_done()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are not registered as such
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

    def __init__(self, endpoint: str) -> None:
        """``endpoint``: 'unix:///path' or a path. Nothing is connected yet."""
        self._path = str(socket_path(endpoint))
        self._connecting = asyncio.Lock()
        self._links: tuple[_Link, ...] = ()  # the newest last; older ones only finish their calls

    def reaches_runtime(self) -> bool:
        """Whether there is a connection, or the runtime's socket would take one. Never waits.

        A connection is made anew with the next call only; till then a socket that takes one is as good.
        """
        return bool(self._links and self._links[-1].usable) or answers(Path(self._path))

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """Call a method and give its reply; see ``RuntimeChannel`` for what is raised."""
        try:
            async with asyncio.timeout(timeout_seconds):
                link = await self._connected(method)
                return await self._unary(link, method, message, timeout_seconds)
        except TimeoutError as error:
            raise RuntimeUnavailable(method, f"no answer within {timeout_seconds:g} s") from error

    async def _unary(self, link: _Link, method: str, message: bytes, timeout_seconds: float) -> bytes:
        stream, events = link.start(method, message, timeout_seconds + _DEADLINE_GRACE_SECONDS)
        reply: bytes | None = None
        try:
            while True:
                match await events.get():
                    case Message(message=reply):
                        pass
                    case CallEnded(failure=failure):
                        _raise_failure(method, failure)
                        if reply is None:
                            raise CallFailed(method, Code.INTERNAL, "the runtime answered OK without a message")
                        return reply
                    case Broken(problem=problem):
                        raise RuntimeUnavailable(method, problem)
        finally:
            link.finish(stream)

    async def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        """Call a server-streaming method without a deadline; a caller that stops early cancels the call."""
        link = await self._connected(method)
        stream, events = link.start(method, message, None)
        try:
            while True:
                match await events.get():
                    case Message() as event:
                        link.taken(event)
                        yield event.message
                    case CallEnded(failure=failure):
                        _raise_failure(method, failure)
                        return
                    case Broken(problem=problem):
                        raise RuntimeUnavailable(method, problem)
        finally:
            link.finish(stream)

    async def close(self) -> None:
        """End the connection; calls under way raise RuntimeUnavailable."""
        for link in self._links:
            link.close()
        self._links = ()

    async def _connected(self, method: str) -> _Link:
        """The connection, made anew when there is none. Callers that come meanwhile wait for the same attempt."""
        async with self._connecting:
            if not self._links or not self._links[-1].usable:
                try:
                    _, link = await asyncio.get_running_loop().create_unix_connection(_Link, self._path)
                except OSError as error:
                    raise RuntimeUnavailable(method, f"{self._path}: {error.strerror or error}") from error
                self._links = (*(old for old in self._links if old.open), link)
                if not link.usable:  # accepted and closed before we could say a word: nobody would ever answer
                    raise RuntimeUnavailable(method, f"{self._path}: closed the connection at once")
            return self._links[-1]


def _raise_failure(method: str, failure: Failed | None) -> None:
    if failure is not None:
        raise CallFailed(method, failure.code, failure.message)
