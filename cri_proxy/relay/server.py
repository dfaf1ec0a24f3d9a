"""The sockets of the splice relay: pair clients with the runtime, run the interceptor for held calls, stop in order."""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from cri_proxy.http2.frames import HEADER, HEADER_BYTES, HEADERS, ProtocolError
from cri_proxy.relay.boundary import Relay, new_call
from cri_proxy.relay.calls import Aborted, Call, Refuse, Rewrite
from cri_proxy.relay.direction import Parts
from cri_proxy.relay.fallback_answers import Unimplemented
from cri_proxy.relay.held_call import Held, HeldCallEnded
from cri_proxy.relay.request_quota import RequestQuota
from cri_proxy.relay.sockets import Listener, RelaySocket, connected
from cri_proxy.relay.splice import Event, Splice
from cri_proxy.relay.traffic import RelayTotals
from cri_proxy.unix_socket import listen_on

_MAX_UNREAD_BYTES: Final = 4 << 20
"""Unsent answers at which a client is left. The runtime is no longer read from a quarter of it on; the rest are frames
of the relay itself, of which a correct client causes no more than its windows and its calls in flight do.
"""

# From the wish that clients leave until their connections end. A kubelet that has left waits 5 s for a connection to be
# answered (minConnectionTimeout of its CRI client) before all its calls fail: the rest is for the next process.
_LEAVING_SECONDS: Final = 0.5
_SHORT_SECONDS: Final = 0.25  # calls that last longer are waited for before clients are asked to leave
_FLUSH_SECONDS: Final = 1.0  # for the last bytes to be written, once no call is waited for or a client broke HTTP/2


@dataclass(slots=True)
class _Asked:
    """A call at the interceptor. ``task`` waits for the verdict; None once the call was sent on."""

    call: Call
    task: asyncio.Task[None] | None


class _Pair:
    """A client connection and its runtime connection."""

    def __init__(self, relay: "SpliceRelay", client: socket.socket) -> None:
        self._relay = relay
        self._splice = Splice(
            relay.boundary.wants, relay.boundary.passed, relay.quota, relay.boundary.traffic.malformed
        )
        self._asked: dict[int, _Asked] = {}
        self.runtime: RelaySocket | None = None
        self.client = self._connection(client, self._receive_from_client)
        self.closed = False

    def _connection(self, sock: socket.socket, receive: Callable[[bytes], None]) -> RelaySocket:
        return RelaySocket(sock, receive, room=self._pace, lost=self._side_lost, on_error=self._relay.on_error)

    async def connect(self) -> None:
        """Connect to the runtime; without one, close the client's connection."""
        try:
            sock = await connected(str(self._relay.runtime_path))
        except OSError:
            self.close()  # gRPC reports UNAVAILABLE to its caller, and connects again by itself
            return
        if self.closed:  # the client left while the runtime's backlog was full
            sock.close()
            return
        self.runtime = self._connection(sock, self._receive_from_runtime)
        self._pace()

    def _receive_from_client(self, data: bytes) -> None:
        try:
            self._splice.receive_from_client(data)
        except ProtocolError as error:
            self._relay.on_error(error)
            self._splice.finish(error.code)  # the client learns why (RFC 9113, 5.4.1), if it reads at all
            self.close()
            asyncio.get_running_loop().call_later(_FLUSH_SECONDS, self.abort)  # where it reads nothing
        else:
            self.flush()

    def _receive_from_runtime(self, data: bytes) -> None:
        try:
            self._splice.receive_from_runtime(data)
        except ProtocolError as error:
            self._relay.on_error(error)
            self.close()
        else:
            self.flush()

    def _pace(self) -> None:
        """Read each side while the other one has room."""
        if self.runtime is not None:  # until then the client's bytes wait in the kernel
            self.client.read(wanted=not self.runtime.is_full)
            self.runtime.read(wanted=not self.client.is_full)

    def ask_to_leave(self) -> None:
        """Ask the client to leave when its calls have ended."""
        self._splice.goaway.ask()
        self.flush()

    @property
    def in_flight(self) -> frozenset[int]:
        """The streams of the calls in flight that a stop waits for."""
        return frozenset() if self.closed else self._splice.in_flight

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
        for side in self._sides:
            side.close()

    def abort(self) -> None:
        """End both connections at once; unsent bytes are lost."""
        self.close()
        for side in self._sides:
            side.abort()

    @property
    def received_bytes(self) -> tuple[int, int]:
        """The bytes received from the client and from the runtime."""
        return self.client.received_bytes, self.runtime.received_bytes if self.runtime is not None else 0

    @property
    def _sides(self) -> tuple[RelaySocket, ...]:
        return (self.client,) if self.runtime is None else (self.client, self.runtime)

    def _side_lost(self) -> None:
        """Close the pair; forget it once both sides are gone."""
        self.close()
        if all(side.has_ended for side in self._sides):
            self._relay.forget(self)

    def flush(self) -> None:
        """Write the splice's output and carry out its events."""
        splice = self._splice
        if splice.events and _are_headers_of(splice.events, splice.to_runtime):
            # The runtime would wake up for them: they go with the message, or with what others send before.
            self._write_to_client()
            self._act()
        else:
            self._write()
            # No outcome holds up its reply; what the caller asks next is read when the call is committed.
            if splice.events:
                self._act()
                self._write()
        if self._relay.is_ending:
            self._relay.changed.set()  # nothing but ``stop`` waits for it

    def _write(self) -> None:
        self._write_to_client()
        if self._splice.to_runtime and self.runtime is not None:
            self.runtime.write(self._splice.to_runtime)

    def _write_to_client(self) -> None:
        splice = self._splice
        if splice.to_client:
            self.client.write(splice.to_client)
            # What it does not read is kept here, and our own answers are bounded by no window of the client's.
            if self.client.unsent_bytes > _MAX_UNREAD_BYTES and not self.closed:
                self._relay.on_error(ProtocolError(f"a client has not read {self.client.unsent_bytes} bytes"))
                self.abort()

    def _act(self) -> None:
        events, self._splice.events[:] = tuple(self._splice.events), ()
        for event in events:
            match event:
                case Held(stream=stream):
                    call = new_call(event.method, event.message, event.timeout_seconds)
                    work = self._decide(stream, call)
                    self._asked[stream] = _Asked(call, self._relay.tasks.start(work, name=call.method))
                case HeldCallEnded(stream=stream, outcome=outcome):
                    asked = self._asked.pop(stream)
                    if asked.task is not None:
                        asked.task.cancel()  # reports the outcome when it ends
                    else:
                        self._relay.boundary.outcome(asked.call, outcome)
                case Unimplemented(stream=stream, method=method):
                    self._relay.tasks.start(self._stand_in(stream, method), name=method)

    async def _stand_in(self, stream: int, method: str) -> None:
        self._splice.stand_in(stream, await self._relay.boundary.stand_in(method))
        self.flush()

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


def _are_headers_of(events: list[Event], to_runtime: Parts) -> bool:
    """Return whether there is nothing for the runtime but the headers of a call that is asked about."""
    match events, to_runtime:
        case [Held(stream=asked)], [part]:
            high, low, kind, _, stream = HEADER.unpack_from(part)
            return (kind, stream, len(part)) == (HEADERS, asked, HEADER_BYTES + (high << 8 | low))
    return False


class SpliceRelay(Relay):
    """The relay that passes HTTP/2 frames on."""

    def __post_init__(self) -> None:
        """As ``Relay``."""
        super().__post_init__()
        self.boundary.traffic.add_relay(self._totals)
        self.quota = RequestQuota()
        self._listener: Listener | None = None
        self._pairs: set[_Pair] = set()
        self._ended_bytes = [0, 0]  # received by pairs that have ended, from clients and the runtime
        self.is_ending = False
        self.changed = asyncio.Event()  # set whenever a condition of ``stop`` may have changed

    async def start(self) -> None:
        """As ``Relay``."""
        listening, self._published = listen_on(self._listen, self.runtime_path, take_over=self.take_over)
        self._listener = Listener(listening, self._serve, self.on_error)

    async def leave(self) -> None:
        """Accept the backlog, then no new clients; ask connected ones to leave. Calls go on."""
        self.is_ending = True
        # The name first: a client that connected behind the last accept would see a reset.
        self._withdraw()
        if self._listener is not None:
            self._listener.accept_all()  # clients in the backlog would see a reset
            self._listener.close()
        self._ask_to_leave()

    async def stop(self, grace_seconds: float, *, for_streams: bool = False) -> None:
        """Stop accepting; wait this long for calls to end, and in its last half second for clients to leave.

        Endless streams are waited for only with ``for_streams``, until their clients leave.
        """
        self.is_ending = True
        self._withdraw()
        if self._listener is not None:
            self._listener.close()
        if for_streams:
            self._ask_to_leave()
            await self._all_gone(grace_seconds)
        else:
            ends_at = asyncio.get_running_loop().time() + grace_seconds
            await self._long_calls_ended(max(0.0, grace_seconds - _LEAVING_SECONDS))
            # As late as can be: from here on a kubelet's time for its next connection runs (_LEAVING_SECONDS).
            self._ask_to_leave()
            left_seconds = ends_at - asyncio.get_running_loop().time()
            most_seconds = min(max(0.0, left_seconds), _LEAVING_SECONDS)
            await self._until(lambda: all(pair.has_left and pair.is_idle for pair in self._pairs), most_seconds)
        for pair in tuple(self._pairs):
            pair.finish()
        await self._all_gone(_FLUSH_SECONDS)
        for pair in tuple(self._pairs):
            pair.abort()
        await self.tasks.cancel()
        await self._all_gone()  # without a bound: each aborted side reports its end in the next turn of the loop

    def _ask_to_leave(self) -> None:
        for pair in tuple(self._pairs):
            pair.ask_to_leave()

    def _in_flight(self) -> set[tuple[int, int]]:
        return {(id(pair), stream) for pair in self._pairs for stream in pair.in_flight}

    async def _long_calls_ended(self, most_seconds: float) -> None:
        """Wait until no call is in flight that lasts; short ones come and go, and end while clients leave."""
        lasting = self._in_flight()
        with suppress(TimeoutError):
            async with asyncio.timeout(most_seconds):
                while lasting:
                    before = self._in_flight()
                    await self._until(lambda: all(pair.is_idle for pair in self._pairs), _SHORT_SECONDS)
                    lasting = before & self._in_flight()

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
            # They are Prometheus counters, which may not fall when a client leaves.
            for number, count in enumerate(pair.received_bytes):
                self._ended_bytes[number] += count
        self.changed.set()

    def _totals(self) -> RelayTotals:
        received = zip(self._ended_bytes, *(pair.received_bytes for pair in self._pairs), strict=True)
        return RelayTotals(len(self._pairs), *map(sum, received))

    def _serve(self, client: socket.socket) -> None:
        pair = _Pair(self, client)
        self._pairs.add(pair)
        self.tasks.start(pair.connect(), name="connect to the runtime")
