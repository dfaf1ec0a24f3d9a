"""Forward calls of the relay on grpcio with metadata, deadline, status: unary, held (asks the interceptor), streams."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn, TypeAlias

import grpc
from grpc import aio

from cri_proxy.http2.status import UNKNOWN_OUTCOME, Failed
from cri_proxy.relay.boundary import Boundary, new_call
from cri_proxy.relay.calls import Aborted, Outcome, Refuse, Replied, Rewrite
from cri_proxy.relay.request_quota import RequestQuota
from cri_proxy.tasks import Tasks

Context: TypeAlias = "aio.ServicerContext[bytes, bytes]"
# grpc-stubs demand serializers and request iterators that grpcio leaves optional, and lack EOF.
Channel: TypeAlias = Any
_UpstreamCall: TypeAlias = Any
_EOF: Final[object] = aio.EOF  # type: ignore[attr-defined]
StandIn: TypeAlias = Callable[[], Awaitable[bytes | None]]
_Metadata: TypeAlias = list[tuple[str, str | bytes]]

# grpcio writes these itself; all other metadata is the caller's and goes on.
_OWN_METADATA: Final = ("user-agent", "te", "content-type")

_NO_DEADLINE_SECONDS: Final = 1e9
"""For a call without a deadline ``time_remaining()`` gives None, or about 9.2e18 in older versions of grpcio."""

_ONE_REQUEST_SECONDS: Final = 0.01
"""How long a method of unknown shape may take to show that it has one request: a unary caller ends with it at once.

Sent together with its end, such a request cannot meet a runtime that has refused the call meanwhile: grpcio then
sometimes reports INTERNAL in the place of the runtime's own status.
"""

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


@dataclass(frozen=True, slots=True)
class Runtime:
    """The channel to the runtime, and the path of its socket."""

    channel: Channel
    path: Path


@dataclass(frozen=True, slots=True)
class _Status:
    """The status of a failed call; trailers carry grpc-status-details-bin."""

    code: grpc.StatusCode
    details: str
    trailers: tuple[Any, ...]

    @classmethod
    def of(cls, error: aio.AioRpcError) -> "_Status":
        return cls(error.code(), error.details() or "", tuple(error.trailing_metadata() or ()))

    async def abort(self, context: Context) -> NoReturn:
        """End the caller's call with it."""
        await context.abort(self.code, self.details, self.trailers)


class UnaryCall:
    """Pass the calls of one unary method on, unread; ``stand_in`` may answer one that the runtime does not know."""

    def __init__(self, channel: Channel, method: str, stand_in: StandIn | None = None) -> None:
        self._call = channel.unary_unary(method)
        self._stand_in = stand_in

    async def run(self, message: bytes, context: Context) -> bytes:
        """Pass one call on and end it with the runtime's status."""
        try:
            return await self.call(message, context)
        except aio.AioRpcError as error:
            failed = _Status.of(error)
        reply: bytes | None = None
        if self._stand_in is not None and failed.code is grpc.StatusCode.UNIMPLEMENTED:
            reply = await self._stand_in()
        if reply is None:
            await failed.abort(context)
        return reply

    async def call(self, message: bytes, context: Context) -> bytes:
        """Pass one call on and return its reply, or raise its status."""
        call: _UpstreamCall = self._call(message, timeout=_timeout(context), metadata=_metadata(context))
        try:
            await _send_initial(call, context)
            reply: bytes = await call
            context.set_trailing_metadata(await call.trailing_metadata())
            return reply
        finally:
            call.cancel()  # the caller may have left; nothing for a call that has ended


class HeldUnaryCall:
    """Pass the calls of one intercepted unary method on."""

    def __init__(self, channel: Channel, boundary: Boundary, quota: RequestQuota, method: str) -> None:
        self._unary = UnaryCall(channel, method)
        self._boundary = boundary
        self._quota = quota
        self._method = method

    async def run(self, message: bytes, context: Context) -> bytes:
        """Hold the call as the quota allows; see ``_ask``."""
        if not self._quota.has_room(1, len(message)):
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, self._quota.problem)
        self._quota.add(1, len(message))
        try:
            return await self._ask(message, context)
        finally:
            self._quota.add(-1, -len(message))

    async def _ask(self, message: bytes, context: Context) -> bytes:
        """Ask the interceptor, pass the call on, and report its outcome exactly once."""
        call = new_call(self._method, message, _timeout(context))
        verdict = await self._boundary.verdict(call)
        if isinstance(verdict, Refuse):
            await context.abort(_CODES.get(verdict.code, grpc.StatusCode.UNKNOWN), verdict.message)
        outcome: Outcome = Aborted(sent=True)
        failed: _Status | None = None  # not the error, which holds this frame: all of it would wait for the collector
        try:
            reply = await self._unary.call(verdict.message if isinstance(verdict, Rewrite) else message, context)
            outcome = Replied(reply)
        except aio.AioRpcError as error:
            failed, outcome = _Status.of(error), failure_of(error)
        finally:
            self._boundary.outcome(call, outcome)  # before the caller gets it: it may retry at once
        if failed is not None:
            await failed.abort(context)
        return reply


class StreamCall:
    """Pass the calls of a stream, or of a method of unknown shape, on: bytes both ways until both ends are done."""

    def __init__(self, runtime: Runtime, method: str, pumps: Tasks) -> None:
        self._runtime = runtime
        self._method = method
        self._pumps = pumps

    async def run_server_stream(self, message: bytes, context: Context) -> None:
        """Pass on one call with a single request."""
        start = self._runtime.channel.unary_stream(self._method)
        await self._replies(start(message, timeout=_timeout(context), metadata=_metadata(context)), context)

    async def run(self, requests: object, context: Context) -> None:
        """Pass on one call with any number of requests."""
        incoming = _Requests()
        reader = self._pumps.start(incoming.read_all(context.read), name=f"requests of {self._method}")
        try:
            message = await incoming.only_one(_ONE_REQUEST_SECONDS)
            if message is not None:
                await self.run_server_stream(message, context)
                return
            start = self._runtime.channel.stream_stream(self._method)
            call: _UpstreamCall = start(timeout=_timeout(context), metadata=_metadata(context))
            pump = self._pumps.start(_pump(incoming, call), name=f"requests of {self._method}")
            try:
                await self._replies(call, context)
            finally:
                pump.cancel()
        finally:
            reader.cancel()

    async def _replies(self, call: _UpstreamCall, context: Context) -> None:
        try:
            await _send_initial(call, context)
            while (reply := await call.read()) is not _EOF:
                await context.write(reply)
            context.set_trailing_metadata(await call.trailing_metadata())
            code = await call.code()
            if code is not grpc.StatusCode.OK:
                await context.abort(*true_status(code, await call.details() or "", self._runtime.path))
        except aio.AioRpcError as error:
            status = _Status.of(error)
            code, details = true_status(status.code, status.details, self._runtime.path)
            await replace(status, code=code, details=details).abort(context)
        finally:
            call.cancel()


class _Requests:
    """The caller's requests, read a few ahead."""

    def __init__(self) -> None:
        # Bounded, so that a runtime that reads slowly slows its caller.
        self.waiting: asyncio.Queue[object] = asyncio.Queue(maxsize=2)  # ends with EOF
        self._first: object = _EOF
        self._count = 0
        self._at_end = asyncio.Event()

    async def read_all(self, read: Callable[[], Awaitable[object]]) -> None:
        """Read requests from the caller until the last one, or until the call was ended."""
        with suppress(aio.AbortError, aio.UsageError):
            while (request := await read()) is not _EOF:
                if self._count == 0:
                    self._first = request
                self._count += 1
                await self.waiting.put(request)
        self._at_end.set()
        await self.waiting.put(_EOF)

    async def only_one(self, seconds: float) -> bytes | None:
        """Return the request of a caller that sends exactly one within this time; else None."""
        try:
            async with asyncio.timeout(seconds):
                await self._at_end.wait()
        except TimeoutError:
            return None
        return self._first if self._count == 1 and isinstance(self._first, bytes) else None


async def _pump(requests: _Requests, call: _UpstreamCall) -> None:
    """Carry requests to the runtime until the last one; a call that ended meanwhile shows it by its reply."""
    try:
        while (request := await requests.waiting.get()) is not _EOF:
            await call.write(request)
        await call.done_writing()
    except (grpc.RpcError, aio.UsageError, aio.InternalError, asyncio.InvalidStateError):
        return


async def _send_initial(call: _UpstreamCall, context: Context) -> None:
    """Pass the runtime's initial metadata on as soon as it arrives; a trailers-only reply has none."""
    initial = await call.initial_metadata()
    if initial or not call.done():
        await context.send_initial_metadata(initial)


def _timeout(context: Context) -> float | None:
    remaining = context.time_remaining()
    return None if remaining is None or remaining > _NO_DEADLINE_SECONDS else max(remaining, 0.0)


def _metadata(context: Context) -> _Metadata:
    pairs = context.invocation_metadata() or ()
    return [(key, value) for key, value in pairs if key not in _OWN_METADATA and not key.startswith("grpc-")]


# The details of a failed write in grpcio's asyncio calls, before the core knows why (grpc/aio/_call.py).
LOST_WRITE: Final = "Internal error from Core"

# In the details of the status that grpcio's core makes up for a reply whose trailers are longer than its bound.
TOO_LONG: Final = "received metadata size exceeds"


def true_status(code: grpc.StatusCode, details: str, runtime: Path) -> tuple[grpc.StatusCode, str]:
    """Return the status and message for the caller; ``runtime`` is the socket that was called."""
    # A request that could not be written met a connection that broke, for which the core has UNAVAILABLE. Or the
    # runtime ended the call just then, with a status that grpcio has lost.
    if code is grpc.StatusCode.INTERNAL and details == LOST_WRITE:
        return grpc.StatusCode.UNAVAILABLE, f"the runtime at {runtime} went away, or ended the call, during a request"
    return code, details


def failure_of(error: aio.AioRpcError) -> Outcome:
    """Return the outcome of a failed call; unknown where grpcio may have made the status up itself."""
    code = error.code().value[0]
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED.value[0] and TOO_LONG in (error.details() or ""):
        return Aborted(sent=True)
    if code in UNKNOWN_OUTCOME:
        never_connected = "failed to connect" in (error.details() or "")
        return Aborted(sent=not never_connected)
    return Failed(code, error.details() or "")
