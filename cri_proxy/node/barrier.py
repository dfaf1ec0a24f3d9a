"""Hold a start until no other container is on its CPUs, else re-place, refuse or report it; growing updates wait.

The container's own lock is held from the last check until the start's reply, so that no update is sent while runc
starts it. No lock is held while waiting for another container, so two starts cannot wait for each other. Every wait
for a call that the runtime does not answer has a bound (docs/placement.md, Enactment).
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import partial

from cri_proxy import events
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Refusal
from cri_proxy.node.effects import Effects
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.node.pending_calls import START_HANGS_SECONDS
from cri_proxy.state.rows import Row
from cri_proxy.tasks import each_of
from policies.base import ContainerKey, Rejected
from sysfs.cpuset import CpuSet

# Updates at the same time that one start waits for: where each takes 8 seconds, 500 are done within half of the time
# that a kubelet waits. All at once would take megabytes, and the runtime a process for each.
AT_ONCE = 128
# Each round moves every container off the CPUs; a new decision in between makes another round necessary.
ROUNDS = 8
# How long a call waits for others to leave its container's CPUs at least, and at most where one of their starts hangs,
# before it is placed elsewhere and once more after that.
CLEAR_SECONDS = START_HANGS_SECONDS
# How often a call that waits for longer looks whether what it waits for hangs.
LOOK_SECONDS = 1.0
# The kubelet's default (runtimeRequestTimeout), for callers without a deadline.
CALLER_SECONDS = 120.0
# How long a call waits for another one about the same container: longer than one update by the daemon may take.
OWN_CALL_SECONDS = 15.0
# How long a start waits for the end of an earlier one whose caller has left; then the runtime is asked to start again.
# A cancelled start may never be carried out, and only the runtime knows.
AGAIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """A container whose own lock is held while the kubelet's call about it is in flight.

    ``starts_again``: an earlier start of it has no known end.
    """

    key: ContainerKey
    container_id: str
    lock: asyncio.Lock
    starts_again: bool = False


class Barrier:
    """Holds starts (and growing updates) until the CPUs are free of others."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator) -> None:
        self._context = context
        self._ledger = context.ledger
        self._effects = effects
        self._coordinator = coordinator

    async def before_start(self, container_id: str, caller_seconds: float | None = None) -> Ticket | Refusal | None:
        """Wait until this container may start; None when it is not managed here, or holds nothing any more.

        Nothing is written for it from then on until ``done``, or until a start without an answer is known to be over.
        ``caller_seconds`` is how long its caller waits from now on; None = no deadline.
        """
        limit, may_move = _limit(caller_seconds), True
        starts_again = False
        for _ in range(ROUNDS):
            ticket = await self.take(container_id, again_after_seconds=AGAIN_SECONDS)
            if not isinstance(ticket, Ticket):
                return ticket
            starts_again = starts_again or ticket.starts_again
            ticket = replace(ticket, starts_again=starts_again)
            if await self._is_clear(ticket):
                # No await since the check: in between another container could come onto these CPUs.
                return self._sent(ticket)
            # Held while it waits for others, two starts could wait for each other's lock.
            ticket.lock.release()
            if not (may_move and self._evades_unanswered(ticket.key)):
                if await self._cleared_by(limit, ticket.key) and ticket.key not in self._effects.failures:
                    continue
                row = self._ledger.holder(container_id)
                if not may_move or row is None or not self._place_elsewhere(row):
                    break
            # Once only: a container that is moved on and on would keep its caller waiting without a bound.
            # On other CPUs others have to leave too: the time that was waited for the first ones is not taken off.
            limit, may_move = max(limit, _from_now(CLEAR_SECONDS)), False
        return await self._give_up(container_id)

    async def take(self, container_id: str, *, again_after_seconds: float | None = None) -> Ticket | Refusal | None:
        """Wait until no call to the runtime about this container is under way; None when it is not managed here.

        Refuse the call when another one gets no answer. After ``again_after_seconds`` an earlier start without a caller
        is no longer waited for; with it one that is only presumed is not waited for at all.
        """
        row = self._ledger.holder(container_id)
        if row is None:
            return None
        lock, starts_again = self._effects.lock(row.key), False
        try:
            async with asyncio.timeout(OWN_CALL_SECONDS):
                await lock.acquire()
                while container_id in self._ledger.starts:  # its caller has left, and its end is not known
                    if again_after_seconds is not None and self._ledger.starts.presumed(row) is not None:
                        starts_again = True
                        break
                    lock.release()
                    starts_again = not await self._start_known(row.key, again_after_seconds)
                    await lock.acquire()
                    # Dropped, or still to come: if the runtime refuses the second start, the first one counts.
                    if starts_again:
                        self._effects.start_ended(container_id)
        except TimeoutError:
            # No lock is held here: each await in the block comes before it is acquired or after its release.
            return Refusal("update", f"another call about this container is under way: {self._calls_text([row])}")
        current = self._ledger.get(row.key)
        if current is not None and current.container_id == container_id and current.state in ACTIVE:
            return Ticket(row.key, container_id, lock, starts_again)
        lock.release()
        return None

    async def _start_known(self, key: ContainerKey, within_seconds: float | None) -> bool:
        """Wait for the end of an earlier start of this container; False when that takes longer than it may."""
        try:
            async with asyncio.timeout(within_seconds) as limit:
                await self._effects.start_known(key)
        except TimeoutError:
            if not limit.expired():
                raise
            return False
        return True

    def done(self, ticket: Ticket) -> None:
        """Release the ticket once its call has an outcome: updates of the container go on."""
        self._effects.start_ended(ticket.container_id)
        self._effects.calls.end_update(ticket.key)
        self.left(ticket)

    def left(self, ticket: Ticket) -> None:
        """Release the ticket of a start whose caller has left; its end is noted by ``Effects.start_ended``."""
        ticket.lock.release()
        self._effects.schedule()

    async def cleared(self, key: ContainerKey, caller_seconds: float | None = None) -> bool:
        """Do the same as ``clear_for``, for so long as a start waits; False when time is over."""
        return await self._cleared_by(_limit(caller_seconds), key)

    async def clear_for(self, key: ContainerKey, waiting: frozenset[ContainerKey] = frozenset()) -> bool:
        """Wait until no other container is on CPUs that this one owns; False when one could not be moved.

        The caller holds no container's lock. ``waiting`` are the containers that wait for this one.
        """
        for _ in range(ROUNDS):
            row = self._ledger.get(key)
            occupants = self._ledger.occupants(row) if row is not None else ()
            if not occupants:
                return True
            # Of containers that wait for each other in a circle none would move, however long this waits.
            self._effects.break_deadlocks()
            # A container on its CPUs may itself have to wait until others have left the CPUs that it moves to.
            behind = waiting | {key}
            others = [occupant.key for occupant in occupants if occupant.key not in behind]
            await each_of(others, partial(self.clear_for, waiting=behind), at_once=AT_ONCE)
            if not all(await each_of(occupants, partial(self._moved_off, key), at_once=AT_ONCE)):
                return False
        return False

    async def _moved_off(self, key: ContainerKey, other: Row) -> bool:
        """Update a container that is on CPUs of this one; False when the runtime refused that for good."""
        is_settled = await self._effects.settle(other.key)
        # It may be starting since before a restart of the proxy, and come alive with the CPUs that it had then.
        while is_settled and self._may_come_alive_on(key, other):
            await self._effects.starts_changed()
        return is_settled

    def _may_come_alive_on(self, key: ContainerKey, other: Row) -> bool:
        row, current = self._ledger.get(key), self._ledger.holder(other.container_id)
        if row is None or current is None or self._ledger.starts.presumed(current) is None:
            return False
        return bool(self._ledger.occupied_by(row, current))

    async def _cleared_by(self, limit: float, key: ContainerKey) -> bool:
        """Do the same as ``clear_for`` until ``limit``, or less when something that it waits for hangs."""
        look = min(limit, _from_now(CLEAR_SECONDS))
        while True:
            try:
                async with asyncio.timeout_at(look):
                    return await self.clear_for(key)
            except TimeoutError:  # what it was to wait for may have got another place meanwhile
                row = self._ledger.get(key)
                if row is None or not self._ledger.occupants(row):
                    return row is not None
                if look >= limit or self._waits_in_vain(row):
                    return False
                look = min(limit, _from_now(LOOK_SECONDS))

    def _waits_in_vain(self, row: Row) -> bool:
        """Return whether a container on its CPUs, or one that this one waits for, has a call that hangs, or starts.

        A start that has been waited for in vain so long may come alive at any time.
        """
        hanging = self._effects.calls.hanging().union(self._ledger.starts)
        seen = set[str]()
        waiting = [row] if hanging else []
        while waiting and hanging.isdisjoint(seen):
            others = [o for o in self._ledger.occupants(waiting.pop()) if o.container_id not in seen]
            seen.update(other.container_id for other in others)
            waiting += others
        return not hanging.isdisjoint(seen)

    def _sent(self, ticket: Ticket) -> Ticket:
        """Note the start that follows at once."""
        row = self._ledger.get(ticket.key)
        if row is not None:
            self._effects.start_sent(row)
        return ticket

    async def _is_clear(self, ticket: Ticket) -> bool:
        """Update its own pinning, then return whether its CPUs are clear; no await follows that check."""
        try:
            own = await self._effects.settle_locked(ticket.key)
        except BaseException:
            ticket.lock.release()
            raise
        row = self._ledger.get(ticket.key)
        return row is None or (own and not self._ledger.occupants(row))

    def _evades_unanswered(self, key: ContainerKey) -> bool:
        """Place it elsewhere at once where it would wait for a call that others have waited for in vain."""
        row = self._ledger.get(key)
        unanswered = self._effects.calls.hanging()
        if row is None or all(other.container_id not in unanswered for other in self._ledger.occupants(row)):
            return False
        return self._place_elsewhere(row, is_last_try=False)

    def _place_elsewhere(self, row: Row, *, is_last_try: bool = True) -> bool:
        """Place it away from all CPUs of containers that cannot be moved, not only off those that it was to have."""
        occupants = self._ledger.occupants(row)
        # Also calls that are not in its way yet: it is moved once only, and would wait in vain for the next of them.
        unanswered = (call.row for call in self._effects.calls.longer_than(CLEAR_SECONDS) if call.row.key != row.key)
        known = (other.known.cpus for other in (*occupants, *unanswered) if occupants)
        here = (self._ledger.occupied_by(row, other) for other in occupants)  # all that it owns where that is unknown
        stuck = CpuSet.of_masks(cpus.mask for cpus in (*known, *here) if cpus)
        if not stuck:
            return False
        return not isinstance(self._coordinator.place_elsewhere(row, stuck, is_last_try=is_last_try), Rejected)

    async def _give_up(self, container_id: str) -> Ticket | Refusal | None:
        """Refuse the start, or let it through and report what is wrong."""
        row = self._ledger.holder(container_id)
        if row is None:
            return None
        text, waits = self._problem_of(row), self._calls_text(self._ledger.occupants(row))
        # In any case while the runtime has yet to answer: another container may come alive on its CPUs.
        if waits or self._coordinator.config.on_policy_error == "reject":
            return Refusal("update", f"{text}; {waits}" if waits else text)
        self._context.journal.noted_of(row, events.VIOLATION, reason=text)
        self._context.journal.records.happened(row, "violation", f"started all the same: {text}")
        ticket = await self.take(container_id, again_after_seconds=AGAIN_SECONDS)
        return self._sent(ticket) if isinstance(ticket, Ticket) else ticket

    def _calls_text(self, rows: Iterable[Row]) -> str:
        """Name the calls about these containers that have no answer; '' when there are none."""
        ids = {row.container_id for row in rows if row.key not in self._effects.failures}
        return ", ".join(str(call) for call in self._effects.calls.longer_than() if call.row.container_id in ids)

    def _problem_of(self, row: Row) -> str:
        others = ", ".join(
            f"{o.grant.request.pod.name}/{o.key.name} on {o.acknowledged.cpus if o.acknowledged else 'unknown CPUs'}"
            for o in self._ledger.occupants(row)
        )
        failure = self._effects.failures.get(row.key)
        problems = (
            f"still in use by {others}" if others else "",
            f"its own update failed: {failure}" if failure is not None else "",
        )
        what = f"CPUs {row.grant.owned}" if row.grant.owned else "the CPUs"
        return f"{what} of {row.grant.request.pod.name}/{row.key.name} could not be cleared: " + (
            "; ".join(p for p in problems if p) or "others keep being placed on them"
        )


def _limit(caller_seconds: float | None) -> float:
    """Return until when a call may wait: half of its caller's time, so that as much is left for the call itself."""
    return _from_now(max(CLEAR_SECONDS, (CALLER_SECONDS if caller_seconds is None else caller_seconds) / 2))


def _from_now(seconds: float) -> float:
    """Return the time of the event loop so long from now."""
    return asyncio.get_running_loop().time() + seconds
