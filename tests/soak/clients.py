"""Who calls the daemon in a soak: clients on gRPC's C core as the kubelet's are in Go's, raw sockets, and HTTP."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from random import Random
from typing import Any

import grpc
from prometheus_client.parser import text_string_to_metric_families

from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.runtime.channel import RuntimeChannel

_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),  # a connection of its own
    ("grpc.enable_retries", 0),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 20_000),  # the C core's word for the longest that connecting may take
    ("grpc.max_reconnect_backoff_ms", 200),
)
UNAVAILABLE, CANCELLED, DEADLINE_EXCEEDED = 14, 1, 4


class CoreChannel(RuntimeChannel):
    """One connection of a client that stays, made anew when it breaks."""

    def __init__(self, endpoint: str, tally: "Tally") -> None:
        # grpc-stubs demand serializers that grpcio leaves optional
        self._channel: Any = grpc.aio.insecure_channel(endpoint.replace("unix://", "unix:"), options=_OPTIONS)
        self._tally = tally

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        """As ``RuntimeChannel``, counted."""
        name = method.rpartition("/")[2]
        try:
            reply: bytes = await self._channel.unary_unary(method)(message, timeout=timeout_seconds)
        except grpc.aio.AioRpcError as error:
            code = int(error.code().value[0])
            self._tally.calls[name, error.code().name] += 1
            if code in (UNAVAILABLE, CANCELLED, DEADLINE_EXCEEDED):
                raise RuntimeUnavailable(method, f"{error.code().name}: {error.details()}") from None
            raise CallFailed(method, code, error.details() or "") from None
        self._tally.calls[name, "OK"] += 1
        return reply

    async def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        call = self._channel.unary_stream(method)(message)
        try:
            async for reply in call:
                yield reply
        except grpc.aio.AioRpcError as error:
            raise RuntimeUnavailable(method, f"{error.code().name}: {error.details()}") from None
        finally:
            call.cancel()

    async def close(self) -> None:
        await self._channel.close()


class Hasty(RuntimeChannel):
    """A channel that gives each unary call a few milliseconds; who made it closes what is below."""

    def __init__(self, channel: CoreChannel, random: Random) -> None:
        self._channel = channel
        self._random = random

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        return await self._channel.unary(method, message, timeout_seconds=self._random.uniform(0.001, 0.15))

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        return self._channel.stream(method, message)

    async def close(self) -> None:
        """It is not ours."""


class Tally:
    """What has been done so far: calls by method and status, acts by name, and what should not have happened.

    ``away``: from when to when the runtime, or the way to it, was gone; seconds since the epoch.
    """

    def __init__(self) -> None:
        """Nothing yet."""
        self.calls: Counter[tuple[str, str]] = Counter()
        self.acts: Counter[str] = Counter()
        self.problems: list[str] = []
        self.away: list[tuple[float, float]] = []

    @property
    def lives(self) -> int:
        return self.calls["CreateContainer", "OK"]

    @property
    def failed(self) -> dict[str, int]:
        return {f"{name} {code}": n for (name, code), n in sorted(self.calls.items()) if code != "OK"}


async def get(socket: Path, target: str, *, seconds: float = 20.0) -> bytes:
    """The body that the admin socket answers; a connection of its own. Raises OSError, TimeoutError."""
    async with asyncio.timeout(seconds):
        reader, writer = await asyncio.open_unix_connection(str(socket))
        try:
            writer.write(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
            answer = await reader.read()
        finally:
            writer.close()
    return answer.partition(b"\r\n\r\n")[2]


async def metrics(socket: Path) -> Callable[..., float]:
    """The daemon's metrics: ``value('name')`` is the sum over all its series, or over those with the given labels."""
    families = text_string_to_metric_families((await get(socket, "/metrics")).decode())
    samples = [sample for family in families for sample in family.samples]

    def value(name: str, **labels: str) -> float:
        return sum(s.value for s in samples if s.name == name and labels.items() <= s.labels.items())

    return value
