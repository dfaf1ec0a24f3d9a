"""Whose turn it is to have the event loop for an answer: the loop that answers is the one that relays calls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

from cri_proxy.clock import Clock
from cri_proxy.slices import Slices

T = TypeVar("T")


class Turns:
    """One answer at a time, and after it the loop belongs to others for as long as the answer took.

    So all who ask here get half of the loop's time together, however many they are and however fast they ask. Who
    asks now and then never waits.
    """

    def __init__(self, clock: Clock) -> None:
        """Nobody has had a turn yet."""
        self._clock = clock
        self._lock, self._long = asyncio.Lock(), asyncio.Lock()
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

    async def take(self, work: Slices[T]) -> T:
        """Do this with a turn for every slice: short answers come in between, other long ones after it.

        So there is one at a time that is half done and takes memory.
        """
        async with self._long:
            try:
                while True:
                    async with self.turn():
                        try:
                            next(work)
                        except StopIteration as done:
                            result: T = done.value
                            return result
            finally:
                work.close()
