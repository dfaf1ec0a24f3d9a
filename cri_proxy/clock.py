"""``Clock``: wall time, monotonic time and sleep as a constructor argument; ``SystemClock`` is the machine's."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    """Time of day, durations and waiting."""

    def now_seconds(self) -> float:
        """Return seconds since the epoch, for people; may jump."""

    def monotonic_seconds(self) -> float:
        """Return seconds since some fixed moment, for durations; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Wait this long; zero or less yields to other tasks once."""


class SystemClock:
    """The machine's clock."""

    def now_seconds(self) -> float:
        """Return CLOCK_REALTIME."""
        return time.time()

    def monotonic_seconds(self) -> float:
        """Return CLOCK_MONOTONIC."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        await asyncio.sleep(max(0.0, seconds))
