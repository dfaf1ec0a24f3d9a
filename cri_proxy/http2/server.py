"""The server side of an HTTP/2 connection for unary gRPC calls, without I/O: bytes in, requests out, replies in.

No sockets, no clock, no tasks: the caller owns those. A request is read whole, within the window that a stream begins
with; a reply goes out as the client's windows allow, and waits for credit else.
"""

from dataclasses import dataclass
from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.connection import GrpcConnection, OpenStream
from cri_proxy.http2.headers import Headers, write_literals
from cri_proxy.http2.message import PREFIX_BYTES, MessageError, pack, unpack_one
from cri_proxy.http2.status import Code, encode_message

MOST_STREAMS: Final = 16
"""Calls of one connection at a time; more are refused as not processed."""

_MOST_MESSAGE_BYTES: Final = frames.DEFAULT_WINDOW_BYTES - PREFIX_BYTES
_FIELDS: Final = frozenset({b":path", b"grpc-encoding"})
_HEAD: Final = write_literals([(b":status", b"200"), (b"content-type", b"application/grpc")])
_OK: Final = write_literals([(b"grpc-status", b"0")])
_LAST: Final = frames.END_STREAM | frames.END_HEADERS


@dataclass(frozen=True, slots=True)
class Requested:
    """A whole request: its method, as '/package.Service/Method', and its message."""

    stream: int
    method: str
    message: bytes


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The client does not wait for this call any more."""

    stream: int


Event = Requested | Cancelled


@dataclass(slots=True)
class _ServerStream(OpenStream):
    method: str = ""
    encoding: bytes = b""
    is_requested: bool = False


class ServerConnection(GrpcConnection[_ServerStream, Event]):
    """The state of one connection of a client. Write ``take_output()`` after each call of a method."""

    def __init__(self) -> None:
        """Queue our settings; the client's preface is still to come."""
        settings = frames.settings([(frames.SETTINGS_MAX_CONCURRENT_STREAMS, MOST_STREAMS)])
        super().__init__(_FIELDS, [settings], sends_trailers=True)
        self._preface = b""
        self._latest = 0

    def receive(self, data: bytes) -> list[Event]:
        """Receive bytes of the client. Raises ProtocolError; the connection must then be closed."""
        missing = len(frames.PREFACE) - len(self._preface)
        if missing:
            self._preface, data = self._preface + data[:missing], data[missing:]
            if not frames.PREFACE.startswith(self._preface):
                raise frames.ProtocolError("the client does not begin with the preface of HTTP/2")
        return super().receive(data)

    def reply(self, stream: int, message: bytes) -> None:
        """Answer a call OK. Does nothing for one that has been cancelled."""
        state = self._streams.get(stream)
        if state is not None:
            state.unsent = pack(message)
            self._output.append(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, _HEAD))
            self._send_body(stream, state)

    def fail(self, stream: int, code: int, words: str) -> None:
        """End a call with this status. Does nothing for one that has been cancelled."""
        if self._streams.pop(stream, None) is not None:
            status = write_literals([(b"grpc-status", b"%d" % code), (b"grpc-message", encode_message(words))])
            self._output.append(frames.frame(frames.HEADERS, _LAST, stream, _HEAD + status))

    # Frames

    def _on_headers(self, stream: int, flags: int, headers: Headers, events: list[Event]) -> None:
        if stream > self._latest:
            self._open(stream, headers)
        self._end_request(stream, flags, events)

    def _open(self, stream: int, headers: Headers) -> None:
        if not stream % 2:
            raise frames.ProtocolError(f"stream {stream} is not one that a client may open")
        self._latest = stream
        # It need not have broken the rule: our SETTINGS may not have reached it (RFC 9113, 5.1.2).
        if len(self._streams) >= MOST_STREAMS:
            self._output.append(frames.rst_stream(stream, frames.REFUSED_STREAM))
            return
        method = headers.get(b":path", b"").decode("ascii", "replace")
        encoding = headers.get(b"grpc-encoding", b"")
        self._streams[stream] = _ServerStream(b"", self._initial_window_bytes, method=method, encoding=encoding)

    def _on_data(self, stream: int, flags: int, body: bytes, window_bytes: int, events: list[Event]) -> None:
        # For calls that have ended too: all streams share the connection's window.
        if window_bytes:
            self._output.append(frames.window_update(0, window_bytes))
        state = self._streams.get(stream)
        if state is None:
            return
        # The stream gets no credit: a longer request than its window would not end, so its size refuses it.
        state.received += body
        size_bytes = int.from_bytes(state.received[1:PREFIX_BYTES], "big") if len(state.received) > PREFIX_BYTES else 0
        if max(size_bytes, len(state.received) - PREFIX_BYTES) > _MOST_MESSAGE_BYTES:
            self.fail(
                stream, Code.RESOURCE_EXHAUSTED, f"a request of {size_bytes} bytes, {_MOST_MESSAGE_BYTES} are read"
            )
        self._end_request(stream, flags, events)

    def _end_request(self, stream: int, flags: int, events: list[Event]) -> None:
        """Report a request that has ended, once."""
        state = self._streams.get(stream)
        if state is None or state.is_requested or not flags & frames.END_STREAM:
            return
        state.is_requested = True
        try:
            message = unpack_one(bytes(state.received), state.encoding)
        except MessageError as error:
            self.fail(stream, error.code, error.problem)
            return
        state.received.clear()
        events.append(Requested(stream, state.method, message))

    def _on_reset(self, stream: int, code: int, events: list[Event]) -> None:
        if self._streams.pop(stream, None) is not None:
            events.append(Cancelled(stream))

    def _on_goaway(self, body: bytes, events: list[Event]) -> None:
        """Go on: the client closes the connection by itself."""

    # Sending

    def _on_sent(self, stream: int) -> None:
        del self._streams[stream]
        self._output.append(frames.frame(frames.HEADERS, _LAST, stream, _OK))
