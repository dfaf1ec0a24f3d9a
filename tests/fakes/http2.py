"""Conversations as bytes: what a gRPC client and a runtime write on an HTTP/2 connection."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hpack

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import FrameCutter
from cri_proxy.http2.headers import Headers, write_literals
from cri_proxy.http2.message import pack
from cri_proxy.relay.direction import Parts

Pairs = list[tuple[bytes, bytes]]
Frame = tuple[int, int, int, bytes]

GREETING = frames.PREFACE + frames.settings([])
# What a server of grpcio asks of a call besides its method
GRPC_FIELDS = [
    (b":scheme", b"http"),
    (b":authority", b"x"),
    (b"te", b"trailers"),
    (b"content-type", b"application/grpc"),
]


def request_headers(stream: int, method: str, *, extra: Pairs | None = None, end: bool = False) -> bytes:
    fields = [(b":method", b"POST"), (b":path", method.encode()), *(extra or [])]
    flags = frames.END_HEADERS | (frames.END_STREAM if end else 0)
    return frames.frame(frames.HEADERS, flags, stream, write_literals(fields))


def request(stream: int, method: str, message: bytes, *, extra: Pairs | None = None) -> bytes:
    data = frames.data_frames(stream, pack(message), end_stream=True)
    return request_headers(stream, method, extra=extra) + b"".join(data)


@contextmanager
def begun_calls(path: Path, method: str, count: int) -> Iterator[None]:
    """A client that has begun so many calls and ends none. The server's transport has read them all inside the block.

    The caller's event loop stands still meanwhile, so that a server on it has looked at none.
    """
    asked, answered = frames.frame(frames.PING, 0, 0, bytes(8)), frames.frame(frames.PING, frames.ACK, 0, bytes(8))
    calls = (request_headers(stream, method, extra=GRPC_FIELDS) for stream in range(1, 2 * count, 2))
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(path))
        client.sendall(b"".join((GREETING, frames.settings_ack(), *calls, asked)))
        read = b""
        while answered not in read:
            read += client.recv(1 << 16)
        yield


def block_frames(stream: int, block: bytes, *, flags: int = 0, size: int = frames.DEFAULT_FRAME_BYTES) -> bytes:
    """A header block in as many frames as it takes."""
    parts = [block[at : at + size] for at in range(0, len(block), size)] or [b""]
    kinds = [(frames.HEADERS, flags), *((frames.CONTINUATION, 0) for _ in parts[1:])]
    last = len(parts) - 1
    return b"".join(
        frames.frame(kind, flags | (frames.END_HEADERS if number == last else 0), stream, part)
        for number, ((kind, flags), part) in enumerate(zip(kinds, parts, strict=True))
    )


def reply_headers(stream: int, *, extra: Pairs | None = None) -> bytes:
    fields = [(b":status", b"200"), (b"content-type", b"application/grpc"), *(extra or [])]
    return frames.frame(frames.HEADERS, frames.END_HEADERS, stream, write_literals(fields))


def trailers(stream: int, code: int = 0, message: bytes = b"") -> bytes:
    """The HEADERS frame that ends a reply."""
    fields = [(b"grpc-status", b"%d" % code), (b"grpc-message", message)]
    flags = frames.END_HEADERS | frames.END_STREAM
    return frames.frame(frames.HEADERS, flags, stream, write_literals(fields))


def reply(stream: int, message: bytes) -> bytes:
    return (
        reply_headers(stream) + b"".join(frames.data_frames(stream, pack(message), end_stream=False)) + trailers(stream)
    )


def parse(data: bytes | Parts) -> list[Frame]:
    """Frames as (type, flags, stream, payload), padding and priority stripped; a preface is skipped."""
    raw = b"".join(data) if isinstance(data, list) else data
    cutter = FrameCutter()
    cutter.max_frame_bytes = 1 << 24
    found = [(buffer, cut) for buffer, cuts in cutter.cut(raw.removeprefix(frames.PREFACE)) for cut in cuts]
    assert sum(cut[4] - cut[3] for _, cut in found) == len(raw.removeprefix(frames.PREFACE)), "half a frame"
    return [(cut[0], cut[1], cut[2], frames.payload(buffer, cut)) for buffer, cut in found]


def body(data: bytes | Parts, stream: int) -> bytes:
    return b"".join(payload for kind, _, of, payload in parse(data) if kind == frames.DATA and of == stream)


def credit(data: bytes | Parts, stream: int) -> int:
    updates = [payload for kind, _, of, payload in parse(data) if kind == frames.WINDOW_UPDATE and of == stream]
    return sum(int.from_bytes(payload, "big") for payload in updates)


def kinds(data: bytes | Parts, stream: int) -> list[int]:
    return [kind for kind, _, of, _ in parse(data) if of == stream]


def status(data: bytes | Parts, stream: int) -> Headers:
    blocks = [payload for kind, _, of, payload in parse(data) if kind == frames.HEADERS and of == stream]
    return {bytes(name): bytes(value) for name, value in hpack.Decoder().decode(blocks[-1], raw=True)}
