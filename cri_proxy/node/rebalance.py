"""What gets better when room returns: memory comes back to fewer nodes, and who had to share gets its CPUs.

Small steps, off the path of the call that made the room: one after each release, all of them in the slow check.
Nobody whose own start, update or creation is under way is touched.
"""

import asyncio
from collections.abc import Callable, Iterable
from functools import partial

from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator
from cri_proxy.node.effects import Effects
from cri_proxy.node.replan import RACES
from cri_proxy.state.rows import Row
from policies.base import Allocations, ContainerKey, CpuKind, Grant, Placed, QosClass
from policies.policy import Policy

# Containers that are looked at for a better place after one release: each costs a decision on the event loop.
TRIED_AT_ONCE = 4
# Steps of one slow check; the next goes on.
STEPS = 64

_QOS_ORDER = (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT)


class Rebalance:
    """Looks for what can be improved; the coordinator takes it over."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator) -> None:
        """Take a step after each ``Signals.room_freed``."""
        self._context = context
        self._ledger = context.ledger
        self._effects = effects
        self._coordinator = coordinator
        self._is_due = False
        self._is_thorough = False
        self._busy: list[ContainerKey] = []
        context.signals.room_freed.connect(self.soon)

    def soon(self, *, thoroughly: bool = False) -> None:
        """Take a step when whoever made room has ended; several preferences until then are one.

        ``thoroughly``: as many as help, as after CPUs came back.
        """
        self._is_thorough |= thoroughly
        if not self._is_due and self._coordinator.is_ready:
            self._is_due = True
            self._context.tasks.start(self._once(), name="rebalance")

    async def _once(self) -> None:
        """Where somebody was just being written, as after every release, once more when that is done."""
        is_thorough, self._is_due, self._is_thorough = self._is_thorough, False, False
        for is_last in (False, True):
            if is_thorough:
                await self.improve_all()
            else:
                self.improve()
            if is_last or not self._busy:
                return
            for key in self._busy[:TRIED_AT_ONCE]:
                async with self._effects.lock(key):
                    pass

    async def improve_all(self) -> None:
        """Take steps until none helps any more; what would help is looked for off the event loop, at everybody."""
        for _ in range(STEPS):
            self._busy = []
            narrowed = self._narrow(await self._looked(lambda policy, held: policy.narrowed(held)))
            waiting = self._waiting()
            placed = await self._looked(partial(_first_place, waiting=waiting)) if waiting else ()
            if not self._place(placed) and not narrowed:
                return

    def improve(self) -> bool:
        """One step: what the policy narrows at once, and one container's better place. False when nothing changed.

        Of those who wait for a place the most urgent few are looked at.
        """
        self._busy = []
        narrowed = self._narrow(self._ledger.policy.narrowed(self._ledger.allocations))
        waiting = self._waiting()[:TRIED_AT_ONCE]
        return self._place(_first_place(self._ledger.policy, self._ledger.allocations, waiting)) or narrowed

    async def _looked(self, look: Callable[[Policy, Allocations], tuple[Grant, ...]]) -> tuple[Grant, ...]:
        """What is seen on the ledger as it is, looked for on a thread; again where somebody decided meanwhile."""
        for _ in range(RACES):
            policy, held = self._ledger.policy, self._ledger.allocations
            seen = await asyncio.to_thread(look, policy, held)
            if self._ledger.policy is policy and self._ledger.allocations is held:
                return seen
        return look(self._ledger.policy, self._ledger.allocations)

    def _narrow(self, grants: Iterable[Grant]) -> bool:
        """Memory that was widened for want of room comes back."""
        free = [grant for grant in grants if self._is_idle(self._ledger.get(grant.container))]
        return bool(self._coordinator.regrant(free, "there is room again for its memory"))

    def _place(self, grants: Iterable[Grant]) -> bool:
        """A container that had to share gets all it asked for."""
        free = [grant for grant in grants if self._is_idle(self._ledger.get(grant.container))]
        return bool(self._coordinator.regrant(free, "there is room for what it asked for again"))

    def _waiting(self) -> list[Row]:
        """Those who share for want of room, the most urgent first."""
        waiting = (row for row in self._ledger.active() if lacks_cpus(row.grant) and self._is_idle(row))
        return sorted(waiting, key=_urgency)

    def _is_idle(self, row: Row | None) -> bool:
        """Whether the runtime has it and nobody talks to the runtime about it."""
        if row is None or row.state not in ("created", "running"):
            return False
        if self._effects.is_busy(row.key):
            self._busy.append(row.key)
            return False
        return True


def _first_place(policy: Policy, held: Allocations, waiting: Iterable[Row]) -> tuple[Grant, ...]:
    """The grant of the first of these that gets all it asked for with nobody lifted; () where there is none."""
    for row in waiting:
        decision = policy.decide(held, row.grant.request)
        if isinstance(decision, Placed) and not decision.moved and not lacks_cpus(decision.grant):
            return (decision.grant,)
    return ()


def lacks_cpus(grant: Grant) -> bool:
    """Whether a container that asked for CPU time shares without any booked: what a forced re-plan leaves."""
    request = grant.request
    if grant.kind is not CpuKind.SHARED or request.pod.qos is QosClass.BEST_EFFORT:
        return False
    return request.cpu_request_mcpu > 0 and not grant.shared_mcpu


def _urgency(row: Row) -> tuple[int, int, int]:
    request = row.grant.request
    return _QOS_ORDER.index(request.pod.qos), -request.cpu_request_mcpu, row.created_order
