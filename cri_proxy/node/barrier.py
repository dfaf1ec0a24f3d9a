"""StartContainer is the barrier: no container starts while another can still run on the CPUs it owns.

The container's own lock is held from here until the start's reply, so that no update is sent while runc starts
it. Two starts cannot wait for each other: a container waits only for those that were confirmed on its CPUs
before it was granted them, and it brings its own pinning up to date before it waits.
"""

import asyncio
from dataclasses import dataclass

from cri_proxy import events
from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Refusal
from cri_proxy.node.effects import Effects
from cri_proxy.state.rows import Row
from policies.base import ContainerKey, Rejected
from sysfs.cpuset import CpuSet

# Each round settles everybody who sits on the container's CPUs; more rounds are needed only when a new decision
# falls in between.
ROUNDS = 8


@dataclass(frozen=True, slots=True)
class Ticket:
    """A container whose own lock is held while the kubelet's call about it is in flight."""

    key: ContainerKey
    container_id: str


class Barrier:
    """Holds starts (and growing updates) until the CPUs are free of others."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator) -> None:
        """Works on the node's shared parts."""
        self._context = context
        self._ledger = context.ledger
        self._effects = effects
        self._coordinator = coordinator

    async def before_start(self, container_id: str) -> Ticket | Refusal | None:
        """Wait until this container may start; None when it is not one of ours."""
        row = self._ledger.holder(container_id)
        if row is None:
            return None
        await self._effects.lock(row.key).acquire()
        try:
            refusal = await self._clear(row.key, container_id)
        except BaseException:
            self._effects.lock(row.key).release()
            raise
        if refusal is not None:
            self._effects.lock(row.key).release()
            return refusal
        return Ticket(row.key, container_id)

    async def take(self, container_id: str) -> Ticket | None:
        """Wait until nobody else talks to the runtime about this container; None when it is not one of ours."""
        row = self._ledger.holder(container_id)
        if row is None:
            return None
        await self._effects.lock(row.key).acquire()
        return Ticket(row.key, container_id)

    def done(self, ticket: Ticket) -> None:
        """The call that the ticket was for has its reply: updates of the container go on."""
        self._effects.lock(ticket.key).release()
        self._effects.kick()

    async def clear_for(self, key: ContainerKey) -> bool:
        """Wait until nobody sits on CPUs that this container owns; False when somebody could not be moved."""
        for _ in range(ROUNDS):
            row = self._ledger.get(key)
            sitting = self._ledger.sitting_on(row) if row is not None else ()
            if not sitting:
                return True
            if not all(await asyncio.gather(*(self._effects.settle(other.key) for other in sitting))):
                return False
        return False

    async def _clear(self, key: ContainerKey, container_id: str) -> Refusal | None:
        """Own pinning first, then everybody else's; one re-plan when somebody cannot be moved."""
        for attempt in ("first", "re-planned"):
            row = self._ledger.get(key)
            if row is None or row.container_id != container_id:
                return None  # a newer attempt has taken over; the runtime will say what it thinks of this one
            own = await self._effects.settle_locked(key)
            others = own and await self.clear_for(key)
            # What the container itself could not get before (its CPUs were sat on) it can have now.
            if own and others and await self._effects.settle_locked(key):
                return None
            row = self._ledger.get(key)
            if row is None or (attempt == "first" and others is False and self._place_elsewhere(row)):
                continue
            return self._give_up(row)
        return None

    def _place_elsewhere(self, row: Row) -> bool:
        stuck = CpuSet.of_masks(
            other.acknowledged.cpus.mask & row.grant.owned.mask
            for other in self._ledger.sitting_on(row)
            if other.acknowledged is not None and other.acknowledged.cpus is not None
        )
        return bool(stuck) and not isinstance(self._coordinator.place_elsewhere(row, stuck), Rejected)

    def _give_up(self, row: Row) -> Refusal | None:
        others = ", ".join(
            f"{o.grant.request.pod.name}/{o.key.name} on {o.acknowledged.cpus}"
            for o in self._ledger.sitting_on(row)
            if o.acknowledged is not None
        )
        problem = self._effects.failures.get(row.key)
        text = (
            f"CPUs {row.grant.owned} of {row.grant.request.pod.name}/{row.key.name} could not be cleared: "
            + (f"still in use by {others}" if others else "")
            + (f"; its own update failed: {problem.message}" if problem is not None else "")
        )
        if self._coordinator.rules.on_policy_error == "reject":
            return Refusal("update", text)
        self._context.observer.noted(
            events.VIOLATION, container=row.key.name, pod=row.grant.request.pod.name, reason=text
        )
        return None
