"""The two ends of the relay benchmark: as little HTTP/2 as will do, so that the load is not what is measured.

The client's header blocks are encoded before the clock starts, with a compression table and a changing
grpc-timeout, as the kubelet's are. The server answers by method name.
"""

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Final, cast

import hpack

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut, FrameCutter
from cri_proxy.http2.headers import FieldReader, write_literals
from cri_proxy.http2.message import pack

VERSION: Final = "/runtime.v1.RuntimeService/Version"
CREATE: Final = "/runtime.v1.RuntimeService/CreateContainer"
LIST: Final = "/runtime.v1.RuntimeService/ListContainers"
EVENTS: Final = "/runtime.v1.RuntimeService/GetContainerEvents"

LIST_REPLY_BYTES: Final = 500 * 1000  # 500 containers as containerd describes them
EVENTS_IN_A_STREAM: Final = 1000
_EVENT_BYTES: Final = 150
_EVENTS_AT_ONCE: Final = 20
_HUGE_BYTES: Final = 1 << 30

_REPLY_HEADERS: Final = write_literals([(b":status", b"200"), (b"content-type", b"application/grpc")])
_TRAILERS: Final = write_literals([(b"grpc-status", b"0"), (b"grpc-message", b"")])


def header_blocks(method: str, count: int, encoder: hpack.Encoder) -> list[bytes]:
    """Blocks for this many calls, to be sent in this order on one connection."""
    fixed = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost")]
    fixed += [("content-type", "application/grpc"), ("user-agent", "grpc-go/1.82.0"), ("te", "trailers")]
    return [encoder.encode([*fixed, ("grpc-timeout", f"{99_999_999 - 37 * number}u")]) for number in range(count)]


class LightEnd(asyncio.Protocol):
    """What client and server share: settings, pings, credit."""

    def __init__(self, greeting: bytes) -> None:
        self._greeting = greeting
        self._cutter = FrameCutter()
        self._initial_window_bytes = frames.DEFAULT_WINDOW_BYTES
        self.window_bytes = frames.DEFAULT_WINDOW_BYTES
        self._taken_bytes = 0
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Open the conversation, with windows that never close."""
        self.transport = cast(asyncio.Transport, transport)
        ours = frames.settings([(frames.SETTINGS_INITIAL_WINDOW_SIZE, _HUGE_BYTES)])
        self.transport.write(self._greeting + ours + frames.window_update(0, _HUGE_BYTES))

    def data_received(self, data: bytes) -> None:
        """Take whole frames one by one."""
        for buffer, cuts in self._cutter.cut(data):
            for cut in cuts:
                self.on_frame(buffer, cut)

    def on_frame(self, buffer: bytes, cut: Cut) -> None:
        """Settings, pings, credit."""
        kind, flags, stream, start, end = cut
        start += frames.HEADER_BYTES
        if kind == frames.DATA:
            self._taken_bytes += end - start
            if self._taken_bytes > _HUGE_BYTES // 2:
                self.transport.write(frames.window_update(0, self._taken_bytes))
                self._taken_bytes = 0
        elif kind == frames.SETTINGS and not flags & frames.ACK:
            pairs = dict(frames.parse_settings(buffer[start:end]))
            self._initial_window_bytes = pairs.get(frames.SETTINGS_INITIAL_WINDOW_SIZE, self._initial_window_bytes)
            self.transport.write(frames.settings_ack())
        elif kind == frames.PING and not flags & frames.ACK:
            self.transport.write(frames.frame(frames.PING, frames.ACK, 0, buffer[start:end]))
        elif kind == frames.WINDOW_UPDATE:
            self.on_credit(stream, int.from_bytes(buffer[start:end], "big"))

    def on_credit(self, stream: int, increment: int) -> None:
        """More window."""
        if stream == 0:
            self.window_bytes += increment


@dataclass(slots=True)
class Load:
    """What the client does, and how long each call took."""

    blocks: list[bytes]
    body: bytes
    in_flight: int
    started: dict[int, float] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)


class LightClient(LightEnd):
    """Keeps so many calls in flight until all are done."""

    def __init__(self) -> None:
        super().__init__(frames.PREFACE)
        self._load: Load | None = None
        self._done: asyncio.Event = asyncio.Event()
        self._next = 1
        self._left: deque[bytes] = deque()

    async def run(self, load: Load) -> list[float]:
        """Seconds of every call."""
        self._load, self._left = load, deque(load.blocks)
        self._done.clear()
        self._more()
        await self._done.wait()
        return load.seconds

    def _more(self) -> None:
        load = self._load
        if load is None:
            return
        out = []
        while self._left and len(load.started) < load.in_flight and self.window_bytes >= len(load.body):
            stream, self._next = self._next, self._next + 2
            self.window_bytes -= len(load.body)
            out.append(frames.frame(frames.HEADERS, frames.END_HEADERS, stream, self._left.popleft()))
            out.extend(frames.data_frames(stream, load.body, end_stream=True))
            load.started[stream] = time.perf_counter()
        if output := b"".join(out):
            self.transport.write(output)

    def data_received(self, data: bytes) -> None:
        """Start the next calls in place of those that ended."""
        super().data_received(data)
        self._more()
        if self._load is not None and not self._left and not self._load.started:
            self._done.set()

    def on_frame(self, buffer: bytes, cut: Cut) -> None:
        """The end of a stream is the end of a call."""
        super().on_frame(buffer, cut)
        if self._load is not None and cut[1] & frames.END_STREAM and cut[0] in (frames.DATA, frames.HEADERS):
            self._load.seconds.append(time.perf_counter() - self._load.started.pop(cut[2]))


class LightServer(LightEnd):
    """Answers by method name, within the windows that it is given."""

    def __init__(self) -> None:
        super().__init__(b"")
        self._cut_preface = len(frames.PREFACE)
        self._headers = FieldReader(frozenset({b":path"}))
        self._methods: dict[int, str] = {}
        self._windows: dict[int, int] = {}
        self._waiting: deque[tuple[int, bytes]] = deque()

    def data_received(self, data: bytes) -> None:
        """Skip the preface."""
        cut, self._cut_preface = self._cut_preface, max(0, self._cut_preface - len(data))
        super().data_received(data[cut:])

    def on_frame(self, buffer: bytes, cut: Cut) -> None:
        """Note the method, answer when the request is complete."""
        kind, flags, stream, _, _ = cut
        super().on_frame(buffer, cut)
        if kind == frames.HEADERS:
            self._methods[stream] = self._headers.read(frames.payload(buffer, cut))[b":path"].decode()
            self._windows[stream] = self._initial_window_bytes
        elif kind == frames.RST_STREAM:
            self._windows.pop(stream, None)
            self._methods.pop(stream, None)
        if flags & frames.END_STREAM and stream in self._methods:
            self._answer(stream, self._methods.pop(stream))

    def _answer(self, stream: int, method: str) -> None:
        headers = frames.frame(frames.HEADERS, frames.END_HEADERS, stream, _REPLY_HEADERS)
        if method == EVENTS:
            self.transport.write(headers)
            self._events(stream, EVENTS_IN_A_STREAM)
            return
        size = {LIST: LIST_REPLY_BYTES, CREATE: 66}.get(method, 50)
        self._waiting.append((stream, pack(bytes(size))))
        self._waiting.append((stream, b""))
        self._send(headers)

    def _events(self, stream: int, left: int) -> None:
        now = min(left, _EVENTS_AT_ONCE)
        for _ in range(now):
            self._waiting.append((stream, pack(bytes(_EVENT_BYTES))))
            self._send()
        if left > now:
            asyncio.get_running_loop().call_soon(self._events, stream, left - now)
        else:
            self._waiting.append((stream, b""))
            self._send()

    def on_credit(self, stream: int, increment: int) -> None:
        """More window: what waits may go."""
        super().on_credit(stream, increment)
        if stream in self._windows:
            self._windows[stream] += increment
        self._send()

    def _send(self, headers: bytes = b"") -> None:
        """Send in order what the windows allow; an empty body stands for the trailers."""
        out = [headers]
        while self._waiting:
            stream, body = self._waiting[0]
            if not body:
                out.append(frames.frame(frames.HEADERS, frames.END_HEADERS | frames.END_STREAM, stream, _TRAILERS))
                self._windows.pop(stream, None)
                self._waiting.popleft()
                continue
            size = min(len(body), self.window_bytes, self._windows.get(stream, len(body)))
            if size <= 0:
                break
            self.window_bytes -= size
            if stream in self._windows:
                self._windows[stream] -= size
            out.extend(frames.data_frames(stream, body[:size], end_stream=False))
            if size == len(body):
                self._waiting.popleft()
            else:
                self._waiting[0] = (stream, body[size:])
        if output := b"".join(out):
            self.transport.write(output)
