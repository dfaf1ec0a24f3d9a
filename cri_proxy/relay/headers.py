"""Read the header blocks that a splice passes on: the client's, all of them, and those of replies to held calls.

The client's blocks change a compression table, so each is read to its end, also where its stream is refused. The
runtime's stand alone, since it was asked for a table of size 0: those of calls that pass are not read at all.
"""

from collections.abc import Callable, Container, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut, ProtocolError
from cri_proxy.http2.headers import FieldReader, Headers, decoded
from cri_proxy.http2.status import TRAILER_FIELDS, Code
from cri_proxy.relay.calls import MAX_REQUEST_HEADER_BYTES, Outcome
from cri_proxy.relay.direction import OnBlock, Treatment
from cri_proxy.relay.held_call import HeldCall
from cri_proxy.relay.passthrough import OnNew, PassthroughCalls

_REQUEST_FIELDS: Final = frozenset({b":path", b"grpc-encoding"})
_TIMEOUT: Final = b"grpc-timeout"
_TIMEOUT_CHARACTERS: Final = 9  # at most eight digits, and the unit
_UNIT_SECONDS: Final = {b"H": 3600, b"M": 60, b"S": 1, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
_REPLY_FIELDS: Final = TRAILER_FIELDS | {b"grpc-encoding"}

OnUnread = Callable[[int, str, Code, str, bool], None]
"""Refuse the request of this stream for this reason, with this status and these words; True = it is complete."""


def request_reader() -> FieldReader:
    """Return a reader for the fields of requests that the splice looks at."""
    return FieldReader(_REQUEST_FIELDS, encoded=frozenset({_TIMEOUT}))


def timeout_seconds_of(request: Headers) -> float | None:
    """Return how long the caller waits (grpc/doc/PROTOCOL-HTTP2.md, "Timeout"); None without a valid deadline."""
    with suppress(ProtocolError):
        value = decoded(request.get(_TIMEOUT, b""))
        if value[-1:] in _UNIT_SECONDS and value[:-1].isdigit() and len(value) <= _TIMEOUT_CHARACTERS:
            return int(value[:-1]) * _UNIT_SECONDS[value[-1:]]
    return None


@dataclass(eq=False)
class RequestBlocks:
    """The header blocks of the client. Calls of methods that are known to pass are left to ``passing``."""

    _reader: FieldReader
    _passing: PassthroughCalls
    _on_new: OnNew
    _on_trailers: Callable[[int], None]
    _on_unread: OnUnread
    _has_reserved_bit: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.on_block = OnBlock(self._begin, self._reader.feed, self._end)

    def _begin(self, buffer: bytes, cut: Cut) -> Treatment:
        _, flags, stream, start, _ = cut
        self._reader.begin(is_whole=bool(flags & frames.END_HEADERS))
        self._has_reserved_bit = frames.has_reserved_bit(buffer, start)
        if stream <= self._passing.last_stream:
            self._on_trailers(stream)
        return Treatment.READ

    def _end(self, stream: int, flags: int, treatment: Treatment) -> None:
        headers = self._reader.finish()
        ends = bool(flags & frames.END_STREAM)
        if stream <= self._passing.last_stream:
            if b":path" in headers:  # RFC 9113, 5.1.1 and 8.1: no new stream, and no trailers
                raise ProtocolError(f"a request on stream {stream} after one on stream {self._passing.last_stream}")
            return
        self._passing.last_stream = stream
        if self._has_reserved_bit:
            self._on_unread(
                stream, "stream_id", Code.INTERNAL, "the reserved bit of the stream identifier is set", ends
            )
        elif self._reader.block_bytes > MAX_REQUEST_HEADER_BYTES:
            problem = f"request headers of {self._reader.block_bytes} bytes, which may have {MAX_REQUEST_HEADER_BYTES}"
            self._on_unread(stream, "header_size", Code.RESOURCE_EXHAUSTED, problem, ends)
        elif not self._passing.knows(stream, headers.get(b":path", b"")):
            self._on_new(stream, headers, ends)


@dataclass(eq=False)
class ReplyBlocks:
    """The header blocks of the runtime: those of calls in ``held`` are read, those of ``ignored`` streams dropped.

    ``keeps`` is asked about those of calls that pass: one that it keeps does not go on.
    """

    _held: Mapping[int, HeldCall]
    _ignored: Container[int]
    _passing: PassthroughCalls
    _on_outcome: Callable[[HeldCall, Outcome], None]
    _keeps: Callable[[bytes, Cut], bool]
    _is_readable: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.on_block = OnBlock(self._begin, self._part, self._end)
        self._reader = FieldReader(_REPLY_FIELDS, table_bytes=0)

    def _begin(self, buffer: bytes, cut: Cut) -> Treatment:
        _, flags, stream, _, _ = cut
        call = self._held.get(stream)
        if call is None:
            is_dropped = stream in self._ignored or self._keeps(buffer, cut)
            return Treatment.DROP if is_dropped else Treatment.FORWARD
        if not flags & frames.END_STREAM:
            # From here on a refusal is the trailers of this reply; ``Answers.status`` writes it so.
            call.reply_begun = True
        self._is_readable = True
        self._reader.begin(is_whole=bool(flags & frames.END_HEADERS))
        return Treatment.READ

    def _part(self, part: bytes) -> None:
        if self._is_readable:
            try:
                self._reader.feed(part)
            except ProtocolError:  # the runtime ignores the table size we asked for; the client can still read it
                self._is_readable = False

    def _end(self, stream: int, flags: int, treatment: Treatment) -> None:
        if flags & frames.END_STREAM:
            # Only now, at the block's last frame: a stop that no longer waits for the call would cut the block.
            self._passing.streams.discard(stream)
        call = self._held.get(stream)
        if call is None or treatment is not Treatment.READ:
            return
        headers = self._headers() if self._is_readable else None
        if flags & frames.END_STREAM:
            self._on_outcome(call, call.outcome(headers))
        else:
            call.see_reply_headers(headers)

    def _headers(self) -> Headers | None:
        try:
            headers = self._reader.finish()
        except ProtocolError:
            return None
        return None if headers.get(b"grpc-status") == b"" else headers  # '' for two: which one the client takes is open
