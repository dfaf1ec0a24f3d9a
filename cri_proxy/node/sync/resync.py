"""Correct the ledger by the runtime's lists (start, exits, unknown outcomes, slow check), and place unknown containers.

At start nothing correct is touched: a saved grant whose pinning the runtime has acknowledged causes no call. What is
unknown is read, what is unplaced is placed, and what differs is updated, shrinks first.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import replace

from cri_proxy import events
from cri_proxy.cri.proto import cri_v1_pb2 as pb
from cri_proxy.errors import CallFailed, RuntimeUnavailable
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator
from cri_proxy.node.effects import NOT_FOUND, Effects
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.sync import runtime_state
from cri_proxy.node.sync.adoption import Adoption, SyncPart
from cri_proxy.node.sync.placement import LatePlacement
from cri_proxy.node.sync.reconcile import newest_by_key, reconcile, with_abandoned
from cri_proxy.node.sync.runtime_state import LiveContainer
from cri_proxy.node.sync.start_outcomes import StartOutcomes
from cri_proxy.state.rows import Row, Saved

RETRY_SECONDS = 0.2
UNIMPLEMENTED = 12  # gRPC status
# Before an event stream that ended is opened again, and the node checked: first and longest, it doubles. The slow check
# is as frequent as the longest. A stream that lasted as long as that counts as a good one.
EVENTS_PAUSE_SECONDS = (1.0, 30.0)
_ENDS = {pb.CONTAINER_STOPPED_EVENT, pb.CONTAINER_DELETED_EVENT}


class Resync(SyncPart):
    """Asks the runtime and corrects the ledger."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator, adoption: Adoption) -> None:
        super().__init__(context, effects, coordinator, adoption)
        self.placement = LatePlacement(context, effects, coordinator, adoption)
        self._start_outcomes = StartOutcomes(context, effects, coordinator, adoption)
        # Why the last list failed, and the containers that had ended by the last list that did not.
        self.problem = ""
        self.ended_ids: frozenset[str] = frozenset()
        self._unreadable = 0  # items of the last list

    async def recover(self, saved: Saved) -> None:
        """Restore the saved state, adopt what is unknown, then let decisions be made. Waits for the runtime."""
        while True:
            node = self._with_abandoned(await self._first_list())
            try:
                await self._restore(saved, node)
                return
            except RuntimeUnavailable:  # a part of the node would be unknown and its CPUs seem free
                await self._context.clock.sleep(RETRY_SECONDS)

    async def _restore(self, saved: Saved, node: runtime_state.LiveNode) -> None:
        found = reconcile(saved.rows, node)
        self._ledger.sandboxes.update({s.sandbox_id: s for s in saved.sandboxes if s.sandbox_id in node.sandboxes})
        if node.unreadable:  # a sandbox that is not listed may be one of them
            self._ledger.sandboxes.update({s.sandbox_id: s for s in saved.sandboxes})
        gone = {s.sandbox_id: s.pod.uid for s in saved.sandboxes if s.sandbox_id not in self._ledger.sandboxes}
        self._note_unreadable(node)
        self._ledger.put(*found.rows)
        self._ledger.note_stopped(node.stopped)
        await self._ask_unacknowledged(found.rows)
        adopted = await self._adoption.read_all(found.unknown)
        changed = [*await self.placement.reinstate(adopted, self._ledger.next_order())]
        never_created = {row.key: row for row in found.rows if row.state == "exited" and not row.container_id}
        changed += never_created.values()
        dropped = (row for row in saved.rows if row.key in {*never_created, *found.dropped})
        for row in sorted(dropped, key=lambda r: -r.created_order):  # latest first: it was the last to move others
            changed += self._coordinator.undo_displacement(row)
        self._context.journal.records.forgotten(found.dropped)
        pods = self._coordinator.forget_pods({*gone.values(), *(key.pod_uid for key in found.dropped)})
        self._context.persistence.save_later(changed, [*found.dropped, *gone, *pods])
        self._context.journal.noted(
            events.RECOVERED, kept=len(found.rows), dropped=len(found.dropped), adopted=len(adopted)
        )
        abandoned = {c.id for c in node.containers if c.is_abandoned}
        left = (row for row in saved.rows if row.container_id in abandoned)
        # Before the first decision: a start that the process before sent may come alive at any time on the CPUs it had
        # then.
        self._start_outcomes.presume(*left, *self._ledger.active())
        self._coordinator.open()
        if found.dropped:  # before updates go out
            self._context.signals.room_freed.send()
        self._effects.schedule()

    async def _first_list(self) -> runtime_state.LiveNode:
        """Return everything that the runtime has, once it answers; its absence is logged once."""
        is_logged = False
        while True:
            try:
                return await runtime_state.list_node(self._context.channel)
            except (CallFailed, RuntimeUnavailable) as error:
                if not is_logged:
                    self._context.journal.noted(events.RUNTIME_AWAY, reason=str(error))
                is_logged = True
                await self._context.clock.sleep(RETRY_SECONDS)

    async def check_pod(self, pod_uid: str) -> None:
        """Release what has ended in this pod; only its sandboxes are listed."""
        rows = self._ledger.of_pod(pod_uid)
        for sandbox_id in sorted({row.sandbox_id for row in rows}):
            await self._check([r for r in rows if r.sandbox_id == sandbox_id], sandbox_id)

    async def check_all(self, why: str) -> None:
        """Compare every row with one full list; adopt what is unknown."""
        unknown = await self._check(tuple(self._ledger.rows()), "")
        if unknown:
            self._context.journal.noted(events.UNKNOWN_CONTAINERS, count=len(unknown), reason=why)
            await self.placement.adopt(unknown)

    async def await_start(self, container_id: str) -> None:
        """Look for the end of a start without an answer, for a while. The slow check goes on with that."""
        await self._start_outcomes.look_for(container_id)
        await self.check_all("unknown start")

    async def watch(self) -> None:
        """Release exits by the runtime's events, and note starts; end where it has none."""
        first, longest = EVENTS_PAUSE_SECONDS
        pause = first
        while True:
            began = self._context.clock.monotonic_seconds()
            try:
                async for event in runtime_state.container_events(self._context.channel):
                    self._take_event(event)
            except CallFailed as error:
                # Not every runtime has events (KEP-3386): the slow check finds exits then.
                if error.code == UNIMPLEMENTED:
                    return
            except RuntimeUnavailable:
                pass
            if self._context.clock.monotonic_seconds() - began >= longest:
                pause = first
            await self._context.clock.sleep(pause)
            await self._coordinator.wait_ready()
            # A new stream does not repeat what was missed: only the list has it.
            await self.check_all("event stream ended")
            # A runtime that is away costs nothing but the attempt, and its return is to be noticed soon.
            pause = first if self.problem else min(2 * pause, longest)

    def _take_event(self, event: pb.ContainerEventResponse) -> None:
        # By the current id alone: the end of an older attempt frees nothing of the newer one.
        row = self._ledger.holder(event.container_id)
        if event.container_event_type == pb.CONTAINER_STARTED_EVENT:
            self._start_outcomes.note_running(event.container_id)
        elif event.container_event_type in _ENDS:
            # For released and replaced ones as well: a start may outlive the row of its container.
            self._effects.start_ended(event.container_id)
            if row is not None:
                self._coordinator.release(row, "exited")

    async def _check(self, rows: Iterable[Row], sandbox_id: str) -> tuple[LiveContainer, ...]:
        """Release and settle ``rows`` by a list of their sandbox or of the node; return the unknown containers."""
        # Only rows from before the list was requested: a container that was created meanwhile is not in the list.
        before = [row for row in rows if row.state != "reserved"]
        sandboxes_before = tuple(self._ledger.sandboxes)
        starts_before = tuple(self._ledger.starts.values())
        pods = {row.sandbox_id: row.key.pod_uid for row in before}
        try:
            if sandbox_id:
                node = await runtime_state.list_containers(self._context.channel, pods, sandbox_id=sandbox_id)
            else:
                node = await runtime_state.list_node(self._context.channel)
        except (CallFailed, RuntimeUnavailable) as error:
            self.problem = str(error)
            self._context.journal.noted(events.CHECK_FAILED, reason=str(error))
            return ()
        self.problem = ""
        node = self._with_abandoned(node)
        by_id = {c.id: c for c in node.containers}
        newest = newest_by_key(node.containers)
        for row in before:
            listed, latest = by_id.get(row.container_id), newest.get(row.key)
            # What is not listed may be an item that cannot be read.
            if not node.unreadable or (listed if row.container_id else latest) is not None:
                self._judge(row, listed, latest)
        self._ledger.note_stopped(node.stopped)
        self._effects.schedule()
        if not sandbox_id:
            self._note_unreadable(node)
        if not sandbox_id and not node.unreadable:
            self._start_outcomes.note_listed(starts_before, by_id)
            live_ids = {c.id for c in node.containers if c.is_live}
            self.ended_ids = frozenset(row.container_id for row in before) - live_ids
            self._forget_gone(before, sandboxes_before, node)
        # The runtime may list a container before it has answered the call that creates it.
        creating = {row.key for row in self._ledger.active() if not row.container_id}
        unknown = (c for key, c in sorted(newest.items()) if self._is_unknown(c) and key not in creating)
        return tuple(c for c in unknown if not self._adoption.is_given_up(c))

    def _with_abandoned(self, node: runtime_state.LiveNode) -> runtime_state.LiveNode:
        """Mark what no kubelet starts any more, by the starts that are asked for and under way now."""
        starts = self._ledger.starts
        under_way = {row.container_id for row in self._ledger.active() if starts.loses_updates(row)}
        return with_abandoned(
            node, self._context.clock.now_seconds(), lambda i: i in under_way or starts.is_asked_for(i)
        )

    def _note_unreadable(self, node: runtime_state.LiveNode) -> None:
        """Log how many items of the list cannot be read, when that changes."""
        if node.unreadable not in (0, self._unreadable):
            reason = f"{node.unreadable} items of the runtime's lists cannot be read: nothing else counts as gone"
            self._context.journal.noted(events.UNREADABLE_REPLY, reason=reason)
        self._unreadable = node.unreadable

    def _forget_gone(
        self, before: Sequence[Row], sandboxes_before: Sequence[str], node: runtime_state.LiveNode
    ) -> None:
        """Drop sandboxes that were removed without a call through the proxy."""
        for sandbox_id in {row.sandbox_id for row in before} | set(sandboxes_before):
            rows = self._ledger.of_sandbox(sandbox_id)
            if sandbox_id not in node.sandboxes and all(row.state == "exited" for row in rows):
                self._coordinator.forget_sandbox(sandbox_id, "gone")
        self._adoption.keep_left({c.id for c in node.containers if c.is_live})

    def _is_unknown(self, container: LiveContainer) -> bool:
        """Return whether it is live without a grant."""
        row = self._ledger.holder(container.id)
        if row is not None and row.state in ACTIVE:
            return False
        remembered = self._ledger.get(container.key) if row is None else row
        # A created one holds nothing where its own lost place, or another attempt's, is remembered; a start places it.
        is_lost = container.state == "created" and remembered is not None and bool(remembered.container_id)
        return not is_lost and not self._adoption.is_left(container.id)

    def _judge(self, row: Row, listed: LiveContainer | None, newest: LiveContainer | None) -> None:
        current = self._ledger.get(row.key)
        # While the runtime was asked, the kubelet may have made another attempt under the same name.
        if current is None or current.created_order != row.created_order:
            return
        if row.state == "pending":
            if current.state == "pending":  # else another check has resolved it meanwhile
                self._resolve(current, newest)
        elif row.container_id == current.container_id and (listed is None or listed.state == "exited"):
            self._coordinator.release(current, "exited" if listed is not None else "gone")
        elif listed is not None and listed.is_abandoned and current.state == "created":
            self._coordinator.release(current, "never started")
        elif listed is not None and listed.state == "running":
            if current.state == "created" and current.acknowledged and not self._effects.is_busy(current.key):
                # Its start was not observed: what was written during it may be lost and is sent again.
                self._ledger.mark_unconfirmed(current.key, current.acknowledged)
            self._coordinator.set_state(self._ledger.get(current.key) or current, "running")

    def _resolve(self, row: Row, newest: LiveContainer | None) -> None:
        """Settle a create of unknown outcome: the runtime has the container, or it was never created."""
        # One of another sandbox, or that has a row of its own, is another attempt, and not what this call created.
        if newest is None or newest.sandbox_id != row.sandbox_id or self._ledger.holder(newest.id) is not None:
            self._context.journal.not_created(row, "the runtime does not have it", code="not-found")
            self._ledger.drop(row.key)
            # Devices stay the pod's, as after an attempt that ran: it may be that one's that it had again.
            kept = [replace(row, state="exited", displaced=())] if row.grant.devices else []
            self._ledger.put(*kept)
            changed = [*kept, *self._coordinator.undo_displacement(row)]
            self._context.persistence.save_later(changed, [] if kept else [row.key])
            self._effects.schedule()
            return
        resolved = replace(row, container_id=newest.id, state=newest.state, acknowledged=None, displaced=())
        self._ledger.put(resolved)
        self._context.persistence.save_later([resolved])
        self._context.journal.carried_out(resolved)
        self._effects.schedule()

    async def _ask_unacknowledged(self, rows: Sequence[Row]) -> None:
        """Read the present pinning of rows whose last update has no known outcome."""

        async def ask(row: Row) -> None:
            try:
                found = await self._adoption.inspect(row.container_id)
            except CallFailed as error:
                if error.code == NOT_FOUND:
                    self._coordinator.release(row, "gone")
                return
            except RuntimeUnavailable:
                return
            self._adoption.confirm(row.key, self._adoption.pinning(found), has_cpuset=found.cpus is not None)

        async with asyncio.TaskGroup() as group:
            for row in rows:
                if row.state in ACTIVE and row.acknowledged is None:
                    group.create_task(ask(row))
                elif row.state in ACTIVE and row.acknowledged is not None:
                    self._ledger.confirm(row.key, row.acknowledged)
                    if row.unconfirmed is not None:  # sent by a process that ended before the answer: it is sent again
                        self._ledger.mark_unconfirmed(row.key, row.unconfirmed)
