"""``GrpcRelay`` of ``--relay grpc``: start, leave and stop a grpc.aio server, choose the handler of each method.

The daemon imports this package, and so grpcio, for ``--relay grpc`` alone.
"""

import asyncio
import os
from contextlib import suppress
from functools import partial
from typing import Any, Final

# Read when grpcio is loaded. Otherwise grpcio logs each restart of the runtime, in a format of its own.
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")

import grpc
from grpc import aio

from cri_proxy.http2.frames import MAX_BLOCK_BYTES
from cri_proxy.http2.message import MAX_MESSAGE_BYTES
from cri_proxy.relay.boundary import Boundary, OnError, Relay
from cri_proxy.relay.calls import MAX_REQUEST_HEADER_BYTES, Interest
from cri_proxy.relay.grpcio.calls import Channel, Context, HeldUnaryCall, Runtime, StreamCall, UnaryCall
from cri_proxy.relay.grpcio.in_flight import InFlight
from cri_proxy.relay.method_types import ENDLESS, SERVER_STREAMS, UNARY
from cri_proxy.relay.request_quota import MAX_CONNECTION_CALLS, MAX_RELAY_CALLS, RequestQuota
from cri_proxy.relay.traffic import count_passed
from cri_proxy.tasks import Tasks
from cri_proxy.unix_socket import claim, named_errors, private_umask, publish, refuse_passed

_MESSAGE_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
)
_CHANNEL_OPTIONS: Final = (
    *_MESSAGE_OPTIONS,
    # containerd repeats a request's words in its errors, which may be long; grpcio's own bound is 8 to 16 KiB. Beyond
    # what gRPC for Go reads, so beyond what the kubelet would, only this call ends, with a status of grpcio's own.
    ("grpc.max_metadata_size", MAX_BLOCK_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_BLOCK_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    # grpcio also bounds one attempt to connect by this; on a busy node that can take far more than 100 ms
    ("grpc.min_reconnect_backoff_ms", 10_000),
    ("grpc.max_reconnect_backoff_ms", 500),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_http_proxy", 0),
    ("grpc.default_authority", "localhost"),
)
_SERVER_OPTIONS: Final = (
    *_MESSAGE_OPTIONS,
    ("grpc.so_reuseport", 0),
    # Without a bound a client may begin calls until memory ends; clients wait when this many are open.
    ("grpc.max_concurrent_streams", MAX_CONNECTION_CALLS),
    # grpcio's own bounds are 1000 and 3000. From the first on it drops calls by lot, of whichever client.
    ("grpc.server.max_pending_requests", MAX_RELAY_CALLS),
    ("grpc.server.max_pending_requests_hard_limit", MAX_RELAY_CALLS),
    ("grpc.max_metadata_size", MAX_REQUEST_HEADER_BYTES),
    ("grpc.absolute_max_metadata_size", MAX_REQUEST_HEADER_BYTES),
)

_LEAVING_SECONDS: Final = 3600.0  # after ``leave``, until ``stop`` gives a bound: grpcio takes the shortest


class GrpcRelay(Relay):
    """The relay on grpc.aio."""

    def __post_init__(self) -> None:
        """As ``Relay``."""
        super().__post_init__()
        self._server: aio.Server | None = None
        self._channel: Channel | None = None
        self._in_flight = InFlight()

    async def start(self) -> None:
        """As ``Relay``."""
        refuse_passed(self._listen)
        temporary = claim(self._listen, take_over=self.take_over)
        self._channel = aio.insecure_channel(f"unix:{self.runtime_path}", options=_CHANNEL_OPTIONS)
        self._server = aio.server(options=_SERVER_OPTIONS)
        runtime = Runtime(self._channel, self.runtime_path)
        handlers = _MethodHandlers(runtime, self.boundary, self._in_flight, self.on_error)
        self._server.add_generic_rpc_handlers((handlers,))
        with named_errors(self._listen):
            try:
                with private_umask():
                    self._server.add_insecure_port(f"unix:{temporary}")
            except RuntimeError as error:  # how grpcio reports a bind that failed
                raise OSError(str(error)) from error
            await self._server.start()  # before it has its name: a client that finds it would be refused
            self._published = publish(temporary, self._listen, self.runtime_path)

    async def leave(self) -> None:
        """Take no new calls and ask clients to leave; calls go on.

        A server of grpcio that stops drops connections that it has not accepted and calls that just arrive, so the
        stop waits for a moment without any.
        """
        self._withdraw()
        if self._server is None or self.tasks:  # not started, or it leaves or stops already
            return
        try:
            await self._in_flight.gather()
            self.tasks.start(self._server.stop(_LEAVING_SECONDS), name="leave")
            # The stop sends its GOAWAY now: a client has to read it before the reply that lets it call again.
            await asyncio.sleep(0)
        finally:
            self._in_flight.release()

    async def stop(self, grace_seconds: float, *, for_streams: bool = False) -> None:
        """Stop accepting, give calls this long to end, then cancel them.

        Endless streams end with the last other call, or go on as long with ``for_streams``.
        """
        self._withdraw()
        if self._server is not None:
            self.tasks.start(self._server.stop(grace_seconds), name="stop")
            if not for_streams:
                with suppress(TimeoutError):
                    async with asyncio.timeout(grace_seconds):
                        await self._in_flight.ended()
                self._in_flight.end_endless()
        await self.tasks.join()
        if self._channel is not None:
            await self._channel.close()


class _MethodHandlers(grpc.GenericRpcHandler):  # type: ignore[type-arg] # generic in grpc-stubs only
    """Handlers for every method, known or not."""

    def __init__(self, runtime: Runtime, boundary: Boundary, in_flight: InFlight, on_error: OnError) -> None:
        self._runtime = runtime
        self._boundary = boundary
        self._in_flight = in_flight
        self._pumps = Tasks(on_error)
        self._quota = RequestQuota()

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401 - grpc-stubs' base says so
        """Return the handler of a call."""
        self._in_flight.arrived()
        method, counted = handler_call_details.method, self._in_flight.counted
        interest = self._boundary.wants(method)
        match interest:
            case Interest.REFUSE:
                return _REFUSED
            case Interest.HOLD:
                unary = HeldUnaryCall(self._runtime.channel, self._boundary, self._quota, method)
                return grpc.unary_unary_rpc_method_handler(counted(unary.run))
        count_passed(self._boundary.passed, method.encode())
        if method in UNARY or interest is Interest.STAND_IN:
            stand_in = partial(self._boundary.stand_in, method) if interest is Interest.STAND_IN else None
            return grpc.unary_unary_rpc_method_handler(counted(UnaryCall(self._runtime.channel, method, stand_in).run))
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


# Made at import: the first handler loads a module of grpcio, which an upgrade may have replaced later.
_REFUSED: Final = grpc.stream_stream_rpc_method_handler(_refuse)
