"""The interface for the proxy's own calls to a runtime, as bytes; implemented over HTTP/2 and in process."""

from collections.abc import AsyncIterator
from typing import Protocol


class RuntimeChannel(Protocol):
    """The proxy's own connection to the runtime, opened again as needed."""

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """Call a method (full path) and return its reply message.

        Raises CallFailed when the runtime answers a status other than OK, RuntimeUnavailable when there is no
        connection, it broke, or time ran out: then it is unknown whether the call took effect.
        """

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        """Call a server-streaming method; ends when the runtime ends it. Raises as ``unary`` does."""

    def losses(self) -> int:
        """Return how many connections have been lost: one more than before, and the runtime may have been restarted."""
        return 0

    async def close(self) -> None:
        """End all calls and the connection."""
