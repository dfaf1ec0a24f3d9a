"""The interface for the proxy's own calls to a runtime, as bytes; implemented over HTTP/2 and in process.

``ask`` calls a method of CRI by its request message.
"""

from collections.abc import AsyncIterator, Callable
from typing import Final, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from cri_proxy.errors import UnreadableReply
from cri_proxy.http2.status import Code

T = TypeVar("T")

SERVICE: Final = "/runtime.v1.RuntimeService/"


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


async def ask(channel: RuntimeChannel, request: Message, read: Callable[[bytes], T], *, timeout_seconds: float) -> T:
    """Return what ``read`` makes of the runtime's answer to this request. Raises as ``unary`` does.

    Raises UnreadableReply where ``read`` raises DecodeError.
    """
    method = SERVICE + request.DESCRIPTOR.name.removesuffix("Request")
    answer = await channel.unary(method, request.SerializeToString(), timeout_seconds=timeout_seconds)
    try:
        return read(answer)
    except DecodeError as error:
        raise UnreadableReply(method, Code.INTERNAL, f"the runtime's answer cannot be read: {error}") from error
