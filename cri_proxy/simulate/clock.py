"""A deterministic clock and a thread-free executor for scenarios, so that every run has the same result."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
# 2024-01-01 00:00 UTC.
START_SECONDS = 1_704_067_200.0


class ScenarioClock:
    """Implements ``cri_proxy.clock.Clock``: waiting takes no time, and moves the clock on."""

    def __init__(self) -> None:
        """Start at ``START_SECONDS``."""
        self._passed = 0.0

    def now_seconds(self) -> float:
        """Return seconds since the epoch."""
        return START_SECONDS + self._passed

    def monotonic_seconds(self) -> float:
        """Return seconds since the scenario began."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Move the clock on and let other tasks run."""
        self._passed += max(0.0, seconds)
        await asyncio.sleep(0)


class InlineExecutor(ThreadPoolExecutor):
    """An event loop's default executor without threads: ``asyncio.to_thread`` runs the function on the loop."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run the function now. What it raises goes to the caller of ``submit``."""
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
