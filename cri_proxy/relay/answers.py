"""End streams in the place of the runtime: answer the client, reset the stream at the runtime, drop what still comes.

The headers of the request have gone on, so the runtime has the stream; see ``splice.py``.

And ask a client to leave without losing calls (RFC 9113, 6.8): GOAWAY and PING, its answer, the last GOAWAY.

1. A GOAWAY with the highest stream id asks for no new streams. A PING follows: once the client has answered it, every
   call that the client began before it read the GOAWAY has arrived.
2. A GOAWAY names the latest stream. gRPC sends a call beyond it again by itself, on another connection.
"""

from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.headers import NO_TABLE, write_literals
from cri_proxy.http2.status import encode_message
from cri_proxy.relay.preface import OwnFrames

# Bounds memory: a peer need never end its side of a stream that was refused.
_REMEMBERED_STREAMS: Final = 4096
_MARK: Final = b"criproxy"
"""The payload of our PING. Answers to the runtime's own pings go on."""


class Answers:
    """The streams of one connection that the splice has ended itself, and the frames that did so."""

    def __init__(self, to_client: OwnFrames, to_runtime: OwnFrames) -> None:
        """Answer by ``to_client``, reset by ``to_runtime``."""
        # Streams whose remaining frames are dropped, by the side that sends them. Oldest first.
        self.client_ignored: dict[int, None] = {}
        self.runtime_ignored: dict[int, None] = {}
        self._to_client = to_client
        self._to_runtime = to_runtime
        self._block_begins = b""

    def table_is_smaller(self) -> None:
        """Begin each answer with a table of size 0: the client announced less than the default (RFC 7541, 4.2)."""
        self._block_begins = NO_TABLE

    def ignore_client(self, stream: int) -> None:
        """Drop what the client still sends on this stream."""
        _remember(self.client_ignored, stream)

    def status(self, stream: int, code: int, message: str, *, client_open: bool, begun: bool = False) -> None:
        """Reset a stream towards the runtime and answer the client with trailers only.

        When the runtime has begun its reply before it had the request, these are the reply's trailers, which must
        not hold pseudo-header fields (RFC 9113, 8.1).
        """
        self._reset_at_runtime(stream)
        fields = [] if begun else [(b":status", b"200"), (b"content-type", b"application/grpc")]
        fields += [(b"grpc-status", b"%d" % code), (b"grpc-message", encode_message(message))]
        flags = frames.END_STREAM | frames.END_HEADERS
        self._to_client.send(frames.frame(frames.HEADERS, flags, stream, self._block_begins + write_literals(fields)))
        if client_open:  # the answer is complete, the request need not be (RFC 9113, 8.1)
            self.ignore_client(stream)
            self._to_client.send(frames.rst_stream(stream, frames.NO_ERROR))

    def message(self, stream: int, body: bytes) -> None:
        """Answer the client OK with this body, on a stream that the runtime has ended."""
        # No window is asked: the one reply of this kind, to RuntimeConfig, has a few bytes.
        begin = self._block_begins + write_literals([(b":status", b"200"), (b"content-type", b"application/grpc")])
        end = write_literals([(b"grpc-status", b"0")])
        self._to_client.send(
            frames.frame(frames.HEADERS, frames.END_HEADERS, stream, begin),
            *frames.data_frames(stream, body, end_stream=False),
            frames.frame(frames.HEADERS, frames.END_STREAM | frames.END_HEADERS, stream, end),
        )

    def kept(self, answer: bytes) -> None:
        """Send the runtime's own answer on, which was kept."""
        self._to_client.send(answer)

    def unseen(self, stream: int, *, client_open: bool) -> None:
        """Reset a stream towards both sides, for the client as not processed (RFC 9113, 8.7)."""
        self._reset_at_runtime(stream)
        if client_open:
            self.ignore_client(stream)
        self._to_client.send(frames.rst_stream(stream, frames.REFUSED_STREAM))

    def none(self, stream: int, *, client_open: bool) -> None:
        """Reset a stream towards the runtime whose own answer is already on its way to the client."""
        self._reset_at_runtime(stream)
        if client_open:
            self.ignore_client(stream)

    def _reset_at_runtime(self, stream: int) -> None:
        # The runtime sends on until it has read the reset.
        _remember(self.runtime_ignored, stream)
        self._to_runtime.send(frames.rst_stream(stream, frames.CANCEL))


def _remember(streams: dict[int, None], stream: int) -> None:
    """Remember a stream, dropping the oldest beyond the bound."""
    streams[stream] = None
    if len(streams) > _REMEMBERED_STREAMS:
        del streams[next(iter(streams))]


class Goaway:
    """The two GOAWAYs of one client, and its answer to the first."""

    def __init__(self, to_client: OwnFrames) -> None:
        """Send frames by ``to_client``."""
        self._to_client = to_client
        self.is_asked = False  # the client is to leave
        self.is_answered = False  # the client has read the first GOAWAY

    def ask(self) -> None:
        """Ask the client, once, to open no more streams here."""
        if not self.is_asked:
            self.is_asked = True
            # 2^31-1, the highest stream id there can be: calls that are on their way still count (RFC 9113, 6.8).
            leave = _goaway(frames.MAX_WINDOW_BYTES, frames.NO_ERROR)
            self._to_client.send(leave, frames.frame(frames.PING, 0, 0, _MARK))

    def finish(self, last_stream: int, code: int) -> None:
        """Name the latest stream that went on; no stream beyond it was looked at."""
        self._to_client.send(_goaway(last_stream, code))

    def is_answer(self, buffer: bytes, cut: frames.Cut) -> bool:
        """Whether this PING of the client answers ours."""
        _, flags, _, start, end = cut
        # Not asked yet: a PING with these bytes is the client's answer to one of the runtime's.
        is_ours = self.is_asked and bool(flags & frames.ACK) and buffer[start + frames.HEADER_BYTES : end] == _MARK
        self.is_answered = self.is_answered or is_ours
        return is_ours


def _goaway(last_stream: int, code: int) -> bytes:
    body = last_stream.to_bytes(4, "big") + code.to_bytes(4, "big")
    return frames.frame(frames.GOAWAY, 0, 0, body)
