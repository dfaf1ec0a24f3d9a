"""Improve placements when room returns (narrower memory, the CPUs they asked for), and end cold starts that are due.

Small steps, off the path of the call that freed the room: one after each release, all of them in the slow check. Only
the slow check moves containers that share and have all they asked for, a few at a time.
A container whose own start, update or creation is under way is left alone.
"""

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator, Part
from cri_proxy.node.effects import Effects
from cri_proxy.node.replan import off_loop
from cri_proxy.state.rows import Row
from policies.base import Allocations, ContainerKey, Grant, Placed, QosClass
from policies.policy import Policy

# Containers that are tried after one release: each costs a decision on the event loop.
TRIED_AT_ONCE = 4
# Steps of one slow check; the next one continues.
STEPS = 64
# How long the second step after a release waits for calls under way: the runtime may never answer them.
BUSY_SECONDS = 5.0
# While a cold start lasts the clock is checked so often: it may be set, and starts come and go.
TICK_SECONDS = 1.0
NARROWED = "there is room again for its memory"  # it was widened for lack of room
SMALLER = "a narrower pool has all of its own CPUs"  # it was resized
SPILLS = "UnlimitedMemory decides for containers without a memory limit"  # it came before that was set
PLACED = "there is room for what it asked for again"  # it had to share
BETTER = "a fresh decision would place it there"  # its place was full when it came, or it had to move

T = TypeVar("T")

_QOS_ORDER = (QosClass.GUARANTEED, QosClass.BURSTABLE, QosClass.BEST_EFFORT)


class Rebalance(Part):
    """Looks for better placements; the coordinator applies them."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator) -> None:
        super().__init__(context, effects, coordinator)
        self._is_due = False
        self._is_thorough = False
        self._busy: list[ContainerKey] = []
        # The containers that share are looked at in turns: behind which of them to go on, in which state of the ledger
        # this round began, and in which one a whole round found nothing.
        self._looked_at: ContainerKey | None = None
        self._round_version = self._settled_version = -1
        context.signals.room_freed.connect(self.soon)

    def soon(self, *, thoroughly: bool = False) -> None:
        """Take one step in the background, however often this is called until then.

        ``thoroughly``: as many steps as help, as after CPUs came back.
        """
        self._is_thorough |= thoroughly
        if not self._is_due and self._coordinator.is_ready and self._ledger.active():
            self._is_due = True
            self._context.tasks.start(self._once(), name="rebalance")

    async def _once(self) -> None:
        """Step, and once more after the calls that were under way, as after every release."""
        # Reset first: room that returns during the step asks for another one.
        is_thorough, self._is_due, self._is_thorough = self._is_thorough, False, False
        for is_last in (False, True):
            if is_thorough:
                await self.improve_all()
            else:
                self.improve()
            if is_last or not self._busy:
                return
            with suppress(TimeoutError):  # an end that comes later has the slow check
                async with asyncio.timeout(BUSY_SECONDS):
                    # Waiting is all that is wanted of the lock: its holder has a call under way.
                    for key in self._busy[:TRIED_AT_ONCE]:
                        await self._effects.start_known(key)
                        async with self._effects.lock(key):
                            pass

    async def improve_all(self) -> None:
        """Take steps until none helps any more, for all containers, computed off the event loop."""
        for _ in range(STEPS):
            self._busy = []
            narrowed = self._narrow(await self._compute(lambda policy, held: policy.narrowed(held)))
            waiting = self._waiting()
            placed = await self._compute(partial(_first_place, waiting=waiting)) if waiting else ()
            if not self._regrant(placed, PLACED) and not narrowed:
                return

    def improve(self) -> bool:
        """Take one step: what the policy narrows at once, and one container's better place. False when nothing changed.

        Only the most urgent few of the waiting containers are tried.
        """
        self._busy = []
        narrowed = self._narrow(self._ledger.policy.narrowed(self._ledger.allocations))
        waiting = self._waiting()[:TRIED_AT_ONCE]
        placed = _first_place(self._ledger.policy, self._ledger.allocations, waiting)
        return self._regrant(placed, PLACED) or narrowed

    async def come_home(self) -> None:
        """Move the next few containers that share to better places; a node where nothing changes is looked at once."""
        if self._looked_at is None:
            if self._ledger.version == self._settled_version:
                return
            self._round_version = self._ledger.version
        after = self._looked_at
        found = await self._compute(lambda policy, held: policy.better_places(held, after))
        self._looked_at = found.last
        # Each place counts on the moves before it; those that share a pod's CPUs move together.
        busy = [grant for grant in found.grants if not self._is_idle(self._ledger.get(grant.container))]
        moves = found.grants[: found.grants.index(busy[0])] if busy else found.grants
        together = [grant for grant in moves if not any(grant.shares_cpus_with(other) for other in busy)]
        if self._coordinator.regrant(together, BETTER, came_home=True):
            self.soon(thoroughly=True)  # their memory follows, in calls of its own: it may take long
        # A round takes several checks: only one during which nothing changed proves that no better place is left.
        if found.last is None and not found.grants and self._ledger.version == self._round_version:
            self._settled_version = self._round_version

    async def _compute(self, look: Callable[[Policy, Allocations], T]) -> T:
        """Compute this on a thread, again where the ledger has changed meanwhile."""
        return await off_loop(
            lambda: self._ledger.version, lambda: partial(look, self._ledger.policy, self._ledger.allocations)
        )

    def _narrow(self, grants: Iterable[Grant]) -> bool:
        """Change the grants that the policy narrows, each for its own reason."""
        changes: dict[str, list[Grant]] = {NARROWED: [], SMALLER: [], SPILLS: []}
        for grant in grants:
            row = self._ledger.get(grant.container)
            changes[_why_narrow(row.grant if row is not None else grant, grant)].append(grant)
        changed = [self._regrant(same, why, came_home=why == SMALLER) for why, same in changes.items()]
        return any(changed)

    def _regrant(self, grants: Iterable[Grant], why: str, *, came_home: bool = False) -> bool:
        """Change the grants of those that no call is under way about; of those that share a pod's CPUs all or none."""
        wanted = tuple(grants)
        busy = [grant for grant in wanted if not self._is_idle(self._ledger.get(grant.container))]
        idle = [g for g in wanted if g not in busy and not any(g.shares_cpus_with(other) for other in busy)]
        return bool(self._coordinator.regrant(idle, why, came_home=came_home))

    def _waiting(self) -> list[Row]:
        """Return the containers that share for lack of room, the most urgent first."""
        waiting = [row for row in self._ledger.active() if row.grant.is_overcommitted and self._is_idle(row)]
        waiting.sort(key=lambda row: (-row.grant.request.cpu_request_mcpu, row.created_order))
        # Stable: within a QoS class the order of the line above stays.
        return sorted(waiting, key=lambda row: _QOS_ORDER.index(row.grant.request.pod.qos))

    def _is_idle(self, row: Row | None) -> bool:
        """Return whether the runtime has it and no call about it is under way."""
        if row is None or row.state not in ("created", "running"):
            return False
        if self._effects.is_busy(row.key):
            self._busy.append(row.key)
            return False
        return True


def _why_narrow(before: Grant, after: Grant) -> str:
    if before.pool != after.pool:
        return SMALLER
    return SPILLS if before.spill != after.spill else NARROWED


def _first_place(policy: Policy, held: Allocations, waiting: Iterable[Row]) -> tuple[Grant, ...]:
    """Return the grant of the first that gets all it asked for without moving others; () where there is none.

    Containers that share the CPUs of their pod get theirs together.
    """
    for row in waiting:
        request = row.grant.request
        # It exists: whatever cost files list by now, its devices are those that it was created with.
        kept = row.grant.as_elsewhere
        decision = policy.decide(held, replace(request, previous=kept) if kept is not None else request)
        if isinstance(decision, Placed) and not decision.grant.is_overcommitted:
            grant = decision.grant
            # It waits rather than move others (docs/placement.md, Coming home).
            if all(other.shares_cpus_with(grant) for other in decision.moved):
                return (grant, *decision.moved)
    return ()


class ColdStarts(Part):
    """Ends cold starts: a container that begins on slow memory alone gets DRAM too once its time is over.

    The deadline counts from the start that the runtime confirmed, by the wall clock. It is saved with the row, so a
    restart of the proxy neither loses nor renews it.
    """

    async def watch(self) -> None:
        """End each cold start when its time is over; sleep while there is none. Runs until cancelled."""
        while True:
            await self._coordinator.wait_ready()
            if not self.end_due():
                # No await since the look: a cold start that begins in between would be slept through.
                self._context.signals.cold_start_began.clear()
                await self._context.signals.cold_start_began.wait()
            await self._context.clock.sleep(TICK_SECONDS)

    def look(self) -> None:
        """End what is due now; wake ``watch`` where a cold start still lasts."""
        if self.end_due():
            self._context.signals.cold_start_began.set()

    def end_due(self) -> bool:
        """End the cold starts whose time is over; return whether any still lasts."""
        now = self._context.clock.now_seconds()
        for row in list(self._ledger.active()):
            if not row.grant.is_cold or row.state != "running":
                continue
            lasts_seconds = row.grant.request.preferences.cold_start_seconds
            if row.warm_at_seconds is None or row.warm_at_seconds - now > lasts_seconds:
                # The start's reply was missed, or the clock was set back: count its time from now.
                dated = replace(row, warm_at_seconds=now + lasts_seconds)
                self._ledger.put(dated)
                self._context.persistence.save_later([dated])
            elif row.warm_at_seconds <= now and not self._effects.is_busy(row.key):
                grants = self._ledger.policy.after_cold_start(self._ledger.allocations, row.key)
                if all(grant.container != row.key for grant in grants):  # a policy without cold starts
                    # Else it would be due at every tick.
                    grants = (*grants, replace(row.grant, is_cold=False))
                self._coordinator.regrant(grants, "its cold start is over")
        return any(row.grant.is_cold for row in self._ledger.active())
