"""Daemons with a bug, each made by putting something around a part of it: the kill test must see every one.

A mutant lives the whole history and takes over after the kill as well, as a bug would.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, replace

from cri_proxy.cri.methods import RUNTIME
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.relay.calls import Aborted, Call, Forward, Interceptor, Interest, Outcome, Replied, Verdict
from cri_proxy.runtime.channel import RuntimeChannel
from cri_proxy.state.rows import Deletable, GrantStore, Row, Saveable, Saved
from tests.faults.observed import Parts


class StoreAround:
    """Implements ``cri_proxy.state.rows.GrantStore`` by another one."""

    def __init__(self, inner: GrantStore) -> None:
        self.inner = inner

    def load(self) -> Saved:
        return self.inner.load()

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        await self.inner.save([self.changed(put) for put in puts], deletes)

    def changed(self, put: Saveable) -> Saveable:
        return put

    async def close(self) -> None:
        await self.inner.close()


class InterceptorAround:
    """Implements ``cri_proxy.relay.calls.Interceptor`` by another one."""

    def __init__(self, inner: Interceptor) -> None:
        self.inner = inner

    def wants(self, method: str) -> Interest:
        return self.inner.wants(method)

    async def on_request(self, call: Call) -> Verdict:
        return await self.inner.on_request(call)

    async def stand_in(self, method: str) -> bytes | None:
        return await self.inner.stand_in(method)

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        self.inner.on_outcome(call, outcome)


class ChannelAround(RuntimeChannel):
    """A way to the runtime by another one."""

    def __init__(self, inner: RuntimeChannel) -> None:
        self.inner = inner

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        return await self.inner.unary(method, message, timeout_seconds=timeout_seconds)

    def stream(self, method: str, message: bytes) -> AsyncIterator[bytes]:
        return self.inner.stream(method, message)

    async def close(self) -> None:
        await self.inner.close()


class AnswersBeforeTheDisk(StoreAround):
    """Says that it is saved when it has only been asked to."""

    def __init__(self, inner: GrantStore) -> None:
        super().__init__(inner)
        self._saving: set[asyncio.Task[None]] = set()

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        task = asyncio.get_running_loop().create_task(self._late(puts, deletes))
        self._saving.add(task)
        task.add_done_callback(self._saving.discard)

    async def _late(self, puts: Sequence[Saveable], deletes: Sequence[Deletable]) -> None:
        for _ in range(30):
            await asyncio.sleep(0)
        await self.inner.save(puts, deletes)


class DropsTheDoubt(StoreAround):
    """What was announced looks as if it had been confirmed."""

    def changed(self, put: Saveable) -> Saveable:
        return replace(put, unconfirmed=None) if isinstance(put, Row) else put


class DropsTheAnnouncement(StoreAround):
    """Nothing is saved before an update goes out."""

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        kept = [put for put in puts if not (isinstance(put, Row) and put.unconfirmed is not None)]
        if kept or deletes:
            await self.inner.save(kept, deletes)


class ForgetsWhatIsConfirmed(StoreAround):
    """The pinning that a container was created with stays on the disk whatever comes."""

    def changed(self, put: Saveable) -> Saveable:
        old = {row.key: row for row in self.inner.load().rows}.get(put.key) if isinstance(put, Row) else None
        if not isinstance(put, Row) or old is None or old.acknowledged is None or put.state == "exited":
            return put
        return replace(put, acknowledged=old.acknowledged, unconfirmed=None)


class ForgetsDecisions(StoreAround):
    """What ``explain`` tells is not there after a restart."""

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        kept = [put for put in puts if isinstance(put, Row) or hasattr(put, "config")]
        await self.inner.save(kept, deletes)


class NeverDeletes(StoreAround):
    """What is gone stays on the disk."""

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        await self.inner.save(puts)


class ConfirmsBeforeTheReply(ChannelAround):
    """Takes an update for done when it was sent."""

    def __init__(self, inner: RuntimeChannel) -> None:
        super().__init__(inner)
        self._sending: set[asyncio.Task[None]] = set()

    async def unary(self, method: str, message: bytes, *, timeout_seconds: float) -> bytes:
        if not method.endswith("/UpdateContainerResources"):
            return await self.inner.unary(method, message, timeout_seconds=timeout_seconds)
        task = asyncio.get_running_loop().create_task(self._late(method, message))
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)
        return pb.UpdateContainerResourcesResponse().SerializeToString()

    async def _late(self, method: str, message: bytes) -> None:
        for _ in range(30):
            await asyncio.sleep(0)
        await self.inner.unary(method, message, timeout_seconds=10.0)


class DoesNotHoldStarts(InterceptorAround):
    """A container starts whoever is on its CPUs."""

    async def on_request(self, call: Call) -> Verdict:
        return Forward() if call.method == RUNTIME + "StartContainer" else await self.inner.on_request(call)


class TakesUnknownForRefused(InterceptorAround):
    """A create without an answer counts as one that never was."""

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        is_open = call.method == RUNTIME + "CreateContainer" and isinstance(outcome, Aborted)
        self.inner.on_outcome(call, Aborted(sent=False) if is_open else outcome)


class ReleasesBeforeTheReply(InterceptorAround):
    """A container that is being stopped counts as one that has stopped."""

    async def on_request(self, call: Call) -> Verdict:
        verdict = await self.inner.on_request(call)
        if call.method.endswith(("/StopPodSandbox", "/StopContainer", "/RemoveContainer", "/RemovePodSandbox")):
            self.inner.on_outcome(call, Replied(b""))
        return verdict


class LosesTheIdOfACreated(InterceptorAround):
    """The answer to a create is not taken into account."""

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        if call.method != RUNTIME + "CreateContainer":
            self.inner.on_outcome(call, outcome)


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    parts: Parts


MUTANTS = (
    *(
        Mutant(around.__name__, Parts(store=around))
        for around in (
            AnswersBeforeTheDisk,
            DropsTheDoubt,
            DropsTheAnnouncement,
            ForgetsWhatIsConfirmed,
            ForgetsDecisions,
            NeverDeletes,
        )
    ),
    Mutant("ConfirmsBeforeTheReply", Parts(channel=ConfirmsBeforeTheReply)),
    *(
        Mutant(around.__name__, Parts(interceptor=around))
        for around in (DoesNotHoldStarts, TakesUnknownForRefused, ReleasesBeforeTheReply, LosesTheIdOfACreated)
    ),
)
