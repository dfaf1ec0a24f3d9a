"""The client side of an HTTP/2 connection for gRPC calls, without I/O: requests and bytes in, bytes and events out.

No sockets, no clock, no tasks: ``runtime/client.py`` owns those. Replies are collected into whole messages. The
runtime is credited for what the caller has taken, so a slow reader slows its own stream only.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.connection import GrpcConnection, OpenStream
from cri_proxy.http2.headers import Headers, write_literals
from cri_proxy.http2.message import PREFIX_BYTES, pack
from cri_proxy.http2.status import TRAILER_FIELDS, Code, Failed, from_trailers

STREAM_WINDOW_BYTES: Final = 32 * 1024 * 1024
"""Twice the largest message: a whole reply needs no round trip for credit."""

_CONNECTION_WINDOW_BYTES: Final = 1 << 30  # so large that each stream is slowed by its own window alone
_CREDIT_STEP_BYTES: Final = 1 << 20  # one WINDOW_UPDATE for many frames
_FRAME_BYTES: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class Message:
    """A whole reply message of a call, and the bytes of the stream's window that it used."""

    stream: int
    message: bytes
    window_bytes: int


@dataclass(frozen=True, slots=True)
class CallEnded:
    """The runtime ended the call: ``failure`` None means OK."""

    stream: int
    failure: Failed | None


@dataclass(frozen=True, slots=True)
class Broken:
    """The call ended without a status; whether it took effect is unknown."""

    stream: int
    problem: str


Event = Message | CallEnded | Broken


@dataclass(slots=True)
class _ClientStream(OpenStream):
    max_reply_bytes: int = STREAM_WINDOW_BYTES


class ClientConnection(GrpcConnection[_ClientStream, Event]):
    """The state of one connection to a runtime. Write ``take_output()`` after each call of a method."""

    def __init__(self) -> None:
        """Queue the connection preface."""
        own = [
            (frames.SETTINGS_ENABLE_PUSH, 0),
            (frames.SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES),
            (frames.SETTINGS_MAX_FRAME_SIZE, _FRAME_BYTES),
        ]
        credit = frames.window_update(0, _CONNECTION_WINDOW_BYTES - frames.DEFAULT_WINDOW_BYTES)
        super().__init__(TRAILER_FIELDS, [frames.PREFACE, frames.settings(own), credit], sends_trailers=False)
        self._cutter.max_frame_bytes = _FRAME_BYTES
        self._waiting: deque[tuple[int, bytes, bytes, int]] = deque()
        self._next_stream = 1
        self._max_streams = frames.MAX_WINDOW_BYTES  # no bound until its SETTINGS name one (RFC 9113, 6.5.2)
        self._uncredited_bytes = 0
        self._going_away = False

    @property
    def usable(self) -> bool:
        """Whether new calls may start: no GOAWAY was seen and stream numbers are left."""
        return not self._going_away and self._next_stream < frames.MAX_WINDOW_BYTES - 2

    def request(
        self, method: str, message: bytes, *, timeout_seconds: float | None, max_reply_bytes: int = STREAM_WINDOW_BYTES
    ) -> int:
        """Start a call with one request and return its stream; beyond the runtime's limit of streams it waits.

        A longer reply than ``max_reply_bytes`` ends the call with RESOURCE_EXHAUSTED; no byte of it is kept.
        """
        stream = self._next_stream
        self._next_stream += 2
        fields = [
            (b":method", b"POST"),
            (b":scheme", b"http"),
            (b":path", method.encode("ascii")),
            (b":authority", b"localhost"),
            (b"te", b"trailers"),
            (b"content-type", b"application/grpc"),
            (b"user-agent", b"cri-proxy"),
        ]
        if timeout_seconds is not None:
            # At most eight digits (PROTOCOL-HTTP2.md), and never 0: that would be over before the runtime reads it.
            fields.append((b"grpc-timeout", b"%dm" % min(max(1, round(timeout_seconds * 1000)), 99_999_999)))
        self._waiting.append((stream, write_literals(fields), pack(message), max_reply_bytes))
        self._start_waiting()
        return stream

    def reset(self, stream: int) -> None:
        """Cancel a call; it has no more events."""
        self._waiting = deque(entry for entry in self._waiting if entry[0] != stream)
        if self._streams.pop(stream, None) is not None:
            self._output.append(frames.rst_stream(stream, frames.CANCEL))
        self._start_waiting()

    def credit(self, stream: int, window_bytes: int) -> None:
        """Credit the runtime for the bytes that the caller has taken of a stream."""
        if window_bytes and stream in self._streams:
            self._output.append(frames.window_update(stream, window_bytes))

    def break_all(self, problem: str) -> list[Event]:
        """Return a Broken event for every open call: the connection is gone."""
        lost = [*self._streams, *(entry[0] for entry in self._waiting)]
        self._streams.clear()
        self._waiting.clear()
        self._going_away = True
        return [Broken(stream, problem) for stream in lost]

    # Frames

    def _on_data(self, stream: int, flags: int, body: bytes, window_bytes: int, events: list[Event]) -> None:
        # For cancelled calls too, whose replies still come: the window is the whole connection's.
        self._uncredited_bytes += window_bytes
        if self._uncredited_bytes >= _CREDIT_STEP_BYTES:
            self._output.append(frames.window_update(0, self._uncredited_bytes))
            self._uncredited_bytes = 0
        state = self._streams.get(stream)
        if state is None:
            return
        self.credit(stream, window_bytes - len(body))  # padding: no caller takes it, so nothing else credits it
        received = state.received
        received += body
        while len(received) >= PREFIX_BYTES:
            after = PREFIX_BYTES + int.from_bytes(received[1:PREFIX_BYTES], "big")
            if after > STREAM_WINDOW_BYTES or received[0]:
                problem = "a compressed reply that we did not ask for" if received[0] else f"a reply of {after} bytes"
                self.reset(stream)
                events.append(Broken(stream, problem))
                return
            if after - PREFIX_BYTES > state.max_reply_bytes:
                self.reset(stream)
                said = f"a reply of {after - PREFIX_BYTES} bytes, more than {state.max_reply_bytes}"
                events.append(CallEnded(stream, Failed(Code.RESOURCE_EXHAUSTED, said)))
                return
            if len(received) < after:
                break
            events.append(Message(stream, bytes(received[PREFIX_BYTES:after]), after))
            del received[:after]
        if flags & frames.END_STREAM and self._forget(stream):
            events.append(Broken(stream, "the stream ended without a status"))

    def _on_headers(self, stream: int, flags: int, headers: Headers, events: list[Event]) -> None:
        # Nothing counts of the headers that begin a reply: the status stands in its trailers.
        if flags & frames.END_STREAM and self._forget(stream):
            events.append(CallEnded(stream, from_trailers(headers)))

    def _on_reset(self, stream: int, code: int, events: list[Event]) -> None:
        if self._forget(stream, reset=False):
            events.append(Broken(stream, f"the stream was reset with HTTP/2 code {code}"))

    def _on_setting(self, key: int, value: int) -> None:
        if key == frames.SETTINGS_MAX_CONCURRENT_STREAMS:
            self._max_streams = value

    def _on_settings_taken(self) -> None:
        self._start_waiting()

    def _on_goaway(self, body: bytes, events: list[Event]) -> None:
        self._going_away = True
        last = int.from_bytes(body[:4], "big") & frames.MAX_WINDOW_BYTES
        lost = [stream for stream in self._streams if stream > last] + [entry[0] for entry in self._waiting]
        self._waiting.clear()
        for stream in lost:
            self._streams.pop(stream, None)
            events.append(Broken(stream, "the runtime closes the connection and did not take the call"))

    # Sending

    def _start_waiting(self) -> None:
        while self._waiting and len(self._streams) < self._max_streams:
            stream, block, body, max_reply_bytes = self._waiting.popleft()
            self._output.append(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block))
            self._streams[stream] = _ClientStream(body, self._initial_window_bytes, max_reply_bytes=max_reply_bytes)
            self._send_body(stream, self._streams[stream])

    def _forget(self, stream: int, *, reset: bool = True) -> bool:
        """Forget a call that the runtime ended, and reset it when its request was not fully sent; False if unknown."""
        state = self._streams.pop(stream, None)
        if state is None:
            return False
        if state.unsent and reset:
            self._output.append(frames.rst_stream(stream, frames.CANCEL))
        self._start_waiting()
        return True
