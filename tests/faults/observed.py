"""The daemon's surroundings with somebody who counts: every call and save passes named points, where a kill may fall.

A point is reached between two things that the world can see: a message was read, decided on, sent; the runtime has
acted; the reply was seen; a save was asked for and became durable. Between two points nothing is lost that the
earlier of them had not lost already.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol, TypeVar

from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.relay.calls import Call, Interceptor, Interest, Outcome, Verdict
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.state.decisions import PackedDecision
from cri_proxy.state.memory_store import MemoryStore
from cri_proxy.state.rows import Deletable, GrantStore, Row, SandboxRow, Saveable, Saved
from policies.policy import Policy

T = TypeVar("T")
UPDATE = "UpdateContainerResources"


def as_it_is(part: T) -> T:
    return part


@dataclass(frozen=True, slots=True)
class Parts:
    """What is put around the daemon's own parts: nothing, but where a test wants a daemon with a bug."""

    store: Callable[[GrantStore], GrantStore] = as_it_is
    channel: Callable[[RuntimeChannel], RuntimeChannel] = as_it_is
    interceptor: Callable[[Interceptor], Interceptor] = as_it_is
    policy: Callable[[Policy], Policy] = as_it_is


AS_THEY_ARE = Parts()


class World(Protocol):
    """Who counts."""

    random: Random

    def point(self, name: str) -> None:
        """A named point is reached."""

    def sent(self, method: str, message: bytes) -> Callable[[], None]:
        """A request is under way to the runtime; call what is given when the runtime has acted."""

    def own(self, name: str) -> str:
        """The name of a point in what the daemon does of its own accord, with what it does it for."""


class PointedStore(MemoryStore):
    """Saves become durable one after the other, a while after they were asked for; what waits is lost with a kill."""

    def __init__(self) -> None:
        super().__init__()
        self.world: World | None = None
        self._turn = asyncio.Lock()

    async def take(self, saved: Saved) -> None:
        await MemoryStore.save(self, [*saved.rows, *saved.sandboxes, *saved.decisions])

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        world = self.world
        if world is None:
            await super().save(puts, deletes)
            return
        name = world.own(f"save {self._what(puts)}")
        world.point(f"{name}: asked")
        async with self._turn:
            await a_while(world.random)
            await super().save(puts, deletes)
            world.point(f"{name}: durable")
        await a_while(world.random)

    def _what(self, puts: Sequence[Saveable]) -> str:
        match puts[0] if puts else None:
            case Row() as row:
                return self._change_of(row)
            case SandboxRow():
                return "sandbox"
            case PackedDecision():
                return "decision"
            case _:
                return "removal"

    def _change_of(self, row: Row) -> str:
        old = self._rows.get(row.key)
        if old is None or old.state != row.state or old.created_order != row.created_order:
            return row.state
        if old.grant != row.grant:
            return "grant"
        if old.warm_at_seconds != row.warm_at_seconds:
            return "cold start"
        before, after = (r.acknowledged.cpus if r.acknowledged is not None else None for r in (old, row))
        has_grown = before is not None and after is not None and before != after and before <= after
        return "announced" if has_grown else "confirmed"


class PointedChannel(RuntimeChannel):
    """A way to the runtime, the daemon's own or that of the calls it sends on."""

    def __init__(self, inner: RuntimeChannel, world: World, *, is_own: bool) -> None:
        self._inner = inner
        self._world = world
        self._is_own = is_own

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        name = self._name(method.rpartition("/")[2], message)
        acted = self._world.sent(method, message)
        self._world.point(f"{name}: sent")
        try:
            await a_while(self._world.random)
            reply = await self._inner.unary(method, message, timeout_seconds=timeout_seconds)
        finally:
            acted()
        self._world.point(f"{name}: acted")
        await a_while(self._world.random)
        return reply

    def _name(self, method: str, message: bytes) -> str:
        if not self._is_own:
            return method
        if method == UPDATE:
            linux = pb.UpdateContainerResourcesRequest.FromString(message).linux
            fields = (("CPUs", linux.cpuset_cpus), ("memory", linux.cpuset_mems))
            method = f"update of {' and '.join(name for name, value in fields if value)}"
        return self._world.own(f"own {method}")

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        return self._inner.stream(method, message)

    async def close(self) -> None:
        await self._inner.close()


class PointedInterceptor:
    """Implements ``cri_proxy.relay.calls.Interceptor``: the calls of the kubelet."""

    def __init__(self, inner: Interceptor, world: World) -> None:
        self._inner = inner
        self._world = world

    def wants(self, method: str) -> Interest:
        return self._inner.wants(method)

    async def on_request(self, call: Call) -> Verdict:
        name = call.method.rpartition("/")[2]
        self._world.point(f"{name}: read")
        verdict = await self._inner.on_request(call)
        self._world.point(f"{name}: decided")
        return verdict

    async def stand_in(self, method: str) -> bytes | None:
        return await self._inner.stand_in(method)

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        self._inner.on_outcome(call, outcome)
        self._world.point(f"{call.method.rpartition('/')[2]}: reply seen")


async def a_while(random: Random) -> None:
    """Let others run: nothing, or a few turns of the loop."""
    for _ in range(random.choice((0, 0, 1, 3))):
        await asyncio.sleep(0)
