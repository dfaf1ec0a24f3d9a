"""Carries out what the ledger wants: UpdateContainerResources of others, one container at a time, retried, counted.

The value that goes out is the one current when it is sent, so older wishes drop out by themselves; a container
whose own StartContainer is in flight is left alone until the reply, because runc accepts an update then and
loses it (spec section 7).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from cri_proxy.cri.write import update_request
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.context import Context
from cri_proxy.node.ledger import ACTIVE
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey, Pinning

UPDATE = "/runtime.v1.RuntimeService/UpdateContainerResources"
NOT_FOUND = 5
BACKOFF_SECONDS = (0.05, 0.2, 0.8)
UPDATE_TIMEOUT_SECONDS = 10.0
# Narrowing cpuset.mems moves pages: seconds per gigabyte on cgroup v2 (spec section 6).
MOVE_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class EffectFailure:
    """An update that the runtime refused for good, until the next slow check tries again."""

    container_id: str
    message: str


class Effects:
    """Brings containers to the pinning that the ledger says, and tells whether they got there."""

    def __init__(self, context: Context, on_vanished: Callable[[Row], None]) -> None:
        """``on_vanished`` hears of a container that the runtime does not know any more."""
        self._context = context
        self._ledger = context.ledger
        self._on_vanished = on_vanished
        self._updates = Tasks(lambda error: context.observer.failed_open("update", error))
        self._locks: dict[ContainerKey, asyncio.Lock] = {}
        self._moves = asyncio.Semaphore(1)
        self._kicked: set[ContainerKey] = set()
        self.failures: dict[ContainerKey, EffectFailure] = {}
        self.sent = 0

    def lock(self, key: ContainerKey) -> asyncio.Lock:
        """Held by whoever talks to the runtime about this container: a start, an update, ours or the kubelet's."""
        return self._locks.setdefault(key, asyncio.Lock())

    def forget(self, key: ContainerKey) -> None:
        """The container is gone: drop what is remembered of it."""
        self.failures.pop(key, None)
        lock = self._locks.get(key)
        if lock is not None and not lock.locked():
            del self._locks[key]

    def kick(self) -> None:
        """Start an update for every container that is not where it should be; returns at once."""
        for row in self._ledger.unsettled():
            key = row.grant.container
            if key not in self._kicked and key not in self.failures:
                self._kicked.add(key)
                self._updates.start(self._settle_kicked(key), name=f"update {key.name}")

    async def settle(self, key: ContainerKey) -> bool:
        """Wait for this container's turn and bring it where it may be now; False when the runtime refused for good."""
        async with self.lock(key):
            return await self.settle_locked(key)

    async def settle_locked(self, key: ContainerKey) -> bool:
        """The same for a caller that holds the container's lock."""
        for delay in (*BACKOFF_SECONDS, None):
            row = self._ledger.get(key)
            if row is None or row.state not in ACTIVE or not row.container_id:
                return True
            try:
                await self._bring(row)
            except CallFailed as error:
                if error.code == NOT_FOUND:
                    self._on_vanished(row)
                    return True
                problem = error.message
            except RuntimeUnavailable as error:
                problem = error.problem
            else:
                self.failures.pop(key, None)
                return True
            if delay is None:
                self.failures[key] = EffectFailure(row.container_id, problem)
                self._context.observer.update_failed(row, problem)
                return False
            await self._context.clock.sleep(delay)
        return False

    async def settle_all(self) -> None:
        """Update until nothing differs or nothing more can be done."""
        self.kick()
        await self._updates.join()

    async def close(self) -> None:
        """End what is under way: its outcome counts as unknown."""
        await self._updates.cancel()

    def retry_failed(self) -> None:
        """Give containers that could not be updated another chance."""
        self.failures.clear()
        self.kick()

    async def _settle_kicked(self, key: ContainerKey) -> None:
        try:
            await self.settle(key)
        finally:
            self._kicked.discard(key)
        # What this container gave up may be what others waited for.
        self.kick()

    async def _bring(self, row: Row) -> None:
        """Send what differs: CPUs together with memory nodes that only widen, moves of memory by themselves."""
        key = row.grant.container
        while (
            (current := self._ledger.get(key)) is not None and current.state in ACTIVE and self._ledger.differs(current)
        ):
            target = self._ledger.sendable(key)
            if target is None:
                return
            step = _first_step(current, target, doubted=self._ledger.is_doubted(key))
            if step.cpus is None and step.mems is not None:
                async with self._moves:
                    await self._send(current, step, MOVE_TIMEOUT_SECONDS)
            else:
                await self._send(current, step, UPDATE_TIMEOUT_SECONDS)

    async def _send(self, row: Row, step: Pinning, timeout_seconds: float) -> None:
        self.sent += 1
        try:
            await self._context.channel.unary(
                UPDATE, update_request(row.container_id, step), timeout_seconds=timeout_seconds
            )
        except (RuntimeUnavailable, asyncio.CancelledError):
            self._ledger.doubt(row.key, step)
            raise
        self._confirm(row, step)
        self._context.observer.updated(row, step)

    def _confirm(self, row: Row, pinning: Pinning) -> None:
        current = self._ledger.get(row.grant.container)
        if current is None or current.container_id != row.container_id:
            return
        confirmed = self._ledger.confirm(row.grant.container, pinning)
        if confirmed is not None:
            self._context.persistence.save_later([confirmed])


def _first_step(row: Row, target: Pinning, *, doubted: bool) -> Pinning:
    """What one call may carry: a running container's memory nodes ride along with CPUs only when they widen."""
    held = None if doubted else row.acknowledged
    cpus = target.cpus if held is None or target.cpus != held.cpus else None
    mems = target.mems if held is None or target.mems != held.mems else None
    if mems is None or cpus is None or row.state != "running" or held is None or held.mems is None:
        return Pinning(cpus, mems)
    return Pinning(cpus, mems if held.mems <= mems else None)
