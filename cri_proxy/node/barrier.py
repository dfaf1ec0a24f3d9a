"""Hold a start until no other container is on its CPUs, else re-place, refuse or report it; growing updates wait.

The container's own lock is held from the last check until the start's reply, so that no update is sent while runc
starts it. No lock is held while waiting for another container, so two starts cannot wait for each other.
"""

import asyncio
from dataclasses import dataclass

from cri_proxy import events
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Refusal
from cri_proxy.node.effects import Effects
from cri_proxy.node.ledger.ledger import ACTIVE
from cri_proxy.state.rows import Row
from policies.base import ContainerKey, Rejected
from sysfs.cpuset import CpuSet

# Each round moves every container off the CPUs; a new decision in between makes another round necessary.
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Ticket:
    """A container whose own lock is held while the kubelet's call about it is in flight."""

    key: ContainerKey
    container_id: str
    lock: asyncio.Lock


class Barrier:
    """Holds starts (and growing updates) until the CPUs are free of others."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator) -> None:
        self._context = context
        self._ledger = context.ledger
        self._effects = effects
        self._coordinator = coordinator

    async def before_start(self, container_id: str) -> Ticket | Refusal | None:
        """Wait until this container may start; None when it is not managed here, or holds nothing any more."""
        attempt = "first"
        for _ in range(ROUNDS):
            ticket = await self.take(container_id)
            if ticket is None or await self._is_clear(ticket):
                return ticket
            ticket.lock.release()
            if await self.clear_for(ticket.key) and ticket.key not in self._effects.failures:
                continue
            row = self._ledger.holder(container_id)
            if row is None or attempt != "first" or not self._place_elsewhere(row):
                break
            attempt = "re-planned"
        return await self._give_up(container_id)

    async def take(self, container_id: str) -> Ticket | None:
        """Wait until no call to the runtime about this container is under way; None when it is not managed here."""
        row = self._ledger.holder(container_id)
        if row is None:
            return None
        lock = self._effects.lock(row.key)
        await lock.acquire()
        current = self._ledger.get(row.key)
        if current is not None and current.container_id == container_id and current.state in ACTIVE:
            return Ticket(row.key, container_id, lock)
        lock.release()
        return None

    def done(self, ticket: Ticket) -> None:
        """Release the ticket once its call has a reply: updates of the container go on."""
        ticket.lock.release()
        self._effects.schedule()

    async def clear_for(self, key: ContainerKey, waiting: frozenset[ContainerKey] = frozenset()) -> bool:
        """Wait until no other container is on CPUs that this one owns; False when one could not be moved.

        The caller holds no container's lock. ``waiting`` are the containers that wait for this one: a container on
        its CPUs may itself have to wait until others have left the CPUs that it moves to.
        """
        for _ in range(ROUNDS):
            row = self._ledger.get(key)
            occupants = self._ledger.occupants(row) if row is not None else ()
            if not occupants:
                return True
            self._effects.break_deadlocks()
            behind = waiting | {key}
            await asyncio.gather(*(self.clear_for(o.key, behind) for o in occupants if o.key not in behind))
            if not all(await asyncio.gather(*(self._effects.settle(other.key) for other in occupants))):
                return False
        return False

    async def _is_clear(self, ticket: Ticket) -> bool:
        """Update its own pinning, then return whether its CPUs are clear; no await follows that check."""
        try:
            own = await self._effects.settle_locked(ticket.key)
        except BaseException:
            ticket.lock.release()
            raise
        row = self._ledger.get(ticket.key)
        return row is None or (own and not self._ledger.occupants(row))

    def _place_elsewhere(self, row: Row) -> bool:
        """Place it away from all CPUs of containers that cannot be moved, not only off those that it was to have."""
        occupants = self._ledger.occupants(row)
        known = (o.known.cpus for o in occupants)
        stuck = CpuSet.of_masks(cpus.mask for cpus in (*known, row.grant.owned if occupants else None) if cpus)
        return bool(stuck) and not isinstance(self._coordinator.place_elsewhere(row, stuck), Rejected)

    async def _give_up(self, container_id: str) -> Ticket | Refusal | None:
        """Refuse the start, or let it through and report what is wrong."""
        row = self._ledger.holder(container_id)
        if row is None:
            return None
        text = self._problem_of(row)
        if self._coordinator.rules.on_policy_error == "reject":
            return Refusal("update", text)
        self._context.journal.noted_of(row, events.VIOLATION, reason=text)
        self._context.journal.records.happened(row, "violation", f"started all the same: {text}")
        return await self.take(container_id)

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
