"""A gRPC server that serves every method and does what the caller's ``script`` metadata says.

Without a script it sends every request message back. It keeps what it saw of each call, so that a test can tell
what went through a relay: metadata, messages, deadline, cancellation.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

import grpc
from grpc import aio

_LIMIT = 16 * 1024 * 1024
_CODES = {code.value[0]: code for code in grpc.StatusCode}
_EOF: object = aio.EOF  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Script:
    """What the server shall do with one call, in this order: initial metadata, replies, wait, trailers, status."""

    replies: int = 0
    reply_bytes: int = 0
    early: bool = False  # reply before any request was read
    read: bool = True  # read requests until half-close; False: never
    hang: bool = False
    code: int = 0
    message: str = ""
    initial: tuple[tuple[str, str], ...] = ()
    trailing: tuple[tuple[str, str], ...] = ()  # a name that ends in -bin holds hex
    gzip: bool = False
    together: int = 0  # before the replies, wait until the runtime has seen this many calls
    wait: bool = False  # after the replies, wait until the test says so: ``GrpcRuntime.go_on``

    def metadata(self) -> tuple[str, str]:
        return ("script", json.dumps(asdict(self)))


@dataclass(slots=True)
class Seen:
    """One call as it reached the server."""

    method: str
    metadata: tuple[tuple[str, str | bytes], ...]
    seconds_left: float | None
    requests: list[bytes] = field(default_factory=list)
    written: int = 0  # replies that the transport took
    cancelled: bool = False
    ended: bool = False


def _pairs(pairs: Iterable[Iterable[str]]) -> list[tuple[str, str | bytes]]:
    return [(key, bytes.fromhex(value) if key.endswith("-bin") else value) for key, value in pairs]


class GrpcRuntime(grpc.GenericRpcHandler):  # type: ignore[type-arg] # generic in grpc-stubs only
    """The server; ``calls`` lists what it saw, in order of arrival."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.calls: list[Seen] = []
        self.go_on = asyncio.Event()  # for scripts that wait
        self.otherwise: Script | None = None  # what to do with calls that bring no script; None = send it back
        self._server: aio.Server | None = None
        self._next: list[Script] = []

    def play_next(self, script: Script) -> None:
        self._next.append(script)

    async def start(self) -> None:
        options = [
            ("grpc.max_receive_message_length", _LIMIT),
            ("grpc.max_send_message_length", _LIMIT),
            ("grpc.so_reuseport", 0),
            ("grpc.max_metadata_size", 1 << 20),
            ("grpc.absolute_max_metadata_size", 1 << 20),
        ]
        self._server = aio.server(options=options)
        self._server.add_generic_rpc_handlers((self,))
        self._server.add_insecure_port(f"unix:{self.path}")
        await self._server.start()

    async def stop(self) -> None:
        """End at once, as a killed runtime does."""
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:  # noqa: ANN401 - grpc-stubs' base says so
        method = handler_call_details.method

        async def run(requests: object, context: Any) -> None:  # noqa: ANN401 - grpc-stubs know typed messages only
            remaining = context.time_remaining()
            metadata = tuple((key, value) for key, value in context.invocation_metadata() or ())
            seen = Seen(method, metadata, None if remaining is None or remaining > 1e9 else remaining)
            self.calls.append(seen)
            try:
                await self._play(seen, context, self._script_of(seen))
            except asyncio.CancelledError:
                seen.cancelled = True
                raise
            finally:
                seen.ended = True

        return grpc.stream_stream_rpc_method_handler(run)

    def _script_of(self, seen: Seen) -> Script | None:
        raw = dict(seen.metadata).get("script")
        if raw is not None:
            return Script(**json.loads(raw))
        return self._next.pop(0) if self._next else self.otherwise

    async def _gather(self, count: int) -> None:
        while len(self.calls) < count:  # noqa: ASYNC110 - the caller has a deadline
            await asyncio.sleep(0.002)

    async def _play(self, seen: Seen, context: Any, script: Script | None) -> None:  # noqa: ANN401
        if script is None:
            await _echo(seen, context)
            return
        if script.gzip:
            context.set_compression(grpc.Compression.Gzip)
        if script.initial:
            await context.send_initial_metadata(_pairs(script.initial))
        if not script.early:
            await _read(seen, context, script)
        await self._gather(script.together)
        for number in range(script.replies):
            await context.write((b"%d " % number).ljust(script.reply_bytes, b"."))
            seen.written += 1
        if script.wait:
            await self.go_on.wait()
        if script.early:
            await _read(seen, context, script)
        if script.hang:
            await asyncio.Event().wait()
        context.set_trailing_metadata(_pairs(script.trailing))
        if script.code:
            await context.abort(_CODES[script.code], script.message)


async def _echo(seen: Seen, context: Any) -> None:  # noqa: ANN401
    while (request := await context.read()) is not _EOF:
        seen.requests.append(request)
        await context.write(request)
        seen.written += 1


async def _read(seen: Seen, context: Any, script: Script) -> None:  # noqa: ANN401
    while script.read and (request := await context.read()) is not _EOF:
        seen.requests.append(request)
