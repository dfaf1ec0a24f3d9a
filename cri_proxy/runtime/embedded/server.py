"""Serve an embedded runtime by gRPC on a Unix socket, to kubelets, crictl and the relay. Messages stay bytes."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NoReturn

import grpc
import grpc.aio

from cri_proxy.cri.methods import BY_PATH
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.embedded.runtime import EmbeddedRuntime
from cri_proxy.unix_socket import private_umask, socket_path

MAX_MESSAGE_BYTES = 16 << 20  # containerd's own limit
_MAX_PENDING = 1_000_000  # without a bound of its own grpcio drops some calls from 1000 on; containerd drops none
_OPTIONS = (
    *((f"grpc.max_{direction}_message_length", MAX_MESSAGE_BYTES) for direction in ("receive", "send")),
    *((f"grpc.server.max_pending_requests{which}", _MAX_PENDING) for which in ("", "_hard_limit")),
)
_CODES = {code.value[0]: code for code in grpc.StatusCode}

_Context = grpc.aio.ServicerContext[bytes, bytes]


class _Handlers(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """One handler for every path; the runtime itself knows its methods."""

    def __init__(self, runtime: EmbeddedRuntime) -> None:
        self._runtime = runtime

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        path = handler_call_details.method

        async def unary(message: bytes, context: _Context) -> bytes:
            try:
                return await self._runtime.call(path, message)
            except (CallFailed, RuntimeUnavailable) as error:
                await _abort(context, error)

        async def stream(message: bytes, context: _Context) -> AsyncIterator[bytes]:
            try:
                async for reply in self._runtime.stream(path, message):
                    yield reply
            except (CallFailed, RuntimeUnavailable) as error:
                await _abort(context, error)

        known = BY_PATH.get(path)
        if known is not None and known.streams:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)


async def _abort(context: _Context, error: CallFailed | RuntimeUnavailable) -> NoReturn:
    """End the call with the error's status; always raises."""
    if isinstance(error, CallFailed):
        await context.abort(_CODES.get(error.code, grpc.StatusCode.UNKNOWN), error.message)
    await context.abort(grpc.StatusCode.UNAVAILABLE, error.problem)


class RuntimeServer:
    """The socket of an embedded runtime; ``endpoint`` is 'unix:///path' or a path. Started and stopped once."""

    def __init__(self, runtime: EmbeddedRuntime, endpoint: str) -> None:
        self.runtime = runtime
        self.path: Path = socket_path(endpoint)
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """Bind (a stale socket is replaced, mode 0600) and serve. Raises RuntimeError when the path cannot be bound."""
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers((_Handlers(self.runtime),))
        with private_umask():
            server.add_insecure_port(f"unix:{self.path}")
        await server.start()
        self._server = server

    async def stop(self) -> None:
        """Break every call and stream, close and remove the socket; again is no error."""
        server, self._server = self._server, None
        if server is not None:
            await server.stop(grace=None)
            self.path.unlink(missing_ok=True)
