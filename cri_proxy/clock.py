"""Time as something that is passed in, so that tests need not wait for it."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """What tells the time and waits."""

    def now_seconds(self) -> float:
        """Seconds since the epoch, for people: it may jump."""

    def monotonic_seconds(self) -> float:
        """Seconds since some fixed moment, for durations: it never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Wait this long; zero or less lets others run once."""


class SystemClock:
    """The machine's clock."""

    def now_seconds(self) -> float:
        """CLOCK_REALTIME."""
        return time.time()

    def monotonic_seconds(self) -> float:
        """CLOCK_MONOTONIC."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(max(0.0, seconds))
