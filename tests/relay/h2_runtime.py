"""A runtime written by hand on python-h2: it echoes unary calls, and its windows, settings, pings and its leaving are
in the test's hands. Like the client of this stack it raises at the first frame that breaks the rules.
"""

import asyncio
from dataclasses import dataclass, field
from typing import cast

import h2.config
import h2.connection
import h2.events
import h2.exceptions

from cri_proxy.http2 import frames
from cri_proxy.http2.headers import write_literals
from tests.fakes.http2 import block_frames
from tests.relay.h2_client import Codes, H2Line, Shape, greet


@dataclass(slots=True)
class Request:
    """One call as the runtime has it so far."""

    headers: list[tuple[bytes, bytes]]
    body: bytearray = field(default_factory=bytearray)
    is_complete: bool = False
    is_reset: bool = False
    begun: bool = False
    replied_bytes: int = 0


class H2Runtime:
    """``lines`` are the connections it got, ``calls`` all their calls. ``is_holding`` puts answers off."""

    def __init__(self, path: str, shape: Shape) -> None:
        self._path = path
        self._shape = shape
        self._server: asyncio.Server | None = None
        self.lines: list[RuntimeLine] = []
        self.calls: list[Request] = []
        self.is_holding = False

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(lambda: RuntimeLine(self, self._shape), self._path)

    async def stop(self) -> None:
        """Raises AssertionError if the other side has broken HTTP/2 meanwhile."""
        if self._server is not None:
            self._server.close()
        for line in self.lines:
            line.close()
        assert [repr(line.complaint) for line in self.lines if line.complaint is not None] == []

    def release(self) -> None:
        self.is_holding = False
        for line in self.lines:
            line.answer()


class RuntimeLine(H2Line):
    def __init__(self, runtime: H2Runtime, shape: Shape) -> None:
        super().__init__(shape, is_client=False)
        self._runtime = runtime
        self.requests: dict[int, Request] = {}
        self.last_stream: int | None = None
        self._has_said_all = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._runtime.lines.append(self)
        greet(self.h2, self._shape, {Codes.MAX_CONCURRENT_STREAMS: self._shape.streams})
        self.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True

    def data_received(self, data: bytes) -> None:
        try:
            for event in self.h2.receive_data(data):
                self._on(event)
            self.answer()
        except h2.exceptions.ProtocolError as error:
            self.complaint = error
            self.close()

    def write(self, data: bytes) -> None:
        self.flush()
        cast(asyncio.Transport, self._transport).write(data)

    def go_away(self, last_stream: int) -> None:
        """Leave, as a server does that is asked to stop: calls up to this one are still answered."""
        self.last_stream = last_stream
        self.requests = {stream: request for stream, request in self.requests.items() if stream <= last_stream}
        body = last_stream.to_bytes(4, "big") + bytes(4)
        self.write(frames.frame(frames.GOAWAY, 0, 0, body))

    def refuse(self, stream: int, message: bytes, frame_bytes: int) -> None:
        """Refuse a call with this message, of any length, in frames of this size."""
        fields = [(b":status", b"200"), (b"content-type", b"application/grpc"), (b"grpc-status", b"3")]
        block = write_literals([*fields, (b"grpc-message", message), (b"last", b"x")])
        del self.requests[stream]
        self.write(block_frames(stream, block, flags=frames.END_STREAM, size=frame_bytes))

    def answer(self) -> None:
        """Send what the windows allow of the replies that are due."""
        for stream, request in tuple(self.requests.items()):
            if request.is_complete and not request.is_reset and not self._runtime.is_holding and not self.is_over:
                self._reply(stream, request)
        self.flush()
        if self.last_stream is not None and not self.requests:
            self._say_no_more()

    def unwritten_bytes(self) -> int:
        """What the transport has not got rid of."""
        return cast(asyncio.Transport, self._transport).get_write_buffer_size()

    def flush(self) -> None:
        if self._has_said_all:  # a peer that asks for more, by a PING of its own, gets no answer
            self.h2.clear_outbound_data_buffer()
        super().flush()

    def _say_no_more(self) -> None:
        """The other side closes. If we did, its next write would fail, and grpcio's core leaves unread what we said."""
        if self._transport is not None and not self._has_said_all:
            self._has_said_all = True
            self._transport.write_eof()

    def _reply(self, stream: int, request: Request) -> None:
        if not request.begun:
            request.begun = True
            metadata = [pair for pair in request.headers if pair[0].startswith(b"echo")]
            fields = [(b":status", b"200"), (b"content-type", b"application/grpc"), *metadata]
            self.h2.send_headers(stream, fields)
        while request.replied_bytes < len(request.body):
            size = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if size <= 0:
                return
            part = bytes(request.body[request.replied_bytes : request.replied_bytes + size])
            self.h2.send_data(stream, part)
            request.replied_bytes += len(part)
        self.h2.send_headers(stream, [(b"grpc-status", b"0")], end_stream=True)
        del self.requests[stream]

    def _credit(self, stream: int, size: int, *, is_open: bool) -> None:
        """To the byte: python-h2's own way saves credit up, and forgets a window that settings have made negative."""
        if size:
            self.h2.increment_flow_control_window(size)
            if is_open:
                self.h2.increment_flow_control_window(size, stream)

    def _on(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived(stream_id=stream, headers=headers):
                if self.last_stream is None or stream <= self.last_stream:
                    self.requests[stream] = Request(list(headers))
                    self._runtime.calls.append(self.requests[stream])
            case h2.events.DataReceived(stream_id=stream, data=data, flow_controlled_length=size, stream_ended=ended):
                if stream in self.requests:
                    self.requests[stream].body += data
                self._credit(stream, size, is_open=ended is None)
            case h2.events.StreamEnded(stream_id=stream) if stream in self.requests:
                self.requests[stream].is_complete = True
            case h2.events.StreamReset(stream_id=stream) if stream in self.requests:
                self.requests.pop(stream).is_reset = True
            case h2.events.PingAckReceived(ping_data=body):
                self.answered.append(body)
            case h2.events.SettingsAcknowledged():
                self.unacknowledged -= 1
