"""What both ends of an HTTP/2 connection for gRPC calls do alike, without I/O: read frames, heed windows, send bodies.

An end subclasses ``GrpcConnection`` for its kind of streams and events; see ``client.py`` and ``server.py``.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from cri_proxy.http2 import frames
from cri_proxy.http2.headers import FieldReader, Headers


@dataclass(slots=True)
class OpenStream:
    """A call: what is still to be sent of our message, the peer's window for it, and what has come of its message."""

    unsent: bytes
    window_bytes: int
    received: bytearray = field(default_factory=bytearray)


StreamT = TypeVar("StreamT", bound=OpenStream)
EventT = TypeVar("EventT")


class GrpcConnection(ABC, Generic[StreamT, EventT]):
    """The state of one connection. Write ``take_output()`` after each call of a method."""

    def __init__(self, fields: frozenset[bytes], output: list[bytes], *, sends_trailers: bool) -> None:
        """``fields`` are read of header blocks, ``output`` begins what we send; ``sends_trailers`` ends our bodies."""
        self._cutter: Final = frames.FrameCutter()
        self._reader: Final = FieldReader(fields)
        self._output: Final = output
        self._sends_trailers: Final = sends_trailers
        self._streams: Final[dict[int, StreamT]] = {}
        self._window_bytes = frames.DEFAULT_WINDOW_BYTES
        self._initial_window_bytes = frames.DEFAULT_WINDOW_BYTES
        self._block: frames.OpenBlock | None = None

    def take_output(self) -> bytes:
        """Return the bytes to be written to the peer now."""
        output = b"".join(self._output)
        self._output.clear()
        return output

    def receive(self, data: bytes) -> list[EventT]:
        """Receive bytes of the peer. Raises ProtocolError; the connection must then be closed."""
        events: list[EventT] = []
        for buffer, cuts in self._cutter.cut(data):
            for cut in cuts:
                self._on_frame(buffer, cut, events)
        if self._cutter.problem:
            raise frames.ProtocolError(self._cutter.problem)
        return events

    # Of an end

    @abstractmethod
    def _on_data(self, stream: int, flags: int, body: bytes, window_bytes: int, events: list[EventT]) -> None:
        """Take a part of a body; ``window_bytes`` is what it used of the windows."""

    @abstractmethod
    def _on_headers(self, stream: int, flags: int, headers: Headers, events: list[EventT]) -> None:
        """Take a whole header block."""

    @abstractmethod
    def _on_reset(self, stream: int, code: int, events: list[EventT]) -> None:
        """Take note that the peer has reset a stream."""

    @abstractmethod
    def _on_goaway(self, body: bytes, events: list[EventT]) -> None:
        """Take note that the peer takes no more streams."""

    def _on_setting(self, key: int, value: int) -> None:
        """Take a setting of the peer's other than that of windows."""

    def _on_settings_taken(self) -> None:
        """Do what new settings allow, before bodies go on."""

    def _on_sent(self, stream: int) -> None:
        """Take note that the last byte of a body is sent."""

    # Frames

    def _on_frame(self, buffer: bytes, cut: frames.Cut, events: list[EventT]) -> None:
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
                self._on_reset(stream, frames.parse_number(body, "RST_STREAM"), events)
            case frames.PUSH_PROMISE | frames.CONTINUATION:
                raise frames.ProtocolError(f"an unexpected frame of type {kind}")
            case _:
                self._on_control(kind, flags, stream, body, events)

    def _on_control(self, kind: int, flags: int, stream: int, body: bytes, events: list[EventT]) -> None:
        # Types without a case here are ignored, as RFC 9113, 5.5 demands of unknown ones.
        match kind:
            case frames.SETTINGS if not flags & frames.ACK:
                self._on_settings(body)
            case frames.PING if not flags & frames.ACK:
                self._output.append(frames.frame(frames.PING, frames.ACK, 0, body))
            case frames.GOAWAY:
                self._on_goaway(body, events)
            case frames.WINDOW_UPDATE:
                self._on_window(stream, frames.parse_number(body, "WINDOW_UPDATE"))

    def _on_block(self, block: frames.OpenBlock, flags: int, part: bytes, events: list[EventT]) -> None:
        self._reader.feed(part)
        if flags & frames.END_HEADERS:
            self._block = None
            self._on_headers(block.stream, block.flags, self._reader.finish(), events)

    def _on_settings(self, body: bytes) -> None:
        for key, value in frames.parse_settings(body):
            if key == frames.SETTINGS_INITIAL_WINDOW_SIZE:
                for state in self._streams.values():
                    # This may make a window negative: nothing is sent until credit lifts it (RFC 9113, 6.9.2).
                    state.window_bytes += value - self._initial_window_bytes
                self._initial_window_bytes = value
            else:
                self._on_setting(key, value)
        self._output.append(frames.settings_ack())
        self._on_settings_taken()
        self._send_bodies()

    def _on_window(self, stream: int, increment: int) -> None:
        if stream == 0:
            self._window_bytes += increment
        elif stream in self._streams:
            self._streams[stream].window_bytes += increment
        self._send_bodies()

    # Sending

    def _send_bodies(self) -> None:
        for stream, state in tuple(self._streams.items()):  # the server's ``_on_sent`` deletes from it
            if state.unsent:
                self._send_body(stream, state)

    def _send_body(self, stream: int, state: StreamT) -> None:
        """Send what both windows allow (RFC 9113, 5.2)."""
        size = min(len(state.unsent), self._window_bytes, state.window_bytes)
        if size <= 0:
            return
        part, state.unsent = state.unsent[:size], state.unsent[size:]
        self._window_bytes -= size
        state.window_bytes -= size
        is_last = not state.unsent
        self._output.extend(frames.data_frames(stream, part, end_stream=is_last and not self._sends_trailers))
        if is_last:
            self._on_sent(stream)
