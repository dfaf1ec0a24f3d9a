"""The splice's fast path, both ways: forward a chunk's leading frames of pass-through calls; count and track them."""

from collections.abc import Callable
from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.headers import FieldReader, Headers
from cri_proxy.relay.answers import Goaway
from cri_proxy.relay.direction import Parts, slice_of
from cri_proxy.relay.method_types import ENDLESS
from cri_proxy.relay.traffic import Passed, count_passed
from cri_proxy.relay.upstream import Upstream

_ENDLESS_PATHS: Final = frozenset(method.encode() for method in ENDLESS)
_DATA: Final = frames.DATA
_HEADERS: Final = frames.HEADERS
_END_STREAM: Final = frames.END_STREAM
_END_HEADERS: Final = frames.END_HEADERS
_PING: Final = frames.PING
_WINDOW_UPDATE: Final = frames.WINDOW_UPDATE
_CREDIT: Final = bytes((0, 0, 4, frames.WINDOW_UPDATE))  # how its frame begins
_HEADER_BYTES: Final = frames.HEADER_BYTES
CONTROL_BYTES: Final = 2 * _HEADER_BYTES + 4 + 8
"""The length of a credit and a PING."""
_MAX_STREAM: Final = (1 << 31) - 1  # above it the reserved bit is set
_FRAME_BYTES: Final = frames.DEFAULT_FRAME_BYTES

OnNew = Callable[[int, Headers, bool], None]
"""Called when a call of a method that is not known to pass begins; True = it is complete with its headers."""


# Nearly all traffic passes, and its cost is how much code runs for it: a process that wakes up for one call finds its
# caches cold. So both directions have a loop of their own here, which stops at the first frame that needs a look;
# ``Direction`` goes on from there, and would have done the same with the frames before.
class PassthroughCalls:
    """The pass-through calls of one pair of connections."""

    def __init__(
        self, upstream: Upstream, goaway: Goaway, reader: FieldReader, on_new: OnNew, passed: Passed | None
    ) -> None:
        """Read every header block of the client with ``reader``; count calls by path in ``passed``."""
        self.last_stream = 0  # the latest stream of the client
        self.streams: set[int] = set()  # calls that the runtime has not ended, endless ones left out
        self.replaceable: dict[int, str] = {}  # methods of those that may be answered in the runtime's place
        self.lent_bytes = 0  # of a credit of the client for the connection, that are not the runtime's
        self._upstream = upstream
        self._to_client = upstream.to_client.out
        self._to_runtime = upstream.to_runtime.out
        self._own = upstream.to_client
        self._goaway = goaway
        self._coming_bytes = 0  # of a DATA frame whose beginning went on to the client
        self._read = reader.read
        self._on_new = on_new
        self._passed: Passed = passed if passed is not None else {}
        self._paths: set[bytes] = set()

    def knows(self, stream: int, path: bytes) -> bool:
        """Count a call whose method is known to pass; False when it is not known."""
        if path not in self._paths:
            return False
        self._passed[path] += 1
        if path not in _ENDLESS_PATHS:
            self.streams.add(stream)
        return True

    def learn(self, stream: int, path: bytes) -> None:
        """Count a call whose method turned out to pass, and remember the method while the table has room."""
        count_passed(self._passed, path)
        if path in self._passed:
            self._paths.add(path)
        if path not in _ENDLESS_PATHS:
            self.streams.add(stream)

    def replace(self, stream: int, path: bytes, method: str) -> None:
        """Count a call that may be answered in the runtime's place."""
        count_passed(self._passed, path)
        self.streams.add(stream)
        # Those that a reset has ended; a reply takes out its own (``StandIns.keeps``).
        for ended in self.replaceable.keys() - self.streams:
            del self.replaceable[ended]
        self.replaceable[stream] = method

    def requests(self, data: bytes) -> bytes:
        """Send whole frames of pass-through calls on to the runtime and return the rest of the chunk.

        Raises ProtocolError once the frames before the malformed one are sent on.
        """
        upstream, unpack = self._upstream, frames.HEADER.unpack_from
        position, end = 0, len(data)
        while end - position >= _HEADER_BYTES:
            high, low, kind, flags, stream = unpack(data, position)
            length = high << 8 | low
            after = position + _HEADER_BYTES + length
            # Not whole, or larger than the default: ``Direction`` knows the size that the other side has allowed.
            if after > end or length > _FRAME_BYTES:
                break
            if kind == _DATA:
                # DATA that waits for the runtime's window must not be overtaken.
                if stream not in self.streams or upstream.waiting or length > upstream.window_bytes:
                    break
                upstream.window_bytes -= length
            # No other flag: padding, a priority, END_STREAM and CONTINUATION frames are left to ``Direction``.
            elif kind == _HEADERS and flags == _END_HEADERS and self.last_stream < stream <= _MAX_STREAM:
                try:
                    headers = self._read(data[position + _HEADER_BYTES : after])
                except frames.ProtocolError:
                    _send_on(self._to_runtime, data, position)
                    raise
                self.last_stream = stream
                if not self.knows(stream, headers.get(b":path", b"")):
                    # The headers first: a refusal resets their stream, and must stand behind them.
                    self._to_runtime.append(data[:after])
                    self._on_new(stream, headers, False)
                    return data[after:]
            elif not self._is_control(kind, stream):
                break
            position = after
        return _send_on(self._to_runtime, data, position)

    def replies(self, data: bytes) -> bytes:
        """Send frames of replies to pass-through calls on to the client and return the rest of the chunk."""
        streams, replaceable, unpack = self.streams, self.replaceable, frames.HEADER.unpack_from
        position, end = 0, len(data)
        if self._coming_bytes:
            data, position = self._go_on(data)
            end = len(data)
        while end - position >= _HEADER_BYTES:
            high, low, kind, flags, stream = unpack(data, position)
            length = high << 8 | low
            after = position + _HEADER_BYTES + length
            if after > end or length > _FRAME_BYTES:
                # DATA (0) without flags: nothing in the rest of it ends the call.
                if not kind | flags and length <= _FRAME_BYTES and stream in streams and self._own.is_open:
                    self._own.hold_back(True)
                    self._coming_bytes, position = after - end, end
                break
            # The end of a replaceable call may be UNIMPLEMENTED, which ``StandIns`` keeps.
            if stream in streams and stream not in replaceable:
                if kind == _DATA or (kind == _HEADERS and flags & _END_HEADERS):
                    if flags & _END_STREAM:
                        streams.discard(stream)
                elif kind != _WINDOW_UPDATE:
                    break
            elif stream or (kind != _PING and self._credit(kind, data, position) is None):
                break
            position = after
        return _send_on(self._to_client, data, position)

    # With the answer to a call they may as well go on; while a call takes its time, the client would wake up for them.
    def control(self, data: bytes) -> bytes:
        """Take a PING and a credit of the runtime that come alone (``upstream.py``); return the rest of the chunk."""
        upstream, position = self._upstream, 0
        while not self._coming_bytes and len(data) - position >= _HEADER_BYTES:
            high, low, kind, flags, stream = frames.HEADER.unpack_from(data, position)
            after = position + _HEADER_BYTES + (high << 8 | low)
            if stream or after > len(data):
                break
            if kind == _PING:
                goes_on = upstream.ping(data, (kind, flags, stream, position, after))
            elif (increment := self._credit(kind, data, position)) is not None:
                goes_on = not upstream.keep(increment)
            else:
                break
            if goes_on:
                self._to_client.append(data[position:after])
            position = after
        return data[position:]

    # A chunk of a long reply ends in the middle of a DATA frame. Nothing is to be seen in its rest, which goes on as it
    # comes; only frames of the relay itself have to wait for its end.
    def _go_on(self, data: bytes) -> tuple[bytes, int]:
        """Pass over the rest of a frame; return what is left of the chunk, and where in it the next frame begins."""
        position = min(self._coming_bytes, len(data))
        self._coming_bytes -= position
        if self._coming_bytes:
            return data, position
        if not self._own.has_delayed:
            self._own.hold_back(False)
            return data, position
        self._to_client.append(data[:position])
        self._own.hold_back(False)
        return data[position:], 0

    # gRPC for Go sends a PING and a credit with nearly every call, in both directions.
    def _is_control(self, kind: int, stream: int) -> bool:
        """Whether this is a PING or a credit of the client that goes on as it is."""
        if kind == _WINDOW_UPDATE:
            # Credit for a refused stream ends here, and a credit that pays what was lent goes on in part.
            return stream in self.streams if stream else not self.lent_bytes
        return kind == _PING and not self._goaway.is_asked  # asked, it may be the answer

    def _credit(self, kind: int, data: bytes, position: int) -> int | None:
        """Note a credit of the runtime for the connection and return it; None when it is not the client's alone."""
        upstream = self._upstream
        if kind != _WINDOW_UPDATE or upstream.owes or not data.startswith(_CREDIT, position):
            return None
        start = position + _HEADER_BYTES
        increment = int.from_bytes(data[start : start + 4], "big") & frames.MAX_WINDOW_BYTES
        upstream.window_bytes += increment
        return increment


def _send_on(out: Parts, data: bytes, position: int) -> bytes:
    """Send on the bytes before this position and return the rest."""
    if position == len(data):
        out.append(data)
        return b""
    if position:
        out.append(slice_of(data, 0, position))
        return data[position:]
    return data
