"""CPUs and memory nodes that come and go while the node runs: noticed by a poll, taken over when they stand still.

Nothing is subscribed to: the files are few, and a poll sees changes of cgroups as well, which send no event.
"""

import asyncio
from collections.abc import Awaitable, Callable

from cri_proxy import events
from cri_proxy.clock import Clock
from cri_proxy.node.observer import Observer
from sysfs.fingerprint import Fingerprint

POLL_SECONDS = 5.0
# A machine is taken over once two looks so far apart show the same: CPUs are taken offline one by one.
SETTLE_SECONDS = 0.5
SETTLE_ROUNDS = 20

# Takes the machine over as it is now; '' or why not.
Apply = Callable[[], Awaitable[str]]


class HotplugWatcher:
    """Watches a fingerprint; ``apply`` puts what it stands for in force."""

    def __init__(
        self,
        look: Callable[[], Fingerprint],
        apply: Apply,
        *,
        clock: Clock,
        observer: Observer,
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
        """Look again and again, for ever."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            await self.check()

    async def check(self) -> bool:
        """Look once; when something has changed, wait until it stands still and take it over. Whether it was."""
        seen = await asyncio.to_thread(self._look)
        if seen == self._in_force:
            self._problem = ""
            return False
        seen = await self._settled(seen)
        problem = await self._apply()
        if problem:
            if problem != self._problem:
                self._observer.noted(events.MACHINE_UNREADABLE, reason=problem)
            self._problem = problem  # tried again with every look
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
        """That the machine in force is not the one that is there, and why."""
        if not self._problem:
            return ()
        return (f"the machine has changed and cannot be taken over, the old one stays in force: {self._problem}",)
