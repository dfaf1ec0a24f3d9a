"""One direction of a splice, without I/O: forward frames; callbacks see some, and header blocks, and may drop them.

Untouched frames are gathered into runs and sent as slices of the received buffer. A header block with CONTINUATION
frames is sent on frame by frame, as it comes. No other frame may stand between these (RFC 9113, 4.3), so our own are
held back meanwhile (``preface.py``).
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Final

from cri_proxy.http2.frames import (
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    HEADER_BYTES,
    HEADERS,
    MAX_BLOCK_BYTES,
    PADDED,
    PUSH_PROMISE,
    Cut,
    FrameCutter,
    OpenBlock,
    ProtocolError,
)
from cri_proxy.http2.frames import payload as frame_payload

_PADDED_OR_PRIORITY: Final = PADDED | HAS_PRIORITY
_COPY_BYTES: Final = 8192  # below this a copy costs less than a view

Parts = list[bytes | memoryview]
"""Bytes to be sent, in order. Long runs are views of the received buffers, not copies."""

OnFrame = Callable[[bytes, Cut], bool]
"""Look at a frame: True sends it on, False drops it. May append our frames to either side."""


class Treatment(Enum):
    """The treatment of a header block."""

    FORWARD = "forward"  # sent on unread
    READ = "read"  # sent on, and read as it passes
    DROP = "drop"


@dataclass(frozen=True, slots=True)
class OnBlock:
    """Look at header blocks, which come in one frame or in many."""

    begin: Callable[[bytes, Cut], Treatment]
    """A block begins with this HEADERS frame."""
    part: Callable[[bytes], None]
    """The next part of a block that is read."""
    end: Callable[[int, int, Treatment], None]
    """The block of this stream and these flags is whole; not called for one that is dropped."""


@dataclass(eq=False)
class Direction:
    """Cut frames, look at them, and send them on, in order: to ``out``.

    ``looks`` are for the frame types that it holds. ``hold_back`` is called with True before a block of several frames
    is sent on, with False after it.
    """

    _out: Parts
    _looks: dict[int, OnFrame]
    _on_block: OnBlock
    _hold_back: Callable[[bool], None]
    max_block_bytes: int | None = MAX_BLOCK_BYTES

    def __post_init__(self) -> None:
        self.cutter = FrameCutter()
        self.is_clear = True  # the next byte begins a frame, other than CONTINUATION
        self._open: OpenBlock | None = None
        self._treatment = Treatment.FORWARD  # of that block
        own = {HEADERS: self._headers, PUSH_PROMISE: self._push_promise, CONTINUATION: self._continuation}
        self._on_frame: dict[int, OnFrame] = {**own, **self._looks}

    def receive(self, data: bytes) -> None:
        """Receive a chunk. Raises ProtocolError once everything before the malformed frame is in ``out``."""
        for buffer, cuts in self.cutter.cut(data):
            self._pass(buffer, cuts)
        self.is_clear = self._open is None and not self.cutter.kept_bytes
        if self.cutter.problem:
            raise ProtocolError(self.cutter.problem)

    def sends_last_block(self, stream: int) -> bool:
        """Whether a block of this stream is being sent on that will end it."""
        block = self._open
        if block is None or block.stream != stream or self._treatment is Treatment.DROP:
            return False
        return bool(block.flags & END_STREAM)

    def _pass(self, buffer: bytes, cuts: list[Cut]) -> None:
        out = self._out
        look = self._on_frame.get
        start = end = cuts[0][3] if cuts else 0  # the run: buffer[start:end] goes on but is not yet in out
        try:
            for cut in cuts:
                on_frame = look(cut[0])
                # Before the next line, since unknown types pass anywhere but in a header block (RFC 9113, 5.5).
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
            # Also where a look raises: the frames before the malformed one have been counted and must go on.
            if start != end:
                out.append(slice_of(buffer, start, end))

    def _headers(self, buffer: bytes, cut: Cut) -> bool:
        _, flags, stream, start, end = cut
        if stream == 0:
            raise ProtocolError("HEADERS on stream 0")
        is_whole = bool(flags & END_HEADERS)
        # Before ``begin``, which may send frames of our own: a refusal, for trailers of a held call.
        if not is_whole:
            self._hold_back(True)
        treatment = self._on_block.begin(buffer, cut)
        if treatment is Treatment.READ:
            plain = not flags & _PADDED_OR_PRIORITY
            self._on_block.part(buffer[start + HEADER_BYTES : end] if plain else frame_payload(buffer, cut))
        if not is_whole:
            self._begin(OpenBlock(stream, flags, self.max_block_bytes), treatment)
        elif treatment is not Treatment.DROP:
            self._on_block.end(stream, flags, treatment)
        return treatment is not Treatment.DROP

    def _push_promise(self, buffer: bytes, cut: Cut) -> bool:
        if not cut[1] & END_HEADERS:
            self._hold_back(True)
            # No flags: 0x1 is not END_STREAM in a PUSH_PROMISE (RFC 9113, 6.6).
            self._begin(OpenBlock(cut[2], 0, self.max_block_bytes), Treatment.FORWARD)
        return True

    def _begin(self, block: OpenBlock, treatment: Treatment) -> None:
        self._open, self._treatment = block, treatment
        # Nothing of this block goes on, so our frames cannot interrupt it.
        if treatment is Treatment.DROP:
            self._hold_back(False)

    def _continuation(self, buffer: bytes, cut: Cut) -> bool:
        _, flags, stream, start, end = cut
        block, treatment = self._open, self._treatment
        if block is None or stream != block.stream:
            raise ProtocolError("a CONTINUATION frame without a header block")
        block.go_on(end - start - HEADER_BYTES)
        if treatment is Treatment.READ:
            self._on_block.part(buffer[start + HEADER_BYTES : end])
        if flags & END_HEADERS:
            self._open = None
            if treatment is not Treatment.DROP:
                self._hold_back(False)
                self._on_block.end(stream, block.flags, treatment)
        return treatment is not Treatment.DROP


def slice_of(buffer: bytes, start: int, end: int) -> bytes | memoryview:
    """Return a part of a buffer: a view when it is long, else a copy."""
    if end - start < _COPY_BYTES or end - start == len(buffer):
        return buffer[start:end]
    return memoryview(buffer)[start:end]
