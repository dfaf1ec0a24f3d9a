"""Run calls through an interceptor without sockets: a relay as a runtime channel, for simulation, demo and tests."""

from collections.abc import AsyncIterator

from cri_proxy.errors import CallFailed
from cri_proxy.http2.status import UNKNOWN_OUTCOME, Code, Failed
from cri_proxy.relay.boundary import Boundary, OnError, new_call
from cri_proxy.relay.calls import Aborted, Interceptor, Interest, Outcome, Refuse, Replied, Rewrite
from cri_proxy.runtime.channel import RuntimeChannel


class InProcessRelay:
    """A ``RuntimeChannel`` that runs every call through an interceptor first, as the socket relays do."""

    def __init__(self, interceptor: Interceptor, runtime: RuntimeChannel, on_error: OnError) -> None:
        """Report exceptions that the interceptor lets out to ``on_error``."""
        self._boundary = Boundary(interceptor, on_error)
        self._runtime = runtime

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """Call through the interceptor. Raises as the runtime's channel does, and CallFailed for refusals."""
        match self._boundary.wants(method):
            case Interest.PASS:
                return await self._runtime.unary(method, message, timeout_seconds=timeout_seconds)
            case Interest.REFUSE:
                raise CallFailed(method, Code.UNIMPLEMENTED, f"{method} is not served")
            case Interest.STAND_IN:
                return await self._replaceable(method, message, timeout_seconds)
            case Interest.HOLD:
                return await self._held(method, message, timeout_seconds)

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        """Call the runtime; no stream is intercepted."""
        return self._runtime.stream(method, message)

    def losses(self) -> int:
        """See RuntimeChannel."""
        return self._runtime.losses()

    async def close(self) -> None:
        """Close nothing: the runtime's channel belongs to the caller."""

    async def _replaceable(self, method: str, message: bytes, timeout_seconds: float) -> bytes:
        try:
            return await self._runtime.unary(method, message, timeout_seconds=timeout_seconds)
        except CallFailed as error:
            reply = await self._boundary.stand_in(method) if error.code == Code.UNIMPLEMENTED else None
            if reply is None:
                raise
            return reply

    async def _held(self, method: str, message: bytes, timeout_seconds: float) -> bytes:
        call = new_call(method, message, timeout_seconds)
        verdict = await self._boundary.verdict(call)
        if isinstance(verdict, Refuse):
            raise CallFailed(method, verdict.code, verdict.message)
        sent = verdict.message if isinstance(verdict, Rewrite) else message
        # Until an answer says more, also where this call is cancelled: the runtime may have acted.
        outcome: Outcome = Aborted(sent=True)
        try:
            reply = await self._runtime.unary(method, sent, timeout_seconds=timeout_seconds)
            outcome = Replied(reply)
            return reply
        except CallFailed as error:
            if error.code not in UNKNOWN_OUTCOME:
                outcome = Failed(error.code, error.message)
            raise
        finally:
            self._boundary.outcome(call, outcome)
