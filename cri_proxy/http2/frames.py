"""HTTP/2 frames (RFC 9113, 4 and 6): constants, a cutter of byte chunks into frames, payload parsers and builders.

No I/O, no connection state. A cut says where a frame lies in a buffer: a relay sends hundreds of frames as one slice.
"""

import struct
from dataclasses import dataclass
from typing import Final

from cri_proxy.errors import CriProxyError

DATA: Final = 0x0
HEADERS: Final = 0x1
PRIORITY: Final = 0x2
RST_STREAM: Final = 0x3
SETTINGS: Final = 0x4
PUSH_PROMISE: Final = 0x5
PING: Final = 0x6
GOAWAY: Final = 0x7
WINDOW_UPDATE: Final = 0x8
CONTINUATION: Final = 0x9

END_STREAM: Final = 0x1
ACK: Final = 0x1
END_HEADERS: Final = 0x4
PADDED: Final = 0x8
HAS_PRIORITY: Final = 0x20

SETTINGS_HEADER_TABLE_SIZE: Final = 0x1
SETTINGS_ENABLE_PUSH: Final = 0x2
SETTINGS_MAX_CONCURRENT_STREAMS: Final = 0x3
SETTINGS_INITIAL_WINDOW_SIZE: Final = 0x4
SETTINGS_MAX_FRAME_SIZE: Final = 0x5

NO_ERROR: Final = 0x0
PROTOCOL_ERROR: Final = 0x1
FLOW_CONTROL_ERROR: Final = 0x3
REFUSED_STREAM: Final = 0x7
CANCEL: Final = 0x8
COMPRESSION_ERROR: Final = 0x9
ENHANCE_YOUR_CALM: Final = 0xB

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DEFAULT_WINDOW_BYTES: Final = 65_535
DEFAULT_FRAME_BYTES: Final = 16_384
MAX_WINDOW_BYTES: Final = (1 << 31) - 1
MAX_BLOCK_BYTES: Final = 16 << 20
"""The longest header block that is read to its end: gRPC for Go, so containerd and the kubelet, reads no longer one."""

_SMALL_BYTES: Final = 1024  # senders fill frames of 16 KiB (RFC 9113, 4.2); only the last one of a block is small
_MAX_SMALL_FRAMES: Final = 128  # at most 128 KiB of small frames cost as much as 128 large ones

HEADER: Final = struct.Struct(">HBBBI")  # the length has 24 bits, for which struct has no letter: two numbers
_SETTING: Final = struct.Struct(">HI")
HEADER_BYTES: Final = HEADER.size

Cut = tuple[int, int, int, int, int]
"""One frame in a buffer: type, flags, stream, offset of its 9-byte header, offset past its payload."""


@dataclass(eq=False)
class ProtocolError(CriProxyError):
    """A peer violated HTTP/2; the connection cannot continue. ``code`` is the GOAWAY's (RFC 9113, 7)."""

    problem: str
    code: int = PROTOCOL_ERROR

    def __str__(self) -> str:
        return f"HTTP/2: {self.problem}"


class FrameCutter:
    """Cut the chunks of a connection into whole frames."""

    def __init__(self) -> None:
        """Start at a frame boundary, after the preface."""
        self.max_frame_bytes = DEFAULT_FRAME_BYTES
        self.problem = ""
        self._parts: list[bytes] = []  # a frame that has begun
        self.kept_bytes = 0  # the bytes of it so far
        self._need = HEADER_BYTES

    def cut(self, data: bytes) -> list[tuple[bytes, list[Cut]]]:
        """Return buffers with their whole frames; the rest waits for the next chunk.

        A frame that began in an earlier chunk has a buffer of its own; the others lie in ``data``, which is not
        copied. At a frame larger than ``max_frame_bytes`` (section 4.2) cutting stops and ``problem`` is why; the
        frames before it still count.
        """
        if not self.kept_bytes:
            return [(data, self._whole_frames(data, 0))]
        pieces: list[tuple[bytes, list[Cut]]] = []
        position = 0
        while self.kept_bytes and not self.problem:  # at most twice: the rest of a header, then the rest of the frame
            missing = self._need - self.kept_bytes
            part = data[position : position + missing]
            position += len(part)
            self._parts.append(part)
            self.kept_bytes += len(part)
            if len(part) < missing:
                return pieces
            buffer = b"".join(self._parts)
            if self._need == HEADER_BYTES:
                self._need += self._length(buffer, 0)
                self._parts = [buffer]
            if self.kept_bytes == self._need:
                self._parts, self.kept_bytes = [], 0
                pieces.append((buffer, self._whole_frames(buffer, 0)))
        if position < len(data) and not self.problem:
            pieces.append((data, self._whole_frames(data, position)))
        return pieces

    def _whole_frames(self, data: bytes, position: int) -> list[Cut]:
        """Return the cuts up to the last whole frame; keep the rest."""
        cuts: list[Cut] = []
        end = len(data)
        unpack = HEADER.unpack_from
        limit = self.max_frame_bytes
        self._need = HEADER_BYTES
        while end - position >= HEADER_BYTES:
            high, low, kind, flags, stream = unpack(data, position)
            length = high << 8 | low
            if length > limit:
                self._length(data, position)
                break
            after = position + HEADER_BYTES + length
            if after > end:
                self._need = HEADER_BYTES + length
                break
            # A receiver ignores the reserved bit (4.1); where it matters ``has_reserved_bit`` looks again.
            cuts.append((kind, flags, stream & 0x7FFFFFFF, position, after))
            position = after
        if position < end:
            self.kept_bytes = end - position
            self._parts = [data[position:]]
        return cuts

    def _length(self, buffer: bytes, position: int) -> int:
        length = int.from_bytes(buffer[position : position + 3], "big")
        if length > self.max_frame_bytes:
            self.problem = f"a frame of {length} bytes where {self.max_frame_bytes} are allowed"
        return length


@dataclass(slots=True)
class OpenBlock:
    """A header block that goes on in CONTINUATION frames; ``max_bytes`` None is without bound."""

    stream: int
    flags: int
    max_bytes: int | None = MAX_BLOCK_BYTES
    _bytes: int = 0
    _small_frames: int = 0

    def go_on(self, length: int) -> None:
        """Count a CONTINUATION frame with a payload of this length. Raises ProtocolError beyond the bounds."""
        self._bytes += length
        if self.max_bytes is not None and self._bytes > self.max_bytes:
            raise ProtocolError(f"a header block beyond {self.max_bytes} bytes", ENHANCE_YOUR_CALM)
        self._small_frames += length < _SMALL_BYTES
        if self._small_frames > _MAX_SMALL_FRAMES:
            problem = f"more than {_MAX_SMALL_FRAMES} CONTINUATION frames below {_SMALL_BYTES} bytes in a header block"
            raise ProtocolError(problem, ENHANCE_YOUR_CALM)


def has_reserved_bit(buffer: bytes, start: int) -> bool:
    """Whether the bit before the stream of the frame there is set, which no sender may do (section 4.1)."""
    return bool(buffer[start + 5] & 0x80)


def payload(buffer: bytes, cut: Cut) -> bytes:
    """Return the payload of a frame without padding and priority fields (sections 6.1, 6.2)."""
    kind, flags, _, start, end = cut
    start += HEADER_BYTES
    if kind in (DATA, HEADERS, PUSH_PROMISE) and flags & PADDED:
        if start >= end or start + 1 + buffer[start] > end:
            raise ProtocolError("padding longer than its frame")
        end -= buffer[start]
        start += 1
    if kind == HEADERS and flags & HAS_PRIORITY:
        if start + 5 > end:
            raise ProtocolError("a HEADERS frame too short for its priority")
        start += 5
    return buffer[start:end]


def parse_settings(body: bytes) -> list[tuple[int, int]]:
    """Return the pairs of a SETTINGS payload in order (section 6.5.1)."""
    if len(body) % _SETTING.size:
        raise ProtocolError(f"a SETTINGS payload of {len(body)} bytes")
    return list(_SETTING.iter_unpack(body))


def parse_number(body: bytes, what: str) -> int:
    """Return the 32-bit number of a RST_STREAM or WINDOW_UPDATE payload."""
    if len(body) != 4:
        raise ProtocolError(f"a {what} payload of {len(body)} bytes")
    return int.from_bytes(body, "big")


def frame(kind: int, flags: int, stream: int, body: bytes = b"") -> bytes:
    """Build one frame."""
    length = len(body)
    return HEADER.pack(length >> 8, length & 0xFF, kind, flags, stream) + body


def settings(pairs: list[tuple[int, int]]) -> bytes:
    """Build a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in pairs))


def settings_ack() -> bytes:
    """Build the acknowledgement of a SETTINGS frame."""
    return frame(SETTINGS, ACK, 0)


def window_update(stream: int, increment: int) -> bytes:
    """Build a WINDOW_UPDATE frame."""
    return frame(WINDOW_UPDATE, 0, stream, increment.to_bytes(4, "big"))


def rst_stream(stream: int, code: int) -> bytes:
    """Build a RST_STREAM frame."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def data_frames(stream: int, body: bytes, *, end_stream: bool) -> list[bytes]:
    """Build the DATA frames of a body, each within the size that every peer must accept."""
    starts = range(0, len(body), DEFAULT_FRAME_BYTES) or range(1)  # an empty body takes a frame too, for its END_STREAM
    last = starts[-1]
    return [
        frame(DATA, END_STREAM if end_stream and at == last else 0, stream, body[at : at + DEFAULT_FRAME_BYTES])
        for at in starts
    ]
