"""Time in a scenario: it passes only when somebody waits, so that every run is the same."""

import asyncio

# 2024-01-01 00:00 UTC: some moment, the same for every run.
START_SECONDS = 1_704_067_200.0


class ScenarioClock:
    """Implements ``cri_proxy.clock.Clock``: waiting takes no time at all, and moves the clock on."""

    def __init__(self) -> None:
        """Starts at ``START_SECONDS``."""
        self._passed = 0.0

    def now_seconds(self) -> float:
        """Seconds since the epoch."""
        return START_SECONDS + self._passed

    def monotonic_seconds(self) -> float:
        """Seconds since the scenario began."""
        return self._passed

    async def sleep(self, seconds: float) -> None:
        """Move the clock on and let others run."""
        self._passed += max(0.0, seconds)
        await asyncio.sleep(0)
