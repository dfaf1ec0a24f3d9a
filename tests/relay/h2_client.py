"""A gRPC client written by hand on python-h2: another HTTP/2 stack than grpcio's, which raises at the first frame
that breaks the rules, and where windows, settings and pings are in the test's hands.
"""

import asyncio
import base64
import gzip
import zlib
from collections import deque
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from tests.relay.clients import Answer, Pairs, plain

Codes = h2.settings.SettingCodes
SETTINGS, GOAWAY, CANCEL = 4, 7, 8
UNAVAILABLE = 14
_BY_RESET = {0: 13, CANCEL: 1, 7: UNAVAILABLE, 11: 8}  # grpc's PROTOCOL-HTTP2.md; all others are INTERNAL
_OWN = (b":status", b"content-type", b"grpc-status", b"grpc-message", b"grpc-encoding", b"grpc-accept-encoding")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a connection asks of its other side."""

    window_bytes: int = 65_535
    frame_bytes: int = 16_384
    table_bytes: int = 4096
    streams: int = 1000
    list_bytes: int = 1 << 20  # of a header block


def greet(connection: h2.connection.H2Connection, shape: Shape, more: dict[int, int]) -> None:
    """Begin a connection with one SETTINGS frame of this shape, which counts once it is acknowledged."""
    connection.initiate_connection()
    preface = connection.data_to_send()[:24] if connection.config.client_side else b""
    connection.clear_outbound_data_buffer()
    values: dict[int, int] = {Codes.INITIAL_WINDOW_SIZE: shape.window_bytes, Codes.MAX_FRAME_SIZE: shape.frame_bytes}
    values |= {Codes.HEADER_TABLE_SIZE: shape.table_bytes, Codes.MAX_HEADER_LIST_SIZE: shape.list_bytes}
    connection.update_settings(cast(Any, {**values, **more}))
    connection._data_to_send[:0] = preface
    if shape.window_bytes > 65_535:  # windows of streams that are larger than the connection's are worth nothing
        connection.increment_flow_control_window(shape.window_bytes - 65_535)


class H2Client:
    """Connects when a call needs it, and anew after a GOAWAY or a lost connection."""

    def __init__(self, path: str, shape: Shape | None = None) -> None:
        self._path = path
        self._shape = shape or Shape()
        self.lines: list[Line] = []

    async def line(self) -> "Line":
        """The connection to use. Raises OSError when nobody answers."""
        if not self.lines or self.lines[-1].is_over or self.lines[-1].goaways:
            loop = asyncio.get_running_loop()
            _, line = await loop.create_unix_connection(lambda: Line(self._shape), self._path)
            self.lines.append(line)
        return self.lines[-1]

    async def start(
        self, method: str, *, metadata: Pairs = (), timeout_seconds: float | None = None, compression: str | None = None
    ) -> "H2Call":
        call = H2Call(compression)
        try:
            line = await self.line()
        except OSError as error:
            call.finish(UNAVAILABLE, str(error))
            return call
        fields = [(b":method", b"POST"), (b":scheme", b"http"), (b":path", method.encode()), (b":authority", b"x")]
        fields += [(b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"grpc-accept-encoding", b"gzip")]
        if compression is not None:
            fields.append((b"grpc-encoding", compression.encode()))
        while line.h2.open_outbound_streams >= line.h2.remote_settings.max_concurrent_streams:  # noqa: ASYNC110 - a test has a bound
            await asyncio.sleep(0.002)
        if timeout_seconds is not None:
            fields.append((b"grpc-timeout", b"%du" % int(timeout_seconds * 1_000_000)))
        line.begin(call, [*fields, *(_field(*pair) for pair in metadata)], timeout_seconds)
        return call

    async def unary(self, method: str, message: bytes) -> Answer:
        call = await self.start(method)
        await call.write(message, last=True)
        return await call.end()

    async def close(self) -> None:
        for line in self.lines:
            line.close()
        assert [repr(line.complaint) for line in self.lines if line.complaint is not None] == []


class H2Line(asyncio.Protocol):
    """What both ends of a connection on python-h2 have in common."""

    def __init__(self, shape: Shape, *, is_client: bool) -> None:
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=is_client, header_encoding=None))
        self.answered: list[bytes] = []
        self.unacknowledged = 1
        self.complaint: Exception | None = None
        self.is_over = False
        self._shape = shape
        self._transport: asyncio.Transport | None = None

    def ping(self, body: bytes) -> None:
        """Send a PING; the answer turns up in ``answered``."""
        self.h2.ping(body)
        self.flush()

    def change_settings(self, values: dict[int, int]) -> None:
        """Announce other settings. One change at a time: python-h2 takes an acknowledgement for that of all."""
        self.unacknowledged += 1
        self.h2.update_settings(cast(Any, values))
        self.flush()

    def flush(self) -> None:
        data = self.h2.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class Line(H2Line):
    """One connection and its calls."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(shape, is_client=True)
        self.calls: dict[int, H2Call] = {}
        self.goaways: list[bytes] = []
        self.pinged: list[bytes] = []
        self._received = bytearray()
        self._is_greeted = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        greet(self.h2, self._shape, {Codes.ENABLE_PUSH: 0})
        self.flush()

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 9 and not self.is_over:
            size = 9 + int.from_bytes(self._received[:3], "big")
            if len(self._received) < size:
                break
            frame = bytes(self._received[:size])
            del self._received[:size]
            self._take(frame)
        self._move()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        for call in tuple(self.calls.values()):
            call.finish(UNAVAILABLE, "connection lost")

    def begin(self, call: "H2Call", fields: list[tuple[bytes, bytes]], timeout_seconds: float | None) -> None:
        if self.is_over:  # since whoever begins it has asked
            call.finish(UNAVAILABLE, "connection lost")
            return
        call.line, call.stream = self, self.h2.get_next_available_stream_id()
        self.calls[call.stream] = call
        self.h2.send_headers(call.stream, fields)
        if timeout_seconds is not None:
            call.expire_after(timeout_seconds)
        self.flush()

    def credit(self, stream: int, size: int) -> None:
        if size and not self.is_over:
            self.h2.increment_flow_control_window(size, stream or None)
            self.flush()

    def reset(self, stream: int, code: int) -> None:
        if not self.is_over:
            try:
                self.h2.reset_stream(stream, code)
            except h2.exceptions.StreamClosedError:  # the other side was first
                return
            self.flush()

    def send(self, call: "H2Call") -> None:
        """Send what the windows allow of a call's requests."""
        while call.unsent and not self.is_over:
            size = min(self.h2.local_flow_control_window(call.stream), self.h2.max_outbound_frame_size)
            part = bytes(call.unsent[:size])
            if not part:
                break
            del call.unsent[: len(part)]
            call.is_half_closed = call.ends and not call.unsent
            self.h2.send_data(call.stream, part, end_stream=call.is_half_closed)
        if call.ends and not call.unsent and not call.is_half_closed and not self.is_over:
            call.is_half_closed = True
            self.h2.end_stream(call.stream)
        self.flush()

    def pause(self) -> None:
        """Take nothing off the socket any more."""
        cast(asyncio.Transport, self._transport).pause_reading()

    def resume(self) -> None:
        cast(asyncio.Transport, self._transport).resume_reading()

    def _take(self, frame: bytes) -> None:
        if not self._is_greeted and frame[3] != SETTINGS:  # python-h2 itself bears it (RFC 9113, 3.4)
            self.complaint = h2.exceptions.ProtocolError(f"the server's first frame has type {frame[3]}")
        self._is_greeted = True
        if frame[3] == GOAWAY:  # python-h2 takes no frame after one, although open calls go on (RFC 9113, 6.8)
            self.goaways.append(frame[9:])
            last = int.from_bytes(frame[9:13], "big")
            for stream, call in tuple(self.calls.items()):
                if stream > last:
                    call.finish(UNAVAILABLE, "not taken any more")
            return
        try:
            for event in self.h2.receive_data(frame):
                self._on(event)
        except h2.exceptions.ProtocolError as error:
            self.complaint = error
            self.close()

    def _on(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.PingReceived(ping_data=body):
                self.pinged.append(body)
            case h2.events.PingAckReceived(ping_data=body):
                self.answered.append(body)
            case h2.events.SettingsAcknowledged():
                self.unacknowledged -= 1
            case h2.events.ResponseReceived(stream_id=stream, headers=headers, stream_ended=ended):
                self.calls[stream].see_headers(headers, is_last=ended is not None)
            case h2.events.TrailersReceived(stream_id=stream, headers=headers):
                self.calls[stream].see_headers(headers, is_last=True)
            case h2.events.DataReceived(stream_id=stream, data=data, flow_controlled_length=size):
                self.credit(0, size)
                self.calls[stream].see_data(data, size)
            case h2.events.StreamReset(stream_id=stream, error_code=code):
                self.calls[stream].finish(_BY_RESET.get(int(code), 13), f"reset with {code}")

    def _move(self) -> None:
        for call in tuple(self.calls.values()):
            if call.unsent and not call.ended.is_set():
                self.send(call)
                call.moved.set()
        self.flush()


class H2Call:
    """One call; see ``CallUnderWay``."""

    def __init__(self, compression: str | None) -> None:
        self.line: Line | None = None
        self.stream = 0
        self.unsent = bytearray()
        self.ends = self.is_half_closed = False
        self.ended, self.moved = asyncio.Event(), asyncio.Event()
        self._compression = compression
        self._encoding = b""
        self._body = bytearray()
        self._messages: deque[bytes] = deque()
        self._owed_bytes = 0
        self._is_read = False
        self._answer = Answer(2, "no status")
        self._timer: asyncio.TimerHandle | None = None

    async def write(self, message: bytes, *, last: bool = False) -> None:
        if self._compression is not None:
            squeezed = gzip.compress(message) if self._compression == "gzip" else zlib.compress(message)
            await self.write_raw(b"\1" + len(squeezed).to_bytes(4, "big") + squeezed, last=last)
        else:
            await self.write_raw(b"\0" + len(message).to_bytes(4, "big") + message, last=last)

    async def write_raw(self, body: bytes, *, last: bool = False) -> None:
        if self.line is None or self.ended.is_set():
            return
        self.unsent += body
        self.ends = last
        self.line.send(self)
        while self.unsent and not self.ended.is_set():
            self.moved.clear()
            await self.moved.wait()

    async def done_writing(self) -> None:
        await self.write_raw(b"", last=True)

    async def read(self) -> bytes | None:
        self._is_read = True
        self._give_back()
        while not self._messages and not self.ended.is_set():
            self.moved.clear()
            await self.moved.wait()
        self._is_read = False
        return self._messages.popleft() if self._messages else None

    def cancel(self) -> None:
        self._leave(1, "cancelled by its client")

    async def end(self) -> Answer:
        replies = []
        while (reply := await self.read()) is not None:
            replies.append(reply)
        await self.ended.wait()
        answer = self._answer
        return Answer(answer.code, answer.details, tuple(replies), answer.initial, answer.trailing)

    def expire_after(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._leave, 4, "deadline")

    def finish(self, code: int, details: str, trailing: Pairs = ()) -> None:
        """The call is over; later word of it changes nothing."""
        if self.ended.is_set():
            return
        self._answer = Answer(code, details, (), self._answer.initial, plain(trailing))
        self.ended.set()
        self.moved.set()
        if self._timer is not None:
            self._timer.cancel()

    def see_headers(self, headers: list[tuple[bytes, bytes]], *, is_last: bool) -> None:
        if self.ended.is_set():
            return
        fields = dict(headers)
        metadata = [_pair(name, value) for name, value in headers if name not in _OWN]
        if not is_last:
            self._encoding = fields.get(b"grpc-encoding", b"")
            self._answer = Answer(2, "no status", (), plain(metadata))
            return
        message = unquote(fields.get(b"grpc-message", b"").decode())
        is_open = not self.is_half_closed
        self.finish(int(fields.get(b"grpc-status", b"2")), message, metadata)
        if self.line is not None and is_open:  # nobody waits for the rest of our requests
            self.line.reset(self.stream, 0)

    def see_data(self, data: bytes, size: int) -> None:
        self._owed_bytes += size
        self._body += data
        while len(self._body) >= 5 and len(self._body) >= (end := 5 + int.from_bytes(self._body[1:5], "big")):
            message = bytes(self._body[5:end])
            self._messages.append(self._plain(message) if self._body[0] else message)
            del self._body[:end]
        self.moved.set()
        if self._is_read:
            self._give_back()

    def _plain(self, message: bytes) -> bytes:
        return zlib.decompress(message, 31 if self._encoding == b"gzip" else 15)

    def _give_back(self) -> None:
        """Credit the stream, as somebody reads it."""
        if self.line is not None and not self.ended.is_set():
            self.line.credit(self.stream, self._owed_bytes)
            self._owed_bytes = 0

    def _leave(self, code: int, details: str) -> None:
        if self.line is not None and not self.ended.is_set():
            self.finish(code, details)
            self.line.reset(self.stream, CANCEL)


def _field(name: str, value: str | bytes) -> tuple[bytes, bytes]:
    raw = base64.b64encode(value).rstrip(b"=") if isinstance(value, bytes) else value.encode()
    return name.encode(), raw


def _pair(name: bytes, value: bytes) -> tuple[str, str | bytes]:
    if not name.endswith(b"-bin"):
        return name.decode(), value.decode()
    return name.decode(), base64.b64decode(value + b"=" * (-len(value) % 4))
