"""A client, a relay and a runtime on sockets of their own, and what a call looks like to the client."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from grpc import aio

from cri_proxy.relay.grpc_relay import GrpcRelay
from cri_proxy.relay.server import SpliceRelay
from tests.fakes.grpc_runtime import GrpcRuntime, Script, Seen
from tests.fakes.scripted_interceptor import ScriptedInterceptor

RELAYS: dict[str, Callable[..., SpliceRelay | GrpcRelay]] = {"splice": SpliceRelay, "grpc": GrpcRelay}
LARGEST_REPLY_BYTES = 16 * 1024 * 1024 - 4096
_OPTIONS = (
    ("grpc.max_receive_message_length", 16 * 1024 * 1024),
    ("grpc.max_send_message_length", 32 * 1024 * 1024),
    ("grpc.max_metadata_size", 1 << 20),
    ("grpc.absolute_max_metadata_size", 1 << 20),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 200),
)
EOF: object = aio.EOF  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Answer:
    """How a call ended for its client."""

    code: int
    details: str
    replies: tuple[bytes, ...] = ()
    initial: tuple[tuple[str, str | bytes], ...] = ()
    trailing: tuple[tuple[str, str | bytes], ...] = ()


@dataclass(slots=True)
class Stage:
    """Everything that a conversation needs. ``path`` is the socket that clients connect to."""

    runtime: GrpcRuntime
    interceptor: ScriptedInterceptor
    path: str
    channel: Any
    errors: list[BaseException] = field(default_factory=list)

    def start(self, method: str, *, script: Script | None = None, **options: Any) -> Any:  # noqa: ANN401
        """A bidirectional call under way: grpcio's own object."""
        metadata = [*options.pop("metadata", ()), *([script.metadata()] if script else [])]
        return self.channel.stream_stream(method)(metadata=metadata, **options)

    async def call(self, method: str, *requests: bytes, script: Script | None = None, **options: Any) -> Answer:  # noqa: ANN401
        """One call to its end. Without requests the client half-closes at once."""
        options.setdefault("timeout", 20)
        call = self.start(method, script=script, **options)
        replies: list[bytes] = []
        try:
            for request in requests:
                await call.write(request)
            await call.done_writing()
            while (reply := await call.read()) is not EOF:
                replies.append(reply)
        except (aio.AioRpcError, asyncio.InvalidStateError):
            pass
        code = await call.code()
        initial, trailing = await call.initial_metadata(), await call.trailing_metadata()
        return Answer(code.value[0], await call.details() or "", tuple(replies), _plain(initial), _plain(trailing))

    async def seen(self, count: int = 1) -> Seen:
        """The runtime's latest call, once it has seen this many."""
        await until(lambda: len(self.runtime.calls) >= count)
        return self.runtime.calls[-1]


def _plain(metadata: Any) -> tuple[tuple[str, str | bytes], ...]:  # noqa: ANN401
    """Sorted by name: grpcio groups repeated names, in the order of their values."""
    return tuple(sorted(((key, value) for key, value in metadata or ()), key=lambda pair: str(pair[0])))


async def until(holds: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for a condition, bounded."""
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - polls what the server saw, bounded
            await asyncio.sleep(0.002)


@asynccontextmanager
async def stage(via: str, interceptor: ScriptedInterceptor | None = None) -> AsyncIterator[Stage]:
    """Client and runtime joined by 'direct', 'splice' or 'grpc'."""
    with tempfile.TemporaryDirectory() as directory:
        runtime = GrpcRuntime(str(Path(directory, "runtime.sock")))
        await runtime.start()
        known = interceptor or ScriptedInterceptor()
        path = runtime.path if via == "direct" else str(Path(directory, "relay.sock"))
        errors: list[BaseException] = []
        relay = None
        if via != "direct":
            relay = RELAYS[via](listen=path, runtime=runtime.path, interceptor=known, on_error=errors.append)
            await relay.start()
        channel = aio.insecure_channel(f"unix:{path}", options=_OPTIONS)
        try:
            yield Stage(runtime, known, path, channel, errors)
        finally:
            await channel.close(None)
            if relay is not None:
                await relay.stop(0.2)
            await runtime.stop()


def play(via: str, act: Callable[[Stage], Coroutine[object, object, None]]) -> None:
    """Run one conversation."""

    async def run() -> None:
        async with stage(via) as set_up:
            await act(set_up)

    asyncio.run(run())
