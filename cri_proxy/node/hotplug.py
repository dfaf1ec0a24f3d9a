"""Notice CPUs and memory nodes that come and go, and apply the new machine once it no longer changes.

By a poll: the files are few, and changes of cgroups, which send no event, are seen as well.
"""

import asyncio
from collections.abc import Awaitable, Callable

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.node.decision_log.journal import Journal
from sysfs.fingerprint import Fingerprint

POLL_SECONDS = 5.0
# A machine is applied once two reads so far apart agree: CPUs are taken offline one by one.
SETTLE_SECONDS = 0.5
SETTLE_ROUNDS = 20

# Applies the machine as it is now; returns '' or why that failed.
Apply = Callable[[], Awaitable[str]]


class HotplugWatcher:
    """Watches a fingerprint; ``apply`` puts the machine in force that it stands for."""

    def __init__(
        self,
        look: Callable[[], Fingerprint],
        apply: Apply,
        *,
        clock: Clock,
        observer: Journal,
        in_force: Fingerprint | None = None,
    ) -> None:
        """``look`` may block: it runs on a thread.

        ``in_force`` is the fingerprint of the machine in force, taken *before* that was discovered: no change is lost.
        """
        self._look = look
        self._apply = apply
        self._clock = clock
        self._observer = observer
        self._in_force = in_force
        self._problem = ""

    async def watch(self) -> None:
        """Check every few seconds until cancelled."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            await self.check()

    async def check(self) -> bool:
        """Check once; wait until a change has ended and apply the machine. Return whether a new one is in force."""
        seen = await asyncio.to_thread(self._look)
        if seen == self._in_force:
            self._problem = ""
            return False
        seen = await self._settled(seen)
        problem = await self._apply()
        if problem:
            if problem != self._problem:
                self._observer.noted(events.MACHINE_UNREADABLE, reason=problem)
            self._problem = problem  # tried again with every check
            return False
        self._in_force, self._problem = seen, ""
        return True

    async def _settled(self, seen: Fingerprint) -> Fingerprint:
        for _ in range(SETTLE_ROUNDS):
            await self._clock.sleep(SETTLE_SECONDS)
            again = await asyncio.to_thread(self._look)
            if again == seen:
                break
            seen = again
        return seen

    def warnings(self) -> tuple[str, ...]:
        """Return why the machine in force is not the present one, as a sentence."""
        if not self._problem:
            return ()
        return (f"the machine has changed and cannot be taken over, the old one stays in force: {self._problem}",)
