"""The second relay, on grpc.aio with raw bytes: the reference for the splice, and the way out behind ``--relay grpc``.

Same constructor, same interception, same conversations in the tests. grpcio is imported here only, so that the
daemon does not load it unless asked to.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

# Read when grpcio is loaded. Else each restart of the runtime stands in our log, in a form that is not the log's.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
from grpc import aio

from cri_proxy.http2.message import MAX_MESSAGE_BYTES
from cri_proxy.relay.boundary import Boundary, OnError, new_call
from cri_proxy.relay.calls import Aborted, Interceptor, Interest, Outcome, Refuse, Replied, Rewrite
from cri_proxy.relay.grpcio_status import failure_of, true_status
from cri_proxy.relay.in_flight import Flight
from cri_proxy.relay.open_calls import Callers
from cri_proxy.relay.traffic import Traffic, count_passed
from cri_proxy.relay.unary_methods import ENDLESS, SERVER_STREAMS, UNARY
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import Published, claim, named_errors, private_umask, publish, refuse_passed, socket_path

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Context: TypeAlias = "aio.ServicerContext[bytes, bytes]"
# grpc-stubs demand serializers and request iterators that grpcio leaves optional, and do not know EOF.
_Channel: TypeAlias = Any
_UpstreamCall: TypeAlias = Any
_EOF: Final[object] = aio.EOF  # type: ignore[attr-defined]
_Metadata: TypeAlias = list[tuple[str, str | bytes]]

_MESSAGE_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    # containerd repeats a request's names in its errors, which may be long; grpcio's own bound is 8 to 16 KiB
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
)
_CHANNEL_OPTIONS: Final = (
    *_MESSAGE_OPTIONS,
    ("grpc.initial_reconnect_backoff_ms", 100),
    # grpcio takes this for how long an attempt to connect may take, too: on a busy node that is no matter of 100 ms
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
)
_SERVER_OPTIONS: Final = (*_MESSAGE_OPTIONS, ("grpc.so_reuseport", 0))

# What grpcio writes itself; everything else is the caller's and goes on.
_OWN_METADATA: Final = ("user-agent", "te", "content-type")

_NO_DEADLINE_SECONDS: Final = 1e9
"""For a call without a deadline ``time_remaining()`` gives None, or about 9.2e18 in older versions of grpcio."""

_ONE_REQUEST_SECONDS: Final = 0.01
"""How long a method of unknown shape may take to show that it has one request: a unary caller ends with it at once.

Sent together with its end, such a request cannot meet a runtime that has refused the call meanwhile: grpcio then
sometimes reports INTERNAL in the place of the runtime's own status.
"""

_LEAVING_SECONDS: Final = 3600.0  # after ``leave``, until ``stop`` says how long: grpcio's shortest word counts

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


class GrpcRelay:
    """Relays every call of one listening socket to one runtime socket."""

    def __init__(
        self,
        *,
        listen: str,
        runtime: str,
        interceptor: Interceptor,
        on_error: OnError | None = None,
        take_over: bool = False,
        traffic: Traffic | None = None,
    ) -> None:
        """Takes what ``SpliceRelay`` takes. Nothing is opened yet."""
        self._listen = socket_path(listen)
        self._runtime = socket_path(runtime)
        self._take_over = take_over
        self._on_error = on_error or (lambda error: None)
        self._boundary = Boundary(interceptor, self._on_error, traffic)
        self._server: aio.Server | None = None
        self._channel: _Channel | None = None
        self._published: Published | None = None
        self._leaving = Tasks(self._on_error)
        self._callers = Callers()
        self._flight = Flight()

    async def start(self) -> None:
        """Open the socket. Raises ConfigError when it cannot be had."""
        refuse_passed(self._listen)
        temporary = claim(self._listen, take_over=self._take_over)
        self._channel = aio.insecure_channel(f"unix:{self._runtime}", options=_CHANNEL_OPTIONS)
        self._server = aio.server(options=_SERVER_OPTIONS)
        runtime = _Runtime(self._channel, self._runtime)
        handlers = _Handlers(runtime, self._boundary, self._callers, self._flight, self._on_error)
        self._server.add_generic_rpc_handlers((handlers,))
        with named_errors(self._listen):
            try:
                with private_umask():
                    self._server.add_insecure_port(f"unix:{temporary}")
            except RuntimeError as error:  # grpcio's word for a bind that failed
                raise OSError(str(error)) from error
            await self._server.start()
            self._published = publish(temporary, self._listen, self._runtime)

    async def leave(self) -> None:
        """Take no new calls and ask clients to leave; calls go on.

        grpcio drops who has connected and is not accepted yet, and who calls in this very moment: so it is put off
        until there is a moment without.
        """
        if self._published is not None:
            self._published.withdraw()
        if self._server is None or self._leaving:
            return
        try:
            await self._callers.gather()
            self._leaving.start(self._server.stop(_LEAVING_SECONDS), name="leave")
            await asyncio.sleep(0)
        finally:
            self._callers.let_go()

    async def stop(self, grace_seconds: float, *, for_streams: bool = False) -> None:
        """Stop accepting, give calls this long to end, then cancel them.

        Streams that have no end of their own end with the last other call; ``for_streams``: they go on as long.
        """
        if self._published is not None:
            self._published.withdraw()
        if self._server is not None:
            self._leaving.start(self._server.stop(grace_seconds), name="stop")
            if not for_streams:
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace_seconds):
                        await self._flight.landed()
                self._flight.end()
        await self._leaving.join()
        if self._channel is not None:
            await self._channel.close()

    def socket_problem(self) -> str:
        """Why nobody new can find us, as a sentence; '' while the socket is in its place."""
        published = self._published
        if published is None or published.is_ours:
            return ""
        return f"the socket {published.path} was removed or replaced: restart the daemon"


@dataclass(frozen=True, slots=True)
class _Runtime:
    """Where calls go to, and the path of its socket."""

    channel: _Channel
    path: Path


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg] # generic in grpc-stubs only
    """Finds a handler for any method, known or not."""

    def __init__(
        self, runtime: _Runtime, boundary: Boundary, callers: Callers, flight: Flight, on_error: OnError
    ) -> None:
        self._runtime = runtime
        self._flight = flight
        self._boundary = boundary
        self._callers = callers
        self._pumps = Tasks(on_error)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401 - grpc-stubs' base says so
        """The handler for a call."""
        self._callers.called()
        method, held = handler_call_details.method, self._held
        match self._boundary.wants(method):
            case Interest.REFUSE:
                return _REFUSED
            case Interest.HOLD:
                unary = _Held(self._runtime.channel, self._boundary, method)
                return grpc.unary_unary_rpc_method_handler(held(unary.run))
        count_passed(self._boundary.passed, method.encode())
        if method in UNARY:
            return grpc.unary_unary_rpc_method_handler(held(_Unary(self._runtime.channel, method).run))
        stream = _Stream(self._runtime, method, self._pumps)
        if method in ENDLESS:
            return grpc.unary_stream_rpc_method_handler(self._flight.endless(stream.run_server_stream, _end))
        if method in SERVER_STREAMS:
            return grpc.unary_stream_rpc_method_handler(held(stream.run_server_stream))
        return grpc.stream_stream_rpc_method_handler(held(stream.run))

    def _held(self, answer: Callable[_P, Awaitable[_R]]) -> Callable[_P, Awaitable[_R]]:
        return self._flight.counted(self._callers.held(answer))


async def _end(message: bytes, context: _Context) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "the proxy ends: call again")


async def _refuse(requests: object, context: _Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown service or method")


# Made at once: the first handler of all loads a module of grpcio, which may be another version's by then.
_REFUSED: Final = grpc.stream_stream_rpc_method_handler(_refuse)


class _Unary:
    """One unary method, passed on unread."""

    def __init__(self, channel: _Channel, method: str) -> None:
        self._call = channel.unary_unary(method)

    async def run(self, message: bytes, context: _Context) -> bytes:
        """Pass one call on and end it as the runtime does."""
        try:
            return await self.call(message, context)
        except aio.AioRpcError as error:
            await _abort(context, error, error.code(), error.details() or "")
            raise

    async def call(self, message: bytes, context: _Context) -> bytes:
        """Pass one call on and give its reply, or raise its status."""
        call: _UpstreamCall = self._call(message, timeout=_timeout(context), metadata=_metadata(context))
        try:
            await _send_initial(call, context)
            reply: bytes = await call
            context.set_trailing_metadata(await call.trailing_metadata())
            return reply
        finally:
            call.cancel()


class _Held:
    """One unary method whose request an interceptor looks at."""

    def __init__(self, channel: _Channel, boundary: Boundary, method: str) -> None:
        self._unary = _Unary(channel, method)
        self._boundary = boundary
        self._method = method

    async def run(self, message: bytes, context: _Context) -> bytes:
        """Ask about one call, pass it on, and report what became of it, exactly once."""
        call = new_call(self._method, message)
        try:
            verdict = await self._boundary.verdict(call)
        except asyncio.CancelledError:
            self._boundary.outcome(call, Aborted(sent=False))
            raise
        if isinstance(verdict, Refuse):
            await context.abort(_CODES.get(verdict.code, grpc.StatusCode.UNKNOWN), verdict.message)
        outcome: Outcome = Aborted(sent=True)
        failure: aio.AioRpcError | None = None
        try:
            reply = await self._unary.call(verdict.message if isinstance(verdict, Rewrite) else message, context)
            outcome = Replied(reply)
        except aio.AioRpcError as error:
            failure, outcome = error, failure_of(error)
        finally:
            self._boundary.outcome(call, outcome)  # before the caller hears of it: it may try again at once
        if failure is not None:
            await _abort(context, failure, failure.code(), failure.details() or "")
            raise failure
        return reply


class _Stream:
    """One method whose shape we do not know, or a known stream: bytes both ways until both ends are done."""

    def __init__(self, runtime: _Runtime, method: str, pumps: Tasks) -> None:
        self._runtime = runtime
        self._method = method
        self._pumps = pumps

    async def run_server_stream(self, message: bytes, context: _Context) -> None:
        """Pass on one call with a single request."""
        start = self._runtime.channel.unary_stream(self._method)
        await self._replies(start(message, timeout=_timeout(context), metadata=_metadata(context)), context)

    async def run(self, requests: object, context: _Context) -> None:
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

    async def _replies(self, call: _UpstreamCall, context: _Context) -> None:
        try:
            await _send_initial(call, context)
            while (reply := await call.read()) is not _EOF:
                await context.write(reply)
            context.set_trailing_metadata(await call.trailing_metadata())
            code = await call.code()
            if code is not grpc.StatusCode.OK:
                await context.abort(*true_status(code, await call.details() or "", self._runtime.path))
        except aio.AioRpcError as error:
            await _abort(context, error, *true_status(error.code(), error.details() or "", self._runtime.path))
        finally:
            call.cancel()


class _Requests:
    """The caller's requests as they come, a few at a time."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[object] = asyncio.Queue(maxsize=2)
        self._first: object = _EOF
        self._count = 0
        self._at_end = asyncio.Event()

    async def read_all(self, read: Callable[[], Awaitable[object]]) -> None:
        """Take requests from the caller until there are no more, or until the call was ended over our head."""
        with suppress(aio.AbortError, aio.UsageError):
            while (request := await read()) is not _EOF:
                if self._count == 0:
                    self._first = request
                self._count += 1
                await self._waiting.put(request)
        self._at_end.set()
        await self._waiting.put(_EOF)

    async def only_one(self, seconds: float) -> bytes | None:
        """The request of a caller that has sent exactly one and no more within this time; else None."""
        try:
            async with asyncio.timeout(seconds):
                await self._at_end.wait()
        except TimeoutError:
            return None
        return self._first if self._count == 1 and isinstance(self._first, bytes) else None

    async def next(self) -> object:
        """The next request, or EOF."""
        return await self._waiting.get()


async def _pump(requests: _Requests, call: _UpstreamCall) -> None:
    """Carry requests to the runtime until the caller has no more. A call that ended meanwhile says so by its reply."""
    try:
        while (request := await requests.next()) is not _EOF:
            await call.write(request)
        await call.done_writing()
    except (grpc.RpcError, aio.UsageError, aio.InternalError, asyncio.InvalidStateError):
        return


async def _send_initial(call: _UpstreamCall, context: _Context) -> None:
    """Pass on the runtime's initial metadata as soon as it is there. A reply of trailers only has none."""
    initial = await call.initial_metadata()
    if initial or not call.done():
        await context.send_initial_metadata(initial)


async def _abort(context: _Context, error: aio.AioRpcError, code: grpc.StatusCode, details: str) -> None:
    """End the caller's call as the runtime ended ours; trailers carry grpc-status-details-bin."""
    await context.abort(code, details, tuple(error.trailing_metadata() or ()))  # type: ignore[arg-type]


def _timeout(context: _Context) -> float | None:
    remaining = context.time_remaining()
    return None if remaining is None or remaining > _NO_DEADLINE_SECONDS else max(remaining, 0.0)


def _metadata(context: _Context) -> _Metadata:
    pairs = context.invocation_metadata() or ()
    return [(key, value) for key, value in pairs if key not in _OWN_METADATA and not key.startswith("grpc-")]
