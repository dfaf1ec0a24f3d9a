"""Ask a client to leave without losing calls (RFC 9113, 6.8): GOAWAY and PING, its answer, the last GOAWAY.

1. A GOAWAY with the highest stream id asks for no new streams. A PING follows: once the client has answered it, every
   call that the client began before it read the GOAWAY has arrived.
2. A GOAWAY names the latest stream. gRPC sends a call beyond it again by itself, on another connection.
"""

from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut
from cri_proxy.relay.preface import OwnFrames

_MARK: Final = b"criproxy"
"""The payload of our PING. Answers to the runtime's own pings go on."""


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
            leave = _goaway(frames.MAX_WINDOW_BYTES, frames.NO_ERROR)
            self._to_client.send(leave, frames.frame(frames.PING, 0, 0, _MARK))

    def finish(self, last_stream: int, code: int) -> None:
        """Name the latest stream that went on; no stream beyond it was looked at."""
        self._to_client.send(_goaway(last_stream, code))

    def is_answer(self, buffer: bytes, cut: Cut) -> bool:
        """Whether this PING of the client answers ours."""
        _, flags, _, start, end = cut
        is_ours = self.is_asked and bool(flags & frames.ACK) and buffer[start + frames.HEADER_BYTES : end] == _MARK
        self.is_answered = self.is_answered or is_ours
        return is_ours


def _goaway(last_stream: int, code: int) -> bytes:
    body = last_stream.to_bytes(4, "big") + code.to_bytes(4, "big")
    return frames.frame(frames.GOAWAY, 0, 0, body)
