"""Values that relays and interceptor exchange (calls, verdicts, outcomes), and ``Interceptor``, which relays call.

Each of the three relays calls ``wants`` once per method name, ``on_request`` once per call of a wanted method with the
whole request message, and after a Forward or Rewrite verdict ``on_outcome`` exactly once. When the caller leaves while
``on_request`` waits, the relay cancels it and reports ``Aborted(sent=False)``. ``stand_in`` is called for methods of
interest STAND_IN alone, which count as calls that pass.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

from cri_proxy.http2.status import Failed

MAX_REQUEST_HEADER_BYTES: Final = 1 << 20
"""A request with longer headers is refused: hundreds of times what the kubelet sends, with all its metadata."""


class Interest(Enum):
    """The part that an interceptor takes in the calls of a method."""

    PASS = "pass"  # untouched bytes, never parsed
    STAND_IN = "stand-in"  # untouched bytes too; where the runtime lacks the method, stand_in may answer
    HOLD = "hold"  # the request message is held until on_request answers; the reply is observed
    REFUSE = "refuse"  # never relayed: answered UNIMPLEMENTED


@dataclass(frozen=True, slots=True)
class Call:
    """One unary call: ``id`` is unique in the process, ``method`` the full path, ``message`` without gRPC prefix.

    ``timeout_seconds``: how long its caller waits from now on; None = no deadline.
    """

    id: int
    method: str
    message: bytes
    timeout_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Forward:
    """Send the request on unchanged."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Send this message instead."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the caller with this gRPC status; nothing reaches the runtime.

    ``was_unseen``: the call was not processed at all; a relay that can answers REFUSED_STREAM instead (RFC 9113,
    8.7). gRPC for Go, which the kubelet uses, then sends it again by itself on a new connection; others report it.
    """

    code: int
    message: str
    was_unseen: bool = False


Verdict = Forward | Rewrite | Refuse


@dataclass(frozen=True, slots=True)
class Replied:
    """The runtime answered OK with this message."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Aborted:
    """Cancelled, past its deadline, or a connection broke before the answer.

    ``sent`` False: no request byte reached the runtime, so nothing happened there. True: the outcome is unknown.
    """

    sent: bool


Outcome = Replied | Failed | Aborted


class Interceptor(Protocol):
    """Decide on intercepted calls."""

    def wants(self, method: str) -> Interest:
        """Return the treatment of this method (full path, '/package.Service/Method'). Must not raise."""

    async def on_request(self, call: Call) -> Verdict:
        """Decide on a held request. May take time: other streams go on. Must not raise."""

    async def stand_in(self, method: str) -> bytes | None:
        """Return the reply to a call that the runtime answered UNIMPLEMENTED; None = its own answer goes on."""

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Take note of the outcome of a call that was sent on. Never waits. Must not raise."""
