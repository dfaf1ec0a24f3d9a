"""Ask a client to leave without losing calls (RFC 9113, 6.8): GOAWAY and PING, its answer, the last GOAWAY.

1. A GOAWAY with the highest stream id asks for no new streams. A PING follows: once the client has answered it, every
   call that the client began before it read the GOAWAY has arrived.
2. A GOAWAY names the latest stream. gRPC sends a call beyond it again by itself, on another connection.
"""

from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut
from cri_proxy.relay.direction import Parts

_MARK: Final = b"criproxy"
"""The payload of our PING. Answers to the runtime's own pings go on."""


class Goaway:
    """The two GOAWAYs of one client, and its answer to the first."""

    def __init__(self, to_client: Parts) -> None:
        """Append frames to ``to_client``."""
        self._to_client = to_client
        self._may_write = False
        self._is_asked = False
        self._is_sent = False
        self.is_answered = False  # the client has read the first GOAWAY

    def settings_sent(self) -> None:
        """Note that the runtime's SETTINGS went on: they must be the first frame of a server (RFC 9113, 3.4)."""
        self._may_write = True
        self._send_first()

    def ask(self) -> None:
        """Ask the client, once, to open no more streams here."""
        self._is_asked = True
        self._send_first()

    def finish(self, last_stream: int) -> None:
        """Name the latest stream that went on; no stream beyond it was looked at."""
        if self._may_write:
            self._to_client.append(_goaway(last_stream))

    def is_answer(self, buffer: bytes, cut: Cut) -> bool:
        """Whether this PING of the client answers ours."""
        _, flags, _, start, end = cut
        is_ours = self._is_sent and bool(flags & frames.ACK) and buffer[start + frames.HEADER_BYTES : end] == _MARK
        self.is_answered = self.is_answered or is_ours
        return is_ours

    def _send_first(self) -> None:
        if self._is_asked and self._may_write and not self._is_sent:
            self._is_sent = True
            self._to_client += [_goaway(frames.MAX_WINDOW_BYTES), frames.frame(frames.PING, 0, 0, _MARK)]


def _goaway(last_stream: int) -> bytes:
    body = last_stream.to_bytes(4, "big") + frames.NO_ERROR.to_bytes(4, "big")
    return frames.frame(frames.GOAWAY, 0, 0, body)
