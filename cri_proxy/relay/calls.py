"""What a relay and an interceptor say to each other: the same for the splice, grpc.aio and the simulation.

A relay calls ``wants`` once per method name, ``on_request`` once per call of a wanted method with the whole
request message, and after a Forward or Rewrite verdict ``on_outcome`` exactly once. If the caller goes away
while ``on_request`` still waits, the relay cancels it and reports ``Aborted(sent=False)``.
"""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from cri_proxy.http2.status import Failed


class Interest(Enum):
    """What an interceptor wants to do with a method."""

    PASS = "pass"  # untouched bytes, never parsed
    HOLD = "hold"  # the request message is held until on_request answers; the reply is observed
    REFUSE = "refuse"  # never relayed: answered UNIMPLEMENTED


@dataclass(frozen=True, slots=True)
class Call:
    """One unary call: ``id`` is unique in the process, ``method`` the full path, ``message`` without gRPC prefix."""

    id: int
    method: str
    message: bytes


@dataclass(frozen=True, slots=True)
class Forward:
    """Send the request on as it came."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Send this message instead."""

    message: bytes


@dataclass(frozen=True, slots=True)
class Refuse:
    """Answer the caller with this gRPC status; nothing reaches the runtime.

    ``was_unseen``: nobody has looked at the call, so where the relay can it says so instead (RFC 9113, 8.7:
    REFUSED_STREAM). gRPC for Go, the kubelet's, then sends it again by itself, on a new connection; others report it.
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

    ``sent`` False: no request byte reached the runtime, so nothing happened there. True: nobody knows.
    """

    sent: bool


Outcome = Replied | Failed | Aborted


class Interceptor(Protocol):
    """Who looks at calls on their way through."""

    def wants(self, method: str) -> Interest:
        """What to do with this method (full path, '/package.Service/Method'). Must not raise."""

    async def on_request(self, call: Call) -> Verdict:
        """Look at a held request; the answer may take its time, other streams go on. Must not raise."""

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Learn what became of a call that was sent on. Never waits. Must not raise."""
