"""A client, a relay and a runtime on sockets of their own, and the places where a conversation is played.

Every conversation is played with two clients: one on grpcio (C core, on asyncio's own loop) and one on python-h2 by
hand (on the loop of the daemon). See docs/transparency.md.
"""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cri_proxy.relay.grpcio.relay import GrpcRelay
from cri_proxy.relay.server import SpliceRelay
from tests.fakes.grpc_runtime import GrpcRuntime, Script, Seen
from tests.fakes.scripted_interceptor import ScriptedInterceptor
from tests.relay.clients import Answer, CallUnderWay, GrpcioClient
from tests.relay.h2_client import H2Client, Shape
from tests.relay.h2_runtime import H2Runtime

RELAYS: dict[str, Callable[..., SpliceRelay | GrpcRelay]] = {"splice": SpliceRelay, "grpc": GrpcRelay}
LARGEST_BYTES = 16 * 1024 * 1024  # what the kubelet and containerd allow
VIAS = pytest.mark.parametrize("via", ["direct", *RELAYS])
RELAY_VIAS = pytest.mark.parametrize("via", list(RELAYS))
CLIENTS = pytest.mark.parametrize("client", ["grpcio", "h2"])
H2_ONLY = pytest.mark.parametrize("client", ["h2"])  # the one that lets a test turn the knobs of HTTP/2
# Directly by one client: that holds what the test expects against the runtime, and nothing of ours is in between.
_PLACES = [("direct", "grpcio"), *((via, client) for via in RELAYS for client in CLIENTS.args[1])]
DIRECT_AND_RELAYED = pytest.mark.parametrize(("via", "client"), _PLACES)
RELAYED = [RELAY_VIAS, CLIENTS]


@dataclass(slots=True)
class Stage:
    """Everything that a conversation needs. ``path`` is the socket that clients connect to."""

    runtime: GrpcRuntime
    interceptor: ScriptedInterceptor
    path: str
    client: GrpcioClient | H2Client
    relay: SpliceRelay | GrpcRelay | None
    other: H2Runtime  # in the runtime's place where a test asks for it
    errors: list[BaseException] = field(default_factory=list)

    async def start(self, method: str, *requests: bytes, script: Script | None = None, **options: Any) -> CallUnderWay:  # noqa: ANN401
        """A call under way. With requests it has sent them and half-closed."""
        metadata = [*options.pop("metadata", ()), *([script.metadata()] if script else [])]
        call: CallUnderWay = await self.client.start(method, metadata=metadata, **options)
        for number, request in enumerate(requests):
            await call.write(request, last=number == len(requests) - 1)
        return call

    async def held(self, *requests: tuple[str, bytes]) -> list[CallUnderWay]:
        """Start calls that the runtime on python-h2 has read and does not answer yet."""
        self.other.is_holding = True
        calls = [await self.start(method, message) for method, message in requests]
        await until(lambda: sum(request.is_complete for request in self.other.calls) == len(requests))
        return calls

    async def call(self, method: str, *requests: bytes, script: Script | None = None, **options: Any) -> Answer:  # noqa: ANN401
        options.setdefault("timeout_seconds", 60)
        call = await self.start(method, *requests, script=script, **options)
        if not requests:
            await call.done_writing()
        return await call.end()

    async def seen(self, count: int = 1) -> Seen:
        """The runtime's latest call, once it has seen this many."""
        await until(lambda: len(self.runtime.calls) >= count)
        return self.runtime.calls[-1]


async def until(holds: Callable[[], bool], seconds: float = 30.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110 - polls what the server saw, bounded
            await asyncio.sleep(0.002)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a conversation is played: with which client, directly or by which relay."""

    via: str
    client: str

    @asynccontextmanager
    async def staged(
        self,
        *,
        interceptor: ScriptedInterceptor | None = None,
        client: Shape | None = None,
        runtime: Shape | None = None,
    ) -> AsyncIterator[Stage]:
        """Client and runtime joined by 'direct', 'splice' or 'grpc'.

        ``client``: how the h2 client presents itself; ``runtime``: put one on python-h2 there.
        """
        with tempfile.TemporaryDirectory() as directory:
            runtime_path, relay_path = str(Path(directory, "runtime.sock")), str(Path(directory, "relay.sock"))
            grpcio, other = GrpcRuntime(runtime_path), H2Runtime(runtime_path, runtime or Shape())
            await (other.start() if runtime else grpcio.start())
            known = interceptor or ScriptedInterceptor()
            path = runtime_path if self.via == "direct" else relay_path
            errors: list[BaseException] = []
            relay = None
            if self.via != "direct":
                relay = RELAYS[self.via](listen=path, runtime=runtime_path, interceptor=known, on_error=errors.append)
                await relay.start()
            caller = H2Client(path, client) if self.client == "h2" else GrpcioClient(path)
            try:
                yield Stage(grpcio, known, path, caller, relay, other, errors)
            finally:
                await caller.close()
                if relay is not None:
                    await relay.stop(0.2)
                await grpcio.stop()
                await other.stop()
