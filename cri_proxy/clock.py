"""``Clock``: wall time, monotonic time and sleep as a constructor argument; ``SystemClock`` is the machine's."""

import threading
import time
from collections.abc import Callable
from typing import Final, Protocol


class SteadySeconds:
    """CLOCK_MONOTONIC that goes on where it is set back: restoring a process or moving a machine may do so.

    Else all that waits would wait for as long again, the pings of the watchdog too. Threads may share it.
    """

    def __init__(self, read: Callable[[], float] = time.monotonic) -> None:
        """``read`` is the clock."""
        self._read = read
        self._lock = threading.Lock()
        self._ahead = 0.0
        self._last = read()

    def __call__(self) -> float:
        """Return seconds since some fixed moment, never less than before."""
        now = self._ahead + self._read()  # in this order: what is ahead grows when the clock is set back
        if now >= self._last:
            self._last = now
            return now
        # Set back; or another thread has read it since. Read again: that one may have noticed the same.
        with self._lock:
            now = self._read() + self._ahead
            if now < self._last:
                self._ahead += self._last - now
                return self._last
            self._last = now
            return now


steady_seconds: Final = SteadySeconds()


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
        """Return ``steady_seconds``."""
        return steady_seconds()

    async def sleep(self, seconds: float) -> None:
        """Wait on the running event loop."""
        import asyncio  # helpers measure durations too, and have no event loop

        await asyncio.sleep(max(0.0, seconds))
