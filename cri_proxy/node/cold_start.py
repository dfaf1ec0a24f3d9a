"""End cold starts: a container that begins on slow memory alone gets DRAM too once its time is over.

The deadline counts from the start that the runtime confirmed, by the wall clock. It is saved with the row, so a
restart of the proxy neither loses nor renews it.
"""

from dataclasses import replace

from cri_proxy.node.context import Context
from cri_proxy.node.coordinator import Coordinator
from cri_proxy.node.effects import Effects

# While a cold start lasts the clock is checked so often: it may be set, and starts come and go.
TICK_SECONDS = 1.0


class ColdStarts:
    """One timer for all containers of the node."""

    def __init__(self, context: Context, effects: Effects, coordinator: Coordinator) -> None:
        self._context = context
        self._ledger = context.ledger
        self._effects = effects
        self._coordinator = coordinator
        self._began = context.signals.cold_start_began

    async def watch(self) -> None:
        """End each cold start when its time is over; sleep while there is none. Runs until cancelled."""
        while True:
            await self._coordinator.wait_ready()
            if not self.end_due():
                self._began.clear()
                await self._began.wait()
            await self._context.clock.sleep(TICK_SECONDS)

    def look(self) -> None:
        """End what is due now; wake ``watch`` where a cold start still lasts."""
        if self.end_due():
            self._began.set()

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
                    grants = (*grants, replace(row.grant, is_cold=False))
                self._coordinator.regrant(grants, "its cold start is over")
        return any(row.grant.is_cold for row in self._ledger.active())
