"""One direction of a splice, without I/O: forward frames, join header blocks; callbacks see some and may drop them.

Untouched frames are gathered into runs and sent as slices of the received buffer. Our frames may only stand between
two units of the other side: a unit is one frame, or a header block with all its CONTINUATION frames (RFC 9113, 4.3).
A unit is therefore sent on only once it is complete.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from cri_proxy.http2.frames import (
    CONTINUATION,
    END_HEADERS,
    HAS_PRIORITY,
    HEADER_BYTES,
    HEADERS,
    PADDED,
    PUSH_PROMISE,
    Cut,
    FrameCutter,
    ProtocolError,
)
from cri_proxy.http2.frames import payload as frame_payload

_MAX_BLOCK_BYTES: Final = 1 << 20
_PADDED_OR_PRIORITY: Final = PADDED | HAS_PRIORITY
_COPY_BYTES: Final = 8192  # below this a copy costs less than a view

Parts = list[bytes | memoryview]
"""Bytes to be sent, in order. Long runs are views of the received buffers, not copies."""

OnFrame = Callable[[bytes, Cut], bool]
"""Look at a frame: True sends it on, False drops it. May append our frames to either side."""

OnBlock = Callable[[int, int, bytes], bool]
"""Look at a whole header block, given stream, flags of its HEADERS frame, and block; returns as OnFrame does."""

WantsBlock = Callable[[int], bool]
"""Whether OnBlock looks at the blocks of this stream."""


@dataclass(slots=True)
class _OpenBlock:
    stream: int
    flags: int
    raw: list[bytes]
    block: bytearray
    read: bool


class Direction:
    """Cut frames, look at them, and send them on, in order."""

    def __init__(
        self, out: Parts, on_frame: dict[int, OnFrame], on_block: OnBlock, wants_block: WantsBlock | None = None
    ) -> None:
        """Send on to ``out``; look with ``on_frame`` at the frame types that it holds.

        Without ``wants_block`` every block is looked at. A look at HEADERS in ``on_frame`` must call ``headers``,
        except for a whole block of a stream that is not wanted.
        """
        self.cutter = FrameCutter()
        self._out = out
        self._wants_block = wants_block
        self._on_block = on_block
        self.is_clear = True  # between two units: the next byte begins a frame
        self._open: _OpenBlock | None = None
        self._on_frame: dict[int, OnFrame] = {
            HEADERS: self.headers,
            PUSH_PROMISE: self._push_promise,
            CONTINUATION: self._continuation,
            **on_frame,
        }

    def receive(self, data: bytes) -> None:
        """Receive a chunk. Raises ProtocolError once everything before the malformed frame is in ``out``."""
        for buffer, cuts in self.cutter.cut(data):
            self._pass(buffer, cuts)
        self.is_clear = self._open is None and not self.cutter.kept_bytes
        if self.cutter.problem:
            raise ProtocolError(self.cutter.problem)

    def _pass(self, buffer: bytes, cuts: list[Cut]) -> None:
        out = self._out
        look = self._on_frame.get
        start = end = cuts[0][3] if cuts else 0  # the run: buffer[start:end] goes on but is not yet in out
        try:
            for cut in cuts:
                on_frame = look(cut[0])
                if self._open is not None and cut[0] != CONTINUATION:
                    raise ProtocolError("a header block is interrupted")
                if on_frame is None:
                    end = cut[4]
                    continue
                mark = len(out)
                if on_frame(buffer, cut):
                    end = cut[4]
                    if len(out) != mark:  # our frames come after this one
                        out.insert(mark, slice_of(buffer, start, end))
                        start = end
                else:
                    if start != end:
                        out.insert(mark, slice_of(buffer, start, end))
                    start = end = cut[4]
        finally:
            if start != end:
                out.append(slice_of(buffer, start, end))

    def headers(self, buffer: bytes, cut: Cut) -> bool:
        """Look at a HEADERS frame: at its block when that is wanted and whole."""
        _, flags, stream, start, end = cut
        if stream == 0:
            raise ProtocolError("HEADERS on stream 0")
        wanted = self._wants_block is None or self._wants_block(stream)
        if flags & END_HEADERS:
            if not wanted:
                return True
            plain = not flags & _PADDED_OR_PRIORITY
            return self._on_block(
                stream, flags, buffer[start + HEADER_BYTES : end] if plain else frame_payload(buffer, cut)
            )
        block = frame_payload(buffer, cut) if wanted else b""
        self._open = _OpenBlock(stream, flags, [buffer[start:end]], bytearray(block), wanted)
        return False

    def _push_promise(self, buffer: bytes, cut: Cut) -> bool:
        _, flags, stream, start, end = cut
        if flags & END_HEADERS:
            return True
        self._open = _OpenBlock(stream, flags, [buffer[start:end]], bytearray(), read=False)
        return False

    def _continuation(self, buffer: bytes, cut: Cut) -> bool:
        _, flags, stream, start, end = cut
        unit = self._open
        if unit is None or stream != unit.stream:
            raise ProtocolError("a CONTINUATION frame without a header block")
        unit.raw.append(buffer[start:end])
        if unit.read:
            unit.block += frame_payload(buffer, cut)
        if sum(map(len, unit.raw)) > _MAX_BLOCK_BYTES:
            raise ProtocolError(f"a header block beyond {_MAX_BLOCK_BYTES} bytes")
        if flags & END_HEADERS:
            self._open = None
            mark = len(self._out)
            if not unit.read or self._on_block(unit.stream, unit.flags, bytes(unit.block)):
                self._out.insert(mark, b"".join(unit.raw))
        return False


def slice_of(buffer: bytes, start: int, end: int) -> bytes | memoryview:
    """Return a part of a buffer: a view when it is long, else a copy."""
    if end - start < _COPY_BYTES or end - start == len(buffer):
        return buffer[start:end]
    return memoryview(buffer)[start:end]
