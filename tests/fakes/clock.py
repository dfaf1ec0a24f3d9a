"""Clocks that move only when told to, or with the turns of the loop."""

import asyncio
import heapq


class LoopClock:
    """The time of the running loop: on a ``LoneLoop`` it passes only while nobody has anything to do."""

    def now_seconds(self) -> float:
        return 1_000_000.0 + self.monotonic_seconds()

    def monotonic_seconds(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))


class ManualClock:
    """Implements ``cri_proxy.clock.Clock``. ``advance`` wakes the sleepers whose time has come, in order."""

    def __init__(self, now_seconds: float = 1_000_000.0) -> None:
        self._now = now_seconds
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._count = 0
        self.slept: list[float] = []

    def now_seconds(self) -> float:
        return self._now

    def monotonic_seconds(self) -> float:
        return self._now

    @property
    def waiting(self) -> int:
        return sum(not future.done() for _, _, future in self._sleepers)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._count += 1
        heapq.heappush(self._sleepers, (self._now + seconds, self._count, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Let this much time pass, waking each sleeper at its own moment."""
        end = self._now + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            when, _, future = heapq.heappop(self._sleepers)
            self._now = when
            if not future.done():
                future.set_result(None)
            # Several rounds: who wakes may start tasks that sleep in their turn.
            for _ in range(5):
                await asyncio.sleep(0)
        self._now = end
