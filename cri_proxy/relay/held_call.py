"""The splice's state of one intercepted call: request buffer, phase, copy of the reply, events, outcome. No I/O."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from cri_proxy.http2.headers import Headers
from cri_proxy.http2.message import MAX_MESSAGE_BYTES, SLACK_BYTES, MessageError, pack, unpack_one
from cri_proxy.http2.status import UNKNOWN_OUTCOME, from_trailers
from cri_proxy.relay.calls import Aborted, Outcome, Replied
from cri_proxy.relay.upstream import Outgoing

MAX_BODY_BYTES: Final = MAX_MESSAGE_BYTES + SLACK_BYTES


@dataclass(frozen=True, slots=True)
class Held:
    """A request is complete and waits for ``resume`` or ``refuse``."""

    stream: int
    method: str
    message: bytes
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class HeldCallEnded:
    """A call that was Held has ended other than by ``refuse``."""

    stream: int
    outcome: Outcome


class Phase(Enum):
    """The progress of a held call."""

    COLLECTING = "collecting"  # its request is not complete
    ASKING = "asking"  # the interceptor has it
    SENDING = "sending"  # the runtime may have it


@dataclass(slots=True)
class HeldCall:
    """The state of one stream.

    ``headers`` are the request's, as ``headers.request_reader`` reads them. ``request`` is the body that the client
    sent, with the gRPC prefix; once it is complete, ``message`` stands for it unless it is compressed.
    ``counted_bytes`` are those of both in the quota.
    """

    stream: int
    method: str
    headers: Headers
    outgoing: Outgoing
    phase: Phase = Phase.COLLECTING
    request: bytearray = field(default_factory=bytearray)
    message: bytes = b""
    counted_bytes: int = 0
    client_open: bool = True
    reply_begun: bool = False
    _reply: bytearray = field(default_factory=bytearray)
    _reply_encoding: bytes = b""
    _reply_too_large: bool = False

    def complete(self) -> int:
        """Read the message of a complete request and return by how much the call has grown. Raises MessageError."""
        self.message = unpack_one(bytes(self.request), self.headers.get(b"grpc-encoding", b""))
        if self.request[0]:  # compressed: only the request itself gives the same bytes again
            return len(self.message)
        self.request = bytearray()
        return 0

    def send(self, message: bytes | None) -> None:
        """Hand the body out: the request unchanged (None), or this message."""
        self.phase = Phase.SENDING
        self.outgoing.body = bytes(self.request) or pack(self.message) if message is None else pack(message)
        self.outgoing.ready = True
        self.request, self.message = bytearray(), b""

    def see_reply_headers(self, headers: Headers | None) -> None:
        """Note the headers that begin the reply; None = they could not be read."""
        self.reply_begun = True
        if headers is not None:
            self._reply_encoding = headers.get(b"grpc-encoding", self._reply_encoding)

    def see_reply(self, body: bytes) -> None:
        """Collect a part of the reply as it passes; beyond the bound the reply is no longer collected."""
        if len(self._reply) + len(body) > MAX_BODY_BYTES:
            self._reply_too_large = True
            self._reply.clear()
        if not self._reply_too_large:
            self._reply += body

    def outcome(self, trailers: Headers | None) -> Outcome:
        """Return the outcome of a call whose reply ended with these trailers; None = they could not be read.

        Then a whole message is proof enough: servers of gRPC write that of a unary call once its handler has returned
        without an error, and with an error they write none. As unknown it would be asked for at the runtime, and the
        id of a container that is there would not be known before.
        """
        failure = None if trailers is None else from_trailers(trailers)
        if failure is not None:
            return self.broken() if failure.code in UNKNOWN_OUTCOME else failure
        try:
            return Replied(unpack_one(bytes(self._reply), self._reply_encoding))
        except MessageError:  # also beyond the bound: it said OK, but to what is unknown
            return self.broken()

    def broken(self) -> Outcome:
        """Return the outcome of a call that ended without an answer."""
        # The headers have gone on, but no handler of a unary method runs without the message.
        return Aborted(sent=self.outgoing.sent_bytes > 0)
