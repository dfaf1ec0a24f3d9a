"""The second relay, on grpc.aio with raw bytes: the reference for the splice, and the way out behind ``--relay grpc``.

Same constructor, same interception, same conversations in the tests. grpcio is imported here only, so that the
daemon does not load it unless asked to.
"""

import asyncio
import os
from contextlib import suppress
from typing import Any, Final

# Read when grpcio is loaded. Else each restart of the runtime stands in our log, in a form that is not the log's.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
from grpc import aio

from cri_proxy.http2.message import MAX_MESSAGE_BYTES
from cri_proxy.relay.boundary import Boundary, OnError
from cri_proxy.relay.calls import Interceptor, Interest
from cri_proxy.relay.grpcio.calls import Channel, Context, HeldUnaryCall, Runtime, StreamCall, UnaryCall
from cri_proxy.relay.grpcio.in_flight import InFlight
from cri_proxy.relay.traffic import Traffic, count_passed
from cri_proxy.relay.unary_methods import ENDLESS, SERVER_STREAMS, UNARY
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import Published, claim, named_errors, private_umask, publish, refuse_passed, socket_path

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

_LEAVING_SECONDS: Final = 3600.0  # after ``leave``, until ``stop`` says how long: grpcio's shortest word counts


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
        self._channel: Channel | None = None
        self._published: Published | None = None
        self._leaving = Tasks(self._on_error)
        self._in_flight = InFlight()

    async def start(self) -> None:
        """Open the socket. Raises ConfigError when it cannot be had."""
        refuse_passed(self._listen)
        temporary = claim(self._listen, take_over=self._take_over)
        self._channel = aio.insecure_channel(f"unix:{self._runtime}", options=_CHANNEL_OPTIONS)
        self._server = aio.server(options=_SERVER_OPTIONS)
        runtime = Runtime(self._channel, self._runtime)
        handlers = _MethodHandlers(runtime, self._boundary, self._in_flight, self._on_error)
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
            await self._in_flight.gather()
            self._leaving.start(self._server.stop(_LEAVING_SECONDS), name="leave")
            await asyncio.sleep(0)
        finally:
            self._in_flight.release()

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
                        await self._in_flight.ended()
                self._in_flight.end_endless()
        await self._leaving.join()
        if self._channel is not None:
            await self._channel.close()

    def socket_problem(self) -> str:
        """Why nobody new can find us, as a sentence; '' while the socket is in its place."""
        published = self._published
        if published is None or published.is_ours:
            return ""
        return f"the socket {published.path} was removed or replaced: restart the daemon"


class _MethodHandlers(grpc.GenericRpcHandler):  # type: ignore[type-arg] # generic in grpc-stubs only
    """Finds a handler for any method, known or not."""

    def __init__(self, runtime: Runtime, boundary: Boundary, in_flight: InFlight, on_error: OnError) -> None:
        self._runtime = runtime
        self._boundary = boundary
        self._in_flight = in_flight
        self._pumps = Tasks(on_error)

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401 - grpc-stubs' base says so
        """The handler for a call."""
        self._in_flight.arrived()
        method, counted = handler_call_details.method, self._in_flight.counted
        match self._boundary.wants(method):
            case Interest.REFUSE:
                return _REFUSED
            case Interest.HOLD:
                unary = HeldUnaryCall(self._runtime.channel, self._boundary, method)
                return grpc.unary_unary_rpc_method_handler(counted(unary.run))
        count_passed(self._boundary.passed, method.encode())
        if method in UNARY:
            return grpc.unary_unary_rpc_method_handler(counted(UnaryCall(self._runtime.channel, method).run))
        stream = StreamCall(self._runtime, method, self._pumps)
        if method in ENDLESS:
            return grpc.unary_stream_rpc_method_handler(self._in_flight.endless(stream.run_server_stream, _end))
        if method in SERVER_STREAMS:
            return grpc.unary_stream_rpc_method_handler(counted(stream.run_server_stream))
        return grpc.stream_stream_rpc_method_handler(counted(stream.run))


async def _end(message: bytes, context: Context) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE, "the proxy ends: call again")


async def _refuse(requests: object, context: Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown service or method")


# Made at once: the first handler of all loads a module of grpcio, which may be another version's by then.
_REFUSED: Final = grpc.stream_stream_rpc_method_handler(_refuse)
