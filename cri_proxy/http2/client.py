"""The client side of an HTTP/2 connection for gRPC calls, without I/O: requests and bytes in, bytes and events out.

No sockets, no clock, no tasks: ``runtime/client.py`` owns those. Replies are collected into whole messages. The
runtime is credited for what the caller has taken, so a slow reader slows its own stream only.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.headers import FieldReader, write_literals
from cri_proxy.http2.message import PREFIX_BYTES, pack
from cri_proxy.http2.status import TRAILER_FIELDS, Code, Failed, from_trailers

STREAM_WINDOW_BYTES: Final = 32 * 1024 * 1024
"""Twice the largest message: a whole reply needs no round trip for credit."""

_CONNECTION_WINDOW_BYTES: Final = 1 << 30
_CREDIT_STEP_BYTES: Final = 1 << 20
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
class _ClientStream:
    unsent: bytes
    window_bytes: int
    max_reply_bytes: int
    received: bytearray = field(default_factory=bytearray)


class ClientConnection:
    """The state of one connection. Write ``take_output()`` after each call of a method."""

    def __init__(self) -> None:
        """Queue the connection preface."""
        self._cutter = frames.FrameCutter()
        self._cutter.max_frame_bytes = _FRAME_BYTES
        self._reader = FieldReader(TRAILER_FIELDS)
        self._output: list[bytes] = [
            frames.PREFACE,
            frames.settings(
                [
                    (frames.SETTINGS_ENABLE_PUSH, 0),
                    (frames.SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES),
                    (frames.SETTINGS_MAX_FRAME_SIZE, _FRAME_BYTES),
                ]
            ),
            frames.window_update(0, _CONNECTION_WINDOW_BYTES - frames.DEFAULT_WINDOW_BYTES),
        ]
        self._streams: dict[int, _ClientStream] = {}
        self._waiting: deque[tuple[int, bytes, bytes, int]] = deque()
        self._next_stream = 1
        self._window_bytes = frames.DEFAULT_WINDOW_BYTES
        self._initial_window_bytes = frames.DEFAULT_WINDOW_BYTES
        self._max_streams = frames.MAX_WINDOW_BYTES
        self._uncredited_bytes = 0
        self._block: frames.OpenBlock | None = None
        self._going_away = False

    @property
    def usable(self) -> bool:
        """Whether new calls may start: no GOAWAY was seen and stream numbers are left."""
        return not self._going_away and self._next_stream < frames.MAX_WINDOW_BYTES - 2

    def take_output(self) -> bytes:
        """Return the bytes to be written to the runtime now."""
        output = b"".join(self._output)
        self._output.clear()
        return output

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

    def receive(self, data: bytes) -> list[Event]:
        """Receive bytes of the runtime. Raises ProtocolError; the connection must then be closed."""
        events: list[Event] = []
        for buffer, cuts in self._cutter.cut(data):
            for cut in cuts:
                self._on_frame(buffer, cut, events)
        if self._cutter.problem:
            raise frames.ProtocolError(self._cutter.problem)
        return events

    def break_all(self, problem: str) -> list[Event]:
        """Return a Broken event for every open call: the connection is gone."""
        lost = [*self._streams, *(entry[0] for entry in self._waiting)]
        self._streams.clear()
        self._waiting.clear()
        self._going_away = True
        return [Broken(stream, problem) for stream in lost]

    # Frames

    def _on_frame(self, buffer: bytes, cut: frames.Cut, events: list[Event]) -> None:
        kind, flags, stream, start, end = cut
        if self._block is not None and (kind != frames.CONTINUATION or stream != self._block.stream):
            raise frames.ProtocolError("a header block is interrupted")
        body = frames.payload(buffer, cut)
        match kind:
            case frames.DATA:
                self._on_data(stream, flags, body, end - start - frames.HEADER_BYTES, events)
            case frames.HEADERS:
                self._block = frames.OpenBlock(stream, flags)
                self._reader.begin()
                self._on_block(self._block, flags, body, events)
            case frames.CONTINUATION if self._block is not None:
                self._block.go_on(len(body))
                self._on_block(self._block, flags, body, events)
            case frames.RST_STREAM:
                code = frames.parse_number(body, "RST_STREAM")
                if self._forget(stream, reset=False):
                    events.append(Broken(stream, f"the stream was reset with HTTP/2 code {code}"))
            case frames.PUSH_PROMISE | frames.CONTINUATION:
                raise frames.ProtocolError(f"an unexpected frame of type {kind}")
            case _:
                self._on_control(kind, flags, stream, body, events)

    def _on_control(self, kind: int, flags: int, stream: int, body: bytes, events: list[Event]) -> None:
        match kind:
            case frames.SETTINGS if not flags & frames.ACK:
                self._on_settings(body)
            case frames.PING if not flags & frames.ACK:
                self._output.append(frames.frame(frames.PING, frames.ACK, 0, body))
            case frames.GOAWAY:
                self._on_goaway(body, events)
            case frames.WINDOW_UPDATE:
                self._on_window(stream, frames.parse_number(body, "WINDOW_UPDATE"))

    def _on_data(self, stream: int, flags: int, body: bytes, window_bytes: int, events: list[Event]) -> None:
        self._uncredited_bytes += window_bytes
        if self._uncredited_bytes >= _CREDIT_STEP_BYTES:
            self._output.append(frames.window_update(0, self._uncredited_bytes))
            self._uncredited_bytes = 0
        state = self._streams.get(stream)
        if state is None:
            return
        self.credit(stream, window_bytes - len(body))
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

    def _on_block(self, block: frames.OpenBlock, flags: int, part: bytes, events: list[Event]) -> None:
        self._reader.feed(part)
        if not flags & frames.END_HEADERS:
            return
        self._block = None
        headers = self._reader.finish()
        if block.flags & frames.END_STREAM and self._forget(block.stream):
            events.append(CallEnded(block.stream, from_trailers(headers)))

    def _on_settings(self, body: bytes) -> None:
        for key, value in frames.parse_settings(body):
            if key == frames.SETTINGS_INITIAL_WINDOW_SIZE:
                for state in self._streams.values():
                    state.window_bytes += value - self._initial_window_bytes
                self._initial_window_bytes = value
            elif key == frames.SETTINGS_MAX_CONCURRENT_STREAMS:
                self._max_streams = value
        self._output.append(frames.settings_ack())
        self._start_waiting()
        self._send_bodies()

    def _on_goaway(self, body: bytes, events: list[Event]) -> None:
        self._going_away = True
        last = int.from_bytes(body[:4], "big") & frames.MAX_WINDOW_BYTES
        lost = [stream for stream in self._streams if stream > last] + [entry[0] for entry in self._waiting]
        self._waiting.clear()
        for stream in lost:
            self._streams.pop(stream, None)
            events.append(Broken(stream, "the runtime closes the connection and did not take the call"))

    def _on_window(self, stream: int, increment: int) -> None:
        if stream == 0:
            self._window_bytes += increment
        elif stream in self._streams:
            self._streams[stream].window_bytes += increment
        self._send_bodies()

    # Sending

    def _start_waiting(self) -> None:
        while self._waiting and len(self._streams) < self._max_streams:
            stream, block, body, max_reply_bytes = self._waiting.popleft()
            self._output.append(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, block))
            self._streams[stream] = _ClientStream(body, self._initial_window_bytes, max_reply_bytes)
            self._send_body(stream, self._streams[stream])

    def _send_bodies(self) -> None:
        for stream, state in self._streams.items():
            if state.unsent:
                self._send_body(stream, state)

    def _send_body(self, stream: int, state: _ClientStream) -> None:
        """Send what both windows allow (RFC 9113, 5.2)."""
        size = min(len(state.unsent), self._window_bytes, state.window_bytes)
        if size <= 0:
            return
        part, state.unsent = state.unsent[:size], state.unsent[size:]
        self._window_bytes -= size
        state.window_bytes -= size
        self._output.extend(frames.data_frames(stream, part, end_stream=not state.unsent))

    def _forget(self, stream: int, *, reset: bool = True) -> bool:
        """Forget a call that the runtime ended, and reset it when its request was not fully sent; False if unknown."""
        state = self._streams.pop(stream, None)
        if state is None:
            return False
        if state.unsent and reset:
            self._output.append(frames.rst_stream(stream, frames.CANCEL))
        self._start_waiting()
        return True
