"""End streams in the place of the runtime: answer the client, reset the stream at the runtime, drop what still comes.

The headers of the request have gone on, so the runtime has the stream; see ``splice.py``.
"""

from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.headers import NO_TABLE, write_literals
from cri_proxy.http2.status import encode_message
from cri_proxy.relay.preface import OwnFrames

_REMEMBERED_STREAMS: Final = 4096


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
        _remember(self.runtime_ignored, stream)
        self._to_runtime.send(frames.rst_stream(stream, frames.CANCEL))


def _remember(streams: dict[int, None], stream: int) -> None:
    """Remember a stream, dropping the oldest beyond the bound."""
    streams[stream] = None
    if len(streams) > _REMEMBERED_STREAMS:
        del streams[next(iter(streams))]
