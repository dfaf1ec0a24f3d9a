"""Send UpdateContainerResources until containers have their wanted pinning: locks, retries, memory moves apart.

The value that is sent is the one current at that moment, so older ones drop out. A container whose own StartContainer
is in flight gets no update until the reply: runc accepts an update then and loses it (docs/placement.md, Enactment).
"""

import asyncio
from collections import deque
from dataclasses import replace
from weakref import WeakValueDictionary

from cri_proxy import events
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.cri.write import update_request
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.http2.status import UNKNOWN_OUTCOME
from cri_proxy.node.context import Context
from cri_proxy.node.ledger.deadlock import break_deadlocks
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.ledger.start_calls import StartCall
from cri_proxy.node.pending_calls import UPDATE_TIMEOUT_SECONDS, PendingCalls
from cri_proxy.runtime.channel import SERVICE, ask
from cri_proxy.state.rows import Row
from cri_proxy.tasks import Tasks
from policies.base import ContainerKey, Pinning
from sysfs.cpuset import NodeSet

UPDATE = SERVICE + "UpdateContainerResources"
NOT_FOUND = 5
BACKOFF_SECONDS = (0.05, 0.2, 0.8)
STATUS_TIMEOUT_SECONDS = 2.0  # starts may wait for the outcome, and the refusal itself has been answered
# Narrowing cpuset.mems moves pages: seconds per gigabyte on cgroup v2.
MOVE_TIMEOUT_SECONDS = 120.0
# Updates at the same time that no call waits for. A re-plan moves hundreds of containers, the runtime runs a process
# for each update, and updates that end together are handled in one turn of the event loop.
AT_ONCE = 8


class Effects:
    """Brings containers to the pinning that the ledger wants, and reports whether they got there."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._ledger = context.ledger
        self._updates = Tasks(lambda error: context.journal.failed_open("update", error))
        # Weak: a lock lives as long as it is held or awaited. Dropped earlier, there could be two for one container.
        self._locks: WeakValueDictionary[ContainerKey, asyncio.Lock] = WeakValueDictionary()
        self._free_slots = AT_ONCE
        self._moves = asyncio.Semaphore(1)
        self._scheduled: set[ContainerKey] = set()
        # Those of them that wait for a slot: a task for each would be a megabyte after a re-plan.
        self._queue: deque[ContainerKey] = deque()
        # Updates that starts wait for, one for each container however many wait, and with its own end: a start that
        # waits no longer does not cancel what the runtime has been sent.
        self._awaited: dict[ContainerKey, asyncio.Task[None]] = {}
        self._starts_changed = asyncio.Event()
        self.calls = PendingCalls(context)
        self._is_held_back = False
        # Why the runtime refused an update for good, until the next slow check tries again.
        self.failures: dict[ContainerKey, str] = {}
        self.sent = 0
        # Ids of containers that were created through us and have had no update since, ours or the kubelet's.
        self.untouched: set[str] = set()

    def lock(self, key: ContainerKey) -> asyncio.Lock:
        """Return the lock for calls to the runtime about this container: a start, an update, ours or the kubelet's.

        Keep the lock itself until it is released: a later call may return another.
        """
        return self._locks.setdefault(key, asyncio.Lock())

    def is_busy(self, key: ContainerKey) -> bool:
        """Return whether a call to the runtime about this container is under way, or a start has no known end."""
        lock, row = self._locks.get(key), self._ledger.get(key)
        is_starting = row is not None and row.container_id in self._ledger.starts
        return is_starting or (lock is not None and lock.locked())

    def start_sent(self, row: Row, *, is_presumed: bool = False) -> None:
        """Note that the start of this container is about to be sent: until its end is known nothing is written.

        ``is_presumed``: it may have been sent before this process began; updates go out and do not count.
        """
        now, losses = self._context.clock.monotonic_seconds(), self._context.channel.losses()
        self._ledger.starts.begin(StartCall(row, now, losses, is_presumed))

    def start_ended(self, container_id: str) -> None:
        """Note that a start has ended in whatever way; updates that waited for that go on. Idempotent."""
        if container_id in self._ledger.starts:
            self._ledger.starts.end(container_id)
            self.calls.look_for_starts()
            self._wake_waiting()

    def starts_ended_in(self, sandbox_id: str) -> None:
        """Note that all starts in a sandbox have ended because it is gone."""
        self._ledger.starts.end_in(sandbox_id)
        self.calls.look_for_starts()
        self._wake_waiting()

    def _wake_waiting(self) -> None:
        changed, self._starts_changed = self._starts_changed, asyncio.Event()
        changed.set()

    def forget(self, key: ContainerKey) -> None:
        """Drop the state of a container that is gone."""
        self.failures.pop(key, None)
        if (row := self._ledger.get(key)) is not None:
            self.untouched.discard(row.container_id)
            self.calls.forget(row)

    def schedule(self) -> None:
        """Start the updates that are due and may be sent, some at the same time; return at once."""
        # Nothing can be sent, and something should be: perhaps containers wait for each other's CPUs in a circle.
        if not self._start_updates() and self._is_held_back:
            self.break_deadlocks()
            self._start_updates()

    def _start_updates(self) -> bool:
        """Start the updates that may be sent now; return whether there is one."""
        is_any = self._is_held_back = False
        for row, wanted, target in self._ledger.outstanding():
            key = row.grant.container
            self._is_held_back |= target != wanted
            # One that failed for good waits for the slow check: each change of the node would send it again.
            if target is None or key in self._scheduled or key in self.failures or not row.needs_call(target):
                continue
            self._scheduled.add(key)
            self._queue.append(key)
            is_any = True
        self._fill_slots()
        return is_any

    def _fill_slots(self) -> None:
        while self._queue and self._free_slots:
            self._free_slots -= 1
            key = self._queue.popleft()
            self._updates.start(self._run_scheduled(key), name=f"update {key.name}")

    def _free_slot(self) -> None:
        self._free_slots += 1
        self._fill_slots()

    def break_deadlocks(self) -> None:
        """Let a container step aside where some wait for each other's CPUs (see ``node.ledger.deadlock``)."""
        for key in break_deadlocks(self._ledger):
            if (row := self._ledger.get(key)) is not None:
                self._context.journal.noted_of(row, events.STEPPED_ASIDE)

    async def settle(self, key: ContainerKey) -> bool:
        """Wait for calls about the container and bring it where it may be now; False when the runtime refused for good.

        A start that is only presumed is not waited for. Memory of a running container is not moved: that takes long,
        and no start waits for it.
        """
        # The kernel would never see an update during a start.
        while (row := self._ledger.get(key)) is not None and self._ledger.starts.loses_updates(row):
            await self.starts_changed()
        task = self._awaited.get(key)
        if task is None or task.done():
            task = self._awaited[key] = self._updates.start(self._settle(key), name=f"clear {key.name}")
            task.add_done_callback(
                lambda done: self._awaited.pop(key, None) if self._awaited.get(key) is done else None
            )
        # A caller that stops waiting cancels nothing: others may wait for the same update.
        await asyncio.shield(task)
        return key not in self.failures

    async def start_known(self, key: ContainerKey) -> None:
        """Wait until no start of this container is under way."""
        while (row := self._ledger.get(key)) is not None and row.container_id in self._ledger.starts:
            await self.starts_changed()

    async def starts_changed(self) -> None:
        """Wait until a start has ended, or the runtime has taken an update during one that is presumed."""
        await self._starts_changed.wait()

    async def _settle(self, key: ContainerKey) -> None:
        async with self.lock(key):
            await self.settle_locked(key)

    async def settle_locked(self, key: ContainerKey, *, moves_memory: bool = False) -> bool:
        """Do the same for a caller that holds the container's lock."""
        for delay in (*BACKOFF_SECONDS, None):
            row = self._ledger.get(key)
            if row is None or row.state not in ACTIVE or not row.container_id:
                return True
            try:
                await self._bring(row, moves_memory=moves_memory)
            except CallFailed as error:
                # A refusal may be the first sign of an exit, before the runtime's event or the slow check.
                if end := "gone" if error.code == NOT_FOUND else await self._end_of(row):
                    self._context.signals.container_ended.send(row, end)
                    return True
                problem = error.message
            except RuntimeUnavailable as error:
                problem = error.problem
            else:
                self.failures.pop(key, None)
                return True
            if delay is None:
                self.failures[key] = problem
                self._context.journal.update_failed(row, problem)
            else:
                await self._context.clock.sleep(delay)
        return False

    async def _end_of(self, row: Row) -> str:
        """Return how a container ended whose update was refused before its exit was noted; '' if it may be alive."""
        request, read = pb.ContainerStatusRequest(container_id=row.container_id), pb.ContainerStatusResponse.FromString
        try:
            answer = await ask(self._context.channel, request, read, timeout_seconds=STATUS_TIMEOUT_SECONDS)
        except (CallFailed, RuntimeUnavailable) as error:
            return "gone" if isinstance(error, CallFailed) and error.code == NOT_FOUND else ""
        return "exited" if answer.status.state == pb.CONTAINER_EXITED else ""

    async def settle_all(self) -> None:
        """Update until nothing differs or nothing more can be done."""
        self.schedule()
        await self._updates.join()

    async def close(self) -> None:
        """Cancel what is under way: its outcome counts as unknown."""
        self._queue.clear()  # else each that is cancelled would make room for the next
        await self._updates.cancel()

    def retry_failed(self) -> None:
        """Try the failed updates again."""
        self.failures.clear()
        self.schedule()

    async def _run_scheduled(self, key: ContainerKey) -> None:
        """Update this container in the slot that was taken for it; a start that waits for it needs none."""
        lock = self.lock(key)
        if lock.locked():
            # Its holder may wait for a slow runtime: the slot would be missing for other containers.
            self._free_slot()
            async with lock:
                pass
            self._queue.appendleft(key)
            self._fill_slots()
            return
        try:
            try:
                async with lock:
                    is_settled = await self.settle_locked(key)
            finally:
                self._free_slot()
            row = self._ledger.get(key)
            step = self._next_step(row) if is_settled and row is not None else None
            if step is not None and self._moves_pages(*step):
                # One move at a time. The container's lock is free while this one waits.
                async with self._moves, self.lock(key):
                    await self.settle_locked(key, moves_memory=True)
        finally:
            self._scheduled.discard(key)
        if self._is_held_back:  # perhaps by CPUs that this container has given up
            self.schedule()

    async def _bring(self, row: Row, *, moves_memory: bool) -> None:
        """Send what differs: CPUs with memory nodes that only widen; a call of its own for what moves memory."""
        while (step := self._next_step(row)) is not None:
            current, pinning = step
            is_move = self._moves_pages(current, pinning)
            # The CPUs are done: a start that waits for these must not wait while the kernel moves gigabytes.
            if is_move and not moves_memory:
                return
            if not is_announced(current, pinning):
                await self.announce(current, pinning)
                continue  # what may be sent can have changed while that was saved
            await self._send(current, pinning, MOVE_TIMEOUT_SECONDS if is_move else UPDATE_TIMEOUT_SECONDS)

    def _next_step(self, row: Row) -> tuple[Row, Pinning] | None:
        """Return the container as it is now and what the next call carries; None when none is needed."""
        current = self._present(row)
        if current is None or current.state not in ACTIVE:
            return None  # a newer attempt of the same name is another container, with an update of its own
        target = self._ledger.due(current)
        if target is None:
            return None
        missing = current.unmet(target)
        # Memory nodes that only widen go with CPUs, others later.
        if missing.cpus is not None and self._moves_pages(current, missing):
            missing = replace(missing, mems=None)
        if missing.cpus is not None and missing.mems is None:
            missing = replace(missing, mems=self._nodes_left(current))
        return current, missing

    def _nodes_left(self, row: Row) -> NodeSet | None:
        """Return the recorded memory nodes without those that are gone; None when none is gone."""
        # The runtime writes its whole record with every update, and the kernel refuses a node without memory.
        held, there = row.known.mems, self._ledger.policy.machine.memory_nodes
        return None if held is None or held <= there else (held & there) or there

    def _moves_pages(self, row: Row, pinning: Pinning) -> bool:
        """Return whether this takes memory nodes from a running container: the kernel then moves its pages (v2)."""
        if pinning.mems is None or row.state != "running":
            return False
        held = row.known.mems
        # Without recorded memory nodes a container can use all of them, so naming some narrows it. A node that is gone
        # has no pages to move, and the kernel refuses every update until the runtime's record has lost it.
        return held is None or not held & self._ledger.policy.machine.memory_nodes <= pinning.mems

    def without_move(self, row: Row, pinning: Pinning) -> Pinning:
        """Return the pinning for a call that carries other things too: a later call of its own moves memory."""
        held = row.known.mems
        if held is None or not self._moves_pages(row, pinning):
            return pinning
        return replace(pinning, mems=self._nodes_left(row) or held)

    async def announce(self, row: Row, pinning: Pinning) -> bool:
        """Save that the container may be on these CPUs and memory nodes, before the call that puts it there.

        Return False when it could not be saved.
        """
        # If this process dies before the answer, the next one sends it again and assumes both sets until then.
        self._ledger.mark_unconfirmed(row.key, pinning)
        unconfirmed = self._ledger.get(row.key)
        return unconfirmed is None or await self._context.persistence.save([unconfirmed])

    async def _send(self, row: Row, step: Pinning, timeout_seconds: float) -> None:
        self.sent += 1
        self.untouched.discard(row.container_id)
        # During a start runc takes it and the kernel never sees it.
        may_be_lost = self._ledger.starts.note_sending(row)
        self.calls.begin_update(row)
        is_answered = False
        try:
            await self._context.channel.unary(
                UPDATE, update_request(row.container_id, step), timeout_seconds=timeout_seconds
            )
            is_answered = True
        except (CallFailed, RuntimeUnavailable, asyncio.CancelledError) as error:
            is_answered = isinstance(error, CallFailed) and error.code not in UNKNOWN_OUTCOME
            # A refusal does not prove that nothing changed: runc writes one file after the other.
            if self._present(row) is not None:
                self._ledger.mark_unconfirmed(row.key, step)
            raise
        finally:
            self.calls.end_update(row.key, is_answered=is_answered)
        confirmed = None
        # Taken is not done: runc may have read the old cpuset by then, so it counts beside what was there before.
        if may_be_lost:
            confirmed = self._ledger.note_taken(row, step)
            self._wake_waiting()
        elif self._present(row) is not None:
            confirmed = self._ledger.confirm(row.key, step)
        if confirmed is not None:
            self._context.persistence.save_later([confirmed])
        self._context.journal.updated(row, step)

    def _present(self, row: Row) -> Row | None:
        """Return the container's row as it is now; None when it is gone or replaced by a newer attempt."""
        current = self._ledger.get(row.key)
        return current if current is not None and current.container_id == row.container_id else None


def is_announced(row: Row, pinning: Pinning) -> bool:
    """Return whether the saved row already allows for a call with this pinning: see ``Effects.announce``."""
    expected = row.unconfirmed.over(row.acknowledged) if row.unconfirmed is not None else row.known
    return pinning.over(expected) == expected
