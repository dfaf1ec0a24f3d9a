"""The sockets of the splice relay: pair clients with the runtime, run the interceptor for held calls, stop in order."""

import asyncio
import select
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, cast

from cri_proxy.http2.frames import ProtocolError
from cri_proxy.relay.boundary import Boundary, OnError, new_call
from cri_proxy.relay.calls import Aborted, Call, Interceptor, Refuse, Rewrite
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.splice import Held, HeldCallEnded, Splice
from cri_proxy.relay.traffic import RelayTotals, Traffic
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import LEAVES_NAME, Published, listen_on, socket_path

_WRITE_BUFFER_BYTES: Final = 1 << 20
"""Above this much unsent data the other side is no longer read: room for a list of 500 containers."""

_BACKLOG_LOOKS: Final = 1000  # a count, not a time: no connection is lost however long one look takes
_GOAWAY_SECONDS: Final = 1.0  # for a client to answer the GOAWAY
_FLUSH_SECONDS: Final = 1.0  # for the last bytes to be written, once no call is waited for


async def _take_backlog(listening: Iterable[socket.socket]) -> None:
    """Let the loop accept every connection of the backlog: one turn to accept it, one to set it up."""
    descriptors = [sock.fileno() for sock in listening]
    for _ in range(_BACKLOG_LOOKS):
        is_awaited = bool(select.select(descriptors, [], [], 0)[0])
        for _ in range(2):
            await asyncio.sleep(0)
        if not is_awaited:
            return


class _Side(asyncio.Protocol):
    """One socket of a pair: hand received bytes to ``receive``, and events to ``pair``."""

    def __init__(self, pair: "_Pair", receive: Callable[[bytes], None]) -> None:
        self._pair = pair
        self._receive = receive
        self.transport: asyncio.Transport | None = None
        self.other: _Side | None = None
        self.full = False
        self.ended = False
        self.received_bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are not registered as such
        self.transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        if self.ended:  # the other side ended first
            self.transport.close()
        self.read_if_wanted()

    def data_received(self, data: bytes) -> None:
        self.received_bytes += len(data)
        pair = self._pair
        if pair.closed:
            return
        try:
            self._receive(data)
        except ProtocolError as error:
            pair.break_up(error)
        else:
            pair.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.transport = None
        self._pair.side_lost()

    def pause_writing(self) -> None:
        self.full = True
        if self.other is not None:
            self.other.read_if_wanted()

    def resume_writing(self) -> None:
        self.full = False
        if self.other is not None:
            self.other.read_if_wanted()

    def read_if_wanted(self) -> None:
        """Read while the other side is connected and its buffer has room."""
        if self.transport is None or self.transport.is_closing() or self.other is None:
            return
        if self.other.transport is None or self.other.full:
            self.transport.pause_reading()
        else:
            self.transport.resume_reading()

    def write(self, parts: Parts) -> None:
        """Write these bytes in order and empty the list; keep them until there is a connection."""
        if not parts or self.transport is None:
            return
        if not self.transport.is_closing():
            if len(parts) == 1:
                self.transport.write(parts[0])
            else:
                self.transport.writelines(parts)
        parts.clear()

    def close(self) -> None:
        """End the connection once everything is written, or as soon as it is set up."""
        self.ended = True
        if self.transport is not None:
            self.transport.close()


@dataclass(slots=True)
class _Asked:
    """A call at the interceptor. ``task`` waits for the verdict; None once the call was sent on."""

    call: Call
    task: asyncio.Task[None] | None


class _Pair:
    """A client connection and its runtime connection."""

    def __init__(self, relay: "SpliceRelay") -> None:
        self._relay = relay
        self._splice = Splice(relay.boundary.wants, relay.boundary.passed)
        self._asked: dict[int, _Asked] = {}
        self.client = _Side(self, self._splice.receive_from_client)
        self.runtime = _Side(self, self._splice.receive_from_runtime)
        self.client.other = self.runtime
        self.runtime.other = self.client
        self.closed = False
        self._is_leaving = False

    async def connect(self) -> None:
        """Connect to the runtime; without one, close the client's connection."""
        try:
            loop = asyncio.get_running_loop()
            await loop.create_unix_connection(lambda: self.runtime, self._relay.runtime)
        except OSError:
            self.close()
            return
        self.client.read_if_wanted()
        self.flush()

    def ask_to_leave(self) -> None:
        """Ask the client to leave when its calls have ended."""
        self._is_leaving = True
        self._splice.goaway.ask()
        self.flush()

    @property
    def is_idle(self) -> bool:
        """Whether no call is in flight that a stop waits for."""
        return self.closed or self._splice.is_idle

    @property
    def has_left(self) -> bool:
        """Whether every call that the client began before it read the GOAWAY has arrived."""
        return self.closed or self._splice.goaway.is_answered

    def finish(self) -> None:
        """Send the last GOAWAY and end both connections once everything is written."""
        if not self.closed:
            self._splice.finish()
            self.close()

    def close(self) -> None:
        """End the other side too once everything is written, and every held call."""
        if self.closed:
            return
        self.closed = True
        self._splice.lost()
        self.flush()
        self.client.close()
        self.runtime.close()

    def abort(self) -> None:
        """End both connections at once; unsent bytes are lost."""
        self.close()
        for side in (self.client, self.runtime):
            if side.transport is not None:
                side.transport.abort()

    def break_up(self, error: ProtocolError) -> None:
        """Report a side that violated HTTP/2, and end both."""
        self._relay.on_error(error)
        self.close()

    def side_lost(self) -> None:
        """Close the pair; forget it once both sides are gone."""
        self.close()
        if self.client.transport is None and self.runtime.transport is None:
            self._relay.forget(self)

    def flush(self) -> None:
        """Carry out the splice's events and write its output."""
        splice = self._splice
        # Outcomes first: a caller that reads its reply must find the call committed.
        if splice.events:
            self._act()
        if splice.to_client:
            self.client.write(splice.to_client)
        if splice.to_runtime:
            self.runtime.write(splice.to_runtime)
        if self._is_leaving:
            self._relay.changed.set()

    def _act(self) -> None:
        events, self._splice.events[:] = tuple(self._splice.events), ()
        for event in events:
            match event:
                case Held(stream=stream, method=method, message=message):
                    call = new_call(method, message)
                    work = self._decide(stream, call)
                    self._asked[stream] = _Asked(call, self._relay.tasks.start(work, name=method))
                case HeldCallEnded(stream=stream, outcome=outcome):
                    asked = self._asked.pop(stream)
                    if asked.task is not None:
                        asked.task.cancel()  # reports the outcome when it ends
                    else:
                        self._relay.boundary.outcome(asked.call, outcome)

    async def _decide(self, stream: int, call: Call) -> None:
        boundary = self._relay.boundary
        verdict = await boundary.verdict(call)
        asked = self._asked.get(stream)
        if asked is None or asked.call is not call:  # the caller left, and the interceptor ignored the cancellation
            if not isinstance(verdict, Refuse):
                boundary.outcome(call, Aborted(sent=False))
            return
        if isinstance(verdict, Refuse):
            del self._asked[stream]
            if verdict.was_unseen:
                self._splice.refuse_unseen(stream)
            else:
                self._splice.refuse(stream, verdict.code, verdict.message)
        else:
            asked.task = None
            self._splice.resume(stream, verdict.message if isinstance(verdict, Rewrite) else None)
        self.flush()


class SpliceRelay:
    """Relay every call of one listening socket to one runtime socket."""

    def __init__(
        self,
        *,
        listen: str,
        runtime: str,
        interceptor: Interceptor,
        on_error: OnError | None = None,
        take_over: bool = False,
        traffic: Traffic | None = None,
    ) -> None:
        """Open nothing yet. ``listen`` and ``runtime`` are 'unix:///path' or a path.

        ``on_error`` is called with errors that do not stop the relay: an interceptor that raised, a client that
        broke HTTP/2. ``take_over`` takes the socket's name although another process still answers there.
        """
        self.runtime = str(socket_path(runtime))
        self.on_error = on_error or (lambda error: None)
        self.boundary = Boundary(interceptor, self.on_error, traffic)
        self.boundary.traffic.add_relay(self._totals)
        self.tasks = Tasks(self.on_error)
        self._listen = socket_path(listen)
        self._take_over = take_over
        self._server: asyncio.Server | None = None
        self._published: Published | None = None
        self._pairs: set[_Pair] = set()
        self._kubelet_bytes = self._runtime_bytes = 0  # of pairs that have ended
        self.changed = asyncio.Event()  # set whenever a condition of ``stop`` may have changed

    async def start(self) -> None:
        """Open the socket. Raises ConfigError when it cannot be had."""
        listening, self._published = listen_on(self._listen, socket_path(self.runtime), take_over=self._take_over)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._accept, sock=listening, **LEAVES_NAME)

    async def leave(self) -> None:
        """Accept the backlog, then no new clients; ask connected ones to leave. Calls go on."""
        if self._published is not None:
            self._published.withdraw()
        if self._server is not None:
            await _take_backlog(self._server.sockets)
            self._server.close()
        for pair in tuple(self._pairs):
            pair.ask_to_leave()

    async def stop(self, grace_seconds: float, *, for_streams: bool = False) -> None:
        """Stop accepting, ask clients to leave and wait this long for their calls to end; then close.

        Endless streams are waited for only with ``for_streams``, until their clients leave.
        """
        if self._published is not None:
            self._published.withdraw()
        if self._server is not None:
            self._server.close()
        for pair in tuple(self._pairs):
            pair.ask_to_leave()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace_seconds):
                await (self._all_gone() if for_streams else self._all_idle())
        for pair in tuple(self._pairs):
            pair.finish()
        await self._all_gone(_FLUSH_SECONDS)
        for pair in tuple(self._pairs):
            pair.abort()
        await self.tasks.cancel()
        await self._all_gone()

    def socket_problem(self) -> str:
        """Return why new clients cannot connect, as a sentence; '' while the socket is in its place."""
        return self._published.problem if self._published is not None else ""

    async def _all_idle(self) -> None:
        """Wait until no call is in flight, including those that were sent before the client read the GOAWAY."""
        await self._until(lambda: all(pair.is_idle for pair in self._pairs))
        # A client that does not read is not waited for.
        await self._until(lambda: all(pair.is_idle and pair.has_left for pair in self._pairs), _GOAWAY_SECONDS)
        await self._until(lambda: all(pair.is_idle for pair in self._pairs))

    async def _all_gone(self, most_seconds: float | None = None) -> None:
        await self._until(lambda: not self._pairs, most_seconds)

    async def _until(self, holds: Callable[[], bool], most_seconds: float | None = None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(most_seconds):
                while not holds():
                    self.changed.clear()
                    await self.changed.wait()

    def forget(self, pair: _Pair) -> None:
        """Forget a pair that has ended; keep its byte counts."""
        if pair in self._pairs:
            self._pairs.discard(pair)
            self._kubelet_bytes += pair.client.received_bytes
            self._runtime_bytes += pair.runtime.received_bytes
        self.changed.set()

    def _totals(self) -> RelayTotals:
        return RelayTotals(
            len(self._pairs),
            self._kubelet_bytes + sum(pair.client.received_bytes for pair in self._pairs),
            self._runtime_bytes + sum(pair.runtime.received_bytes for pair in self._pairs),
        )

    def _accept(self) -> asyncio.Protocol:
        pair = _Pair(self)
        self._pairs.add(pair)
        self.tasks.start(pair.connect(), name="connect to the runtime")
        return pair.client
