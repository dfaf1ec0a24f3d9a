"""Carries out what the ledger wants: UpdateContainerResources of others, one container at a time, retried, counted.

The value that goes out is the one current when it is sent, so older preferences drop out by themselves; a container
whose own StartContainer is in flight is left alone until the reply, because runc accepts an update then and
loses it (spec section 7).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from cri_proxy import events
from cri_proxy.cri.write import update_request
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.context import Context
from cri_proxy.node.ledger.deadlock import break_deadlocks
from cri_proxy.node.ledger.ledger import ACTIVE, needs_call, unmet
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey, Pinning
from sysfs.cpuset import NodeSet

UPDATE = "/runtime.v1.RuntimeService/UpdateContainerResources"
NOT_FOUND = 5
BACKOFF_SECONDS = (0.05, 0.2, 0.8)
UPDATE_TIMEOUT_SECONDS = 10.0
# Narrowing cpuset.mems moves pages: seconds per gigabyte on cgroup v2 (spec section 6).
MOVE_TIMEOUT_SECONDS = 120.0
# Containers that are brought to their places at the same time, where nobody waits for one: a re-plan moves hundreds,
# the runtime runs a process for each update, and what ends together is one turn of our event loop.
AT_ONCE = 8


@dataclass(frozen=True, slots=True)
class EffectFailure:
    """An update that the runtime refused for good, until the next slow check tries again."""

    container_id: str
    message: str


class Effects:
    """Brings containers to the pinning that the ledger says, and tells whether they got there."""

    def __init__(self, context: Context) -> None:
        """Start with nothing under way."""
        self._context = context
        self._ledger = context.ledger
        self._updates = Tasks(lambda error: context.observer.failed_open("update", error))
        # Gone when nobody holds or awaits them: a lock that is dropped earlier would be two.
        self._locks: WeakValueDictionary[ContainerKey, asyncio.Lock] = WeakValueDictionary()
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._moves = asyncio.Semaphore(1)
        self._scheduled: set[ContainerKey] = set()
        self._is_held_back = False
        self.failures: dict[ContainerKey, EffectFailure] = {}
        self.sent = 0
        # Ids of containers that were created through us and have had no update since, ours or the kubelet's.
        self.untouched: set[str] = set()

    def lock(self, key: ContainerKey) -> asyncio.Lock:
        """Held by whoever talks to the runtime about this container: a start, an update, ours or the kubelet's.

        Keep the lock itself until it is released; asked again, it may be another.
        """
        return self._locks.setdefault(key, asyncio.Lock())

    def is_busy(self, key: ContainerKey) -> bool:
        """Whether somebody talks to the runtime about this container now."""
        lock = self._locks.get(key)
        return lock is not None and lock.locked()

    def forget(self, key: ContainerKey) -> None:
        """The container is gone: drop what is remembered of it."""
        self.failures.pop(key, None)
        row = self._ledger.get(key)
        if row is not None:
            self.untouched.discard(row.container_id)

    def schedule(self) -> None:
        """Bring every container where it should be, some at the same time; returns at once."""
        if not self._start_updates() and self._is_held_back:
            self.break_deadlocks()
            self._start_updates()

    def _start_updates(self) -> bool:
        """Of those who are not where they should be, where something may be sent now; whether there is one."""
        is_any = self._is_held_back = False
        for row, wanted, target in self._ledger.outstanding():
            key = row.grant.container
            self._is_held_back |= target != wanted
            if target is None or key in self._scheduled or key in self.failures or not needs_call(target, row):
                continue
            self._scheduled.add(key)
            self._updates.start(self._run_scheduled(key), name=f"update {key.name}")
            is_any = True
        return is_any

    def break_deadlocks(self) -> None:
        """Let somebody step aside where containers wait for each other's CPUs (see ``node.ledger.deadlock``)."""
        for key in break_deadlocks(self._ledger):
            row = self._ledger.get(key)
            pod = row.grant.request.pod.name if row is not None else key.pod_uid
            self._context.observer.noted(events.STEPPED_ASIDE, pod=pod, container=key.name)

    async def settle(self, key: ContainerKey) -> bool:
        """Wait for this container's turn and bring it where it may be now; False when the runtime refused for good.

        Memory of a running container is not moved: that takes its time, and nobody's start waits for it.
        """
        async with self.lock(key):
            return await self.settle_locked(key)

    async def settle_locked(self, key: ContainerKey, *, moves_memory: bool = False) -> bool:
        """The same for a caller that holds the container's lock."""
        for delay in (*BACKOFF_SECONDS, None):
            row = self._ledger.get(key)
            if row is None or row.state not in ACTIVE or not row.container_id:
                return True
            try:
                await self._bring(row, moves_memory=moves_memory)
            except CallFailed as error:
                if error.code == NOT_FOUND:
                    self._context.signals.container_vanished.send(row)
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
        self.schedule()
        await self._updates.join()

    async def close(self) -> None:
        """End what is under way: its outcome counts as unknown."""
        await self._updates.cancel()

    def retry_failed(self) -> None:
        """Give containers that could not be updated another chance."""
        self.failures.clear()
        self.schedule()

    async def _run_scheduled(self, key: ContainerKey) -> None:
        """Bring this container where it should be when there is a slot; a start that waits for it needs none."""
        try:
            async with self._slot(self.lock(key)):
                is_settled = await self.settle(key)
            if is_settled and self._memory_waits(key):
                # One move at a time; whoever waits for its turn holds up nobody else's call about the container.
                async with self._moves, self.lock(key):
                    await self.settle_locked(key, moves_memory=True)
        finally:
            self._scheduled.discard(key)
        if self._is_held_back:  # perhaps by what this container has given up
            self.schedule()

    @asynccontextmanager
    async def _slot(self, lock: asyncio.Lock) -> AsyncIterator[None]:
        """One of the slots, at a moment when nobody holds the lock: who does may be waiting for a slow runtime."""
        await self._slots.acquire()
        while lock.locked():
            self._slots.release()
            async with lock:
                pass
            await self._slots.acquire()
        try:
            yield
        finally:
            self._slots.release()

    async def _bring(self, row: Row, *, moves_memory: bool) -> None:
        """Send what differs: CPUs together with memory nodes that only widen; what moves memory by itself."""
        while (step := self._next_step(row)) is not None:
            current, pinning = step
            is_move = self._moves_pages(current, pinning)
            if is_move and not moves_memory:
                return
            if not is_announced(current, pinning):
                await self.announce(current, pinning)
                continue  # what may be sent can have changed while that was saved
            await self._send(current, pinning, MOVE_TIMEOUT_SECONDS if is_move else UPDATE_TIMEOUT_SECONDS)

    def _next_step(self, row: Row) -> tuple[Row, Pinning] | None:
        """The container as it is now and what the next call carries; None when none is needed.

        A newer attempt of the same name is another container: its turn comes by itself.
        """
        current = self._ledger.get(row.key)
        if current is None or current.state not in ACTIVE or current.container_id != row.container_id:
            return None
        target = self._ledger.sendable(row.key)
        if target is None or not self._ledger.differs(current):
            return None
        return current, self._first_step(
            current, unmet(target, current.acknowledged, self._ledger.unconfirmed(row.key))
        )

    def _first_step(self, row: Row, missing: Pinning) -> Pinning:
        """What of it one call may carry: memory nodes that only widen ride along with CPUs, others wait their turn."""
        if missing.cpus is not None and self._moves_pages(row, missing):
            missing = replace(missing, mems=None)
        if missing.cpus is not None and missing.mems is None:
            return replace(missing, mems=self._what_is_left(row))
        return missing

    def _what_is_left(self, row: Row) -> NodeSet | None:
        """The recorded memory nodes without those that are gone, whoever wrote them; None where none of them is.

        The runtime writes its whole record with every update, and the kernel refuses a node without memory.
        """
        held = row.acknowledged.mems if row.acknowledged is not None else None
        there = self._ledger.policy.machine.memory_nodes
        return None if held is None or held <= there else (held & there) or there

    def _moves_pages(self, row: Row, pinning: Pinning) -> bool:
        """Whether this takes memory nodes away from a running container: the kernel then moves its pages (v2).

        Without memory nodes on record a container can use all of them: to name some is to narrow. Of a node that is
        gone nothing is left to move, and the runtime's record must lose it before the kernel takes anything else.
        """
        if pinning.mems is None or row.state != "running":
            return False
        held = row.acknowledged.mems if row.acknowledged is not None else None
        return held is None or not held & self._ledger.policy.machine.memory_nodes <= pinning.mems

    def without_move(self, row: Row, pinning: Pinning) -> Pinning:
        """The pinning for a call that carries other things too: memory is moved by a call of its own, later."""
        held = row.acknowledged.mems if row.acknowledged is not None else None
        if held is None or not self._moves_pages(row, pinning):
            return pinning
        return replace(pinning, mems=self._what_is_left(row) or held)

    def _memory_waits(self, key: ContainerKey) -> bool:
        row = self._ledger.get(key)
        step = self._next_step(row) if row is not None else None
        return step is not None and self._moves_pages(*step)

    async def announce(self, row: Row, pinning: Pinning) -> bool:
        """Save that the container may be on these CPUs and memory nodes, before the call that puts it there.

        Should we not live to see the answer, the next process sends it again, and until then believes in both sets;
        what the call is for is durable with it. False when it could not be saved.
        """
        self._ledger.mark_unconfirmed(row.key, pinning)
        unconfirmed = self._ledger.get(row.key)
        return unconfirmed is None or await self._context.persistence.save([unconfirmed])

    async def _send(self, row: Row, step: Pinning, timeout_seconds: float) -> None:
        self.sent += 1
        self.untouched.discard(row.container_id)
        try:
            await self._context.channel.unary(
                UPDATE, update_request(row.container_id, step), timeout_seconds=timeout_seconds
            )
        except (CallFailed, RuntimeUnavailable, asyncio.CancelledError):
            # A refusal is no proof that nothing happened either: runc writes one file after the other.
            current = self._ledger.get(row.key)
            if current is not None and current.container_id == row.container_id:
                self._ledger.mark_unconfirmed(row.key, step)
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


def is_announced(row: Row, pinning: Pinning) -> bool:
    """Whether a call with this pinning brings nothing that the row does not tell: see ``Effects.announce``."""
    known, unconfirmed = (p if p is not None else Pinning(None, None) for p in (row.acknowledged, row.unconfirmed))
    has_cpus = pinning.cpus is None or pinning.cpus == (known.cpus if unconfirmed.cpus is None else unconfirmed.cpus)
    return has_cpus and (
        pinning.mems is None or pinning.mems == (known.mems if unconfirmed.mems is None else unconfirmed.mems)
    )
