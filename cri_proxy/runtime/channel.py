"""The proxy's own way to a runtime: bytes in, bytes out. Implemented over HTTP/2 and in process."""

from collections.abc import AsyncIterator
from typing import Protocol


class RuntimeChannel(Protocol):
    """A connection of the proxy's own to the runtime, re-made as needed."""

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """Call a method (full path) and give its reply message.

        Raises CallFailed when the runtime answers a status other than OK, RuntimeUnavailable when there is no
        connection, it broke, or time ran out: then nobody knows whether the call took effect.
        """

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        """Call a server-streaming method; ends when the runtime ends it. Raises as ``unary`` does."""

    async def close(self) -> None:
        """End all calls and the connection."""
