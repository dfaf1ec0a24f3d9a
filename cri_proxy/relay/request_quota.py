"""Bound the requests that a relay holds for its interceptor: calls and bytes, of a connection and of the whole relay.

One message may have 16 MiB, and a client may begin many that it never ends.
"""

from dataclasses import dataclass
from typing import Final

from cri_proxy.http2 import frames

# A kubelet has at most a call for each pod in flight, of some 10 kB to 100 kB.
_RELAY_BYTES: Final = 64 << 20
MAX_RELAY_CALLS: Final = 10_000
_CONNECTION_BYTES: Final = 32 << 20  # half, so that no single client takes all; two messages of the largest size
MAX_CONNECTION_CALLS: Final = 2000

_MAX_REFUSED: Final = 1000
"""Calls refused one after the other, after which the client counts as one that does not listen."""


@dataclass(slots=True)
class RequestQuota:
    """The bytes that a relay may hold, and holds."""

    max_calls: int = MAX_RELAY_CALLS
    max_bytes: int = _RELAY_BYTES
    calls: int = 0
    held_bytes: int = 0

    def has_room(self, calls: int, size_bytes: int) -> bool:
        """Whether so many more calls and bytes may be held."""
        return self.calls + calls <= self.max_calls and self.held_bytes + size_bytes <= self.max_bytes

    def add(self, calls: int, size_bytes: int) -> None:
        """Count calls and bytes; negative ones are no longer held."""
        self.calls += calls
        self.held_bytes += size_bytes

    @property
    def problem(self) -> str:
        """The message for a call that finds no room."""
        return f"cri-proxy holds {self.calls} requests of {self.held_bytes} bytes; try again when they have ended"


class ConnectionQuota:
    """The bytes that a connection may hold within the relay's quota, and holds."""

    def __init__(self, relay: RequestQuota) -> None:
        """Count in ``relay`` too."""
        self._both = (RequestQuota(MAX_CONNECTION_CALLS, _CONNECTION_BYTES), relay)
        self._refused = 0

    def take(self, size_bytes: int, *, calls: int = 0) -> str:
        """Hold so much more and return ''; without room hold nothing and return why.

        Raises ProtocolError for a client that goes on without a call of its own coming through.
        """
        for quota in self._both:
            if not quota.has_room(calls, size_bytes):
                self._refused += 1
                if self._refused > _MAX_REFUSED:
                    raise frames.ProtocolError(f"{self._refused} calls without room for them", frames.ENHANCE_YOUR_CALM)
                return quota.problem
        for quota in self._both:
            quota.add(calls, size_bytes)
        return ""

    def give_back(self, size_bytes: int) -> None:
        """Count a call of this size no longer."""
        for quota in self._both:
            quota.add(-1, -size_bytes)

    def went_on(self) -> None:
        """Note that a call went on: refusals count from here."""
        self._refused = 0
