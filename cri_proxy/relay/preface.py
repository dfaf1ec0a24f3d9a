"""The connection prefaces of RFC 9113, 3.4: check the client's, and delay the relay's own frames for the runtime's.

The preface of a server is its SETTINGS, which must be its first frame. A client may have calls under way before they
arrive, and the relay then has frames of its own for it: credit for held DATA, refusals, GOAWAY. Strict clients end a
connection that begins with any of these. Towards the runtime no such delay is needed: the relay acts on nothing before
the client's preface and SETTINGS.
"""

from typing import Final

from cri_proxy.http2 import frames
from cri_proxy.relay.direction import Parts

_MAX_DELAYED_BYTES: Final = 4 << 20
"""Above what a correct client can cause: credit for the 65535 bytes of its first window is at most 1.7 MB."""

_PREFACE_BYTES: Final = len(frames.PREFACE) + frames.HEADER_BYTES


class OwnFrames:
    """The relay's own frames for one side, delayed until they may stand where they would be read.

    For the client that is after the runtime's SETTINGS, and for both sides never within a header block of several
    frames that is being passed on (RFC 9113, 4.3), nor within one frame that is passed on as it comes.
    """

    def __init__(self, out: Parts, *, is_greeted: bool = False) -> None:
        """Append to ``out``, where forwarded frames go, once that is allowed; ``is_greeted`` means from the start."""
        self.is_open = is_greeted
        self._is_greeted = is_greeted
        self._is_in_block = False
        self.out = out
        self._delayed: Parts = []
        self._delayed_bytes = 0

    def send(self, *own: bytes) -> None:
        """Append these frames, now or later."""
        if self.is_open:
            self.out.extend(own)
        else:
            self._delayed.extend(own)
            self._delayed_bytes += sum(map(len, own))

    def open(self) -> None:
        """Note that the runtime's SETTINGS go on; what was delayed follows them."""
        self._is_greeted = True
        self._send_delayed()

    @property
    def has_delayed(self) -> bool:
        """Whether frames are delayed."""
        return bool(self._delayed)

    def hold_back(self, is_in_block: bool) -> None:
        """Note that a header block of several frames begins, or that its last frame went on; likewise one frame."""
        self._is_in_block = is_in_block
        self._send_delayed()

    def check(self) -> None:
        """Raise ProtocolError for a client that causes ever more frames while the runtime is silent."""
        if not self.is_open and self._delayed_bytes > _MAX_DELAYED_BYTES:
            problem = f"answers of {self._delayed_bytes} bytes "
            problem += "within a frame or header block" if self._is_greeted else "before the SETTINGS"
            raise frames.ProtocolError(f"{problem} of the runtime")

    def _send_delayed(self) -> None:
        self.is_open = self._is_greeted and not self._is_in_block
        if self.is_open:
            self.out.extend(self._delayed)
            self._delayed.clear()
            self._delayed_bytes = 0


class ClientPreface:
    """The client's first bytes: the preface, then the header of a SETTINGS frame."""

    def __init__(self, to_runtime: Parts) -> None:
        """Send the preface on to ``to_runtime``."""
        self.is_over = False
        self._to_runtime = to_runtime
        self._received = b""

    def receive(self, data: bytes) -> bytes:
        """Send the preface on and return the bytes behind it. Raises ProtocolError."""
        begin = len(self._received)
        self._received += data[: _PREFACE_BYTES - begin]
        preface = data[: max(len(frames.PREFACE) - begin, 0)]
        if not frames.PREFACE[begin:].startswith(preface):
            raise frames.ProtocolError("the client does not begin with the HTTP/2 preface")
        if preface:
            self._to_runtime.append(preface)
        if len(self._received) == _PREFACE_BYTES:
            self.is_over = True
            _, _, kind, flags, _ = frames.HEADER.unpack_from(self._received, len(frames.PREFACE))
            if kind != frames.SETTINGS or flags & frames.ACK:
                raise frames.ProtocolError(f"the client's first frame has type {kind} and flags {flags}, not SETTINGS")
        # The header of SETTINGS was only looked at: ``Direction`` gets it with its frame.
        return data[len(preface) :]
