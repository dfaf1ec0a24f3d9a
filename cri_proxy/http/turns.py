"""Whose turn it is to have the event loop for an answer: the loop that answers is the one that relays calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cri_proxy.clock import Clock


class Turns:
    """One answer at a time, and after it the loop belongs to others for as long as the answer took.

    So all who ask here get half of the loop's time together, however many they are and however fast they ask. Who
    asks now and then never waits.
    """

    def __init__(self, clock: Clock) -> None:
        """Nobody has had a turn yet."""
        self._clock = clock
        self._lock = asyncio.Lock()
        self._rests_until_seconds = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for one's turn, at least until the loop has looked at everybody else once."""
        async with self._lock:
            await self._clock.sleep(self._rests_until_seconds - self._clock.monotonic_seconds())
            began_seconds = self._clock.monotonic_seconds()
            try:
                yield
            finally:
                now_seconds = self._clock.monotonic_seconds()
                self._rests_until_seconds = now_seconds + (now_seconds - began_seconds)
