"""How a client is asked to leave its connection: twice, because its calls may be on their way (RFC 9113, 6.8).

First a GOAWAY that gives up nothing: open no more streams here. A PING follows it, and whoever has answered that has
read the first; whatever it had begun before is here by then. Last a GOAWAY that names the latest stream: nobody has
looked at one beyond it, so gRPC sends such a call again by itself, elsewhere.
"""

from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.http2.frames import Cut
from cri_proxy.relay.direction import Parts

_MARK: Final = b"criproxy"
"""What our PING carries: its answer is ours to read, those to the runtime's own go on."""


class Goaway:
    """What one client has been told, and has answered."""

    def __init__(self, to_client: Parts) -> None:
        """``to_client`` takes what is to be said."""
        self._to_client = to_client
        self._greeted = False
        self._asked = False
        self._told = False
        self.heard = False  # the client has read that it shall leave

    def greeted(self) -> None:
        """The runtime's SETTINGS have gone on. A server's first frame is that (RFC 9113, 3.4): ours waited."""
        self._greeted = True
        self._tell()

    def ask(self) -> None:
        """Ask it to open no more streams here, once."""
        self._asked = True
        self._tell()

    def finish(self, last_stream: int) -> None:
        """Say that this is the end, and which stream was the latest that went on."""
        if self._greeted:
            self._to_client.append(_goaway(last_stream))

    def is_answer(self, buffer: bytes, cut: Cut) -> bool:
        """Whether this PING of the client answers ours."""
        _, flags, _, start, end = cut
        is_ours = self._told and bool(flags & frames.ACK) and buffer[start + frames.HEADER_BYTES : end] == _MARK
        self.heard = self.heard or is_ours
        return is_ours

    def _tell(self) -> None:
        if self._asked and self._greeted and not self._told:
            self._told = True
            self._to_client += [_goaway(frames.MAX_WINDOW_BYTES), frames.frame(frames.PING, 0, 0, _MARK)]


def _goaway(last_stream: int) -> bytes:
    body = last_stream.to_bytes(4, "big") + frames.NO_ERROR.to_bytes(4, "big")
    return frames.frame(frames.GOAWAY, 0, 0, body)
