"""Limit HTTP clients: a number of open connections, and half of the event loop's time for building answers."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from functools import partial
from typing import Final, TypeVar

from cri_proxy.clock import Clock
from cri_proxy.steps import Steps
from cri_proxy.tasks import Tasks

T = TypeVar("T")

TURN_SECONDS: Final = 0.001
"""How long a turn of a long answer goes on with further steps: an event loop cannot wait for less in between."""


class ConnectionLimit:
    """Open connections, each served by a task; at the limit a new one replaces the one idle longest.

    Where none is idle, it replaces the one whose client has been sending a body longest.
    """

    def __init__(self, most: int, most_body_bytes: int = 0) -> None:
        """Allow ``most`` at a time, and so many bytes of bodies that are being received, in all."""
        self._most, self._most_body_bytes = most, most_body_bytes
        self._tasks = Tasks()
        self._open: set[asyncio.Task[object]] = set()  # without those that were cancelled and have not ended yet
        # By age, longest first; outside of a task there is none to cancel.
        self._idle: dict[asyncio.Task[object] | None, None] = {}
        self._receiving: dict[asyncio.Task[object] | None, int] = {}  # with the bytes that have come

    def __len__(self) -> int:
        return len(self._open)

    def make_room(self) -> bool:
        """Return whether one more may come; where the limit is reached, drop the one that keeps us waiting longest."""
        if len(self._open) < self._most:
            return True
        # One that sends a body slowly goes next: a few of them could keep the scheduler from every answer.
        longest = next(iter(self._idle), None) or next(iter(self._receiving), None)
        if longest is None:
            return False
        self._drop(longest)
        return True

    def serve(self, work: Coroutine[object, object, None]) -> None:
        """Serve a connection that there was room for."""
        task = self._tasks.start(work, name="http")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def refuse(self, work: Coroutine[object, object, None]) -> None:
        """Refuse a connection that there is no room for."""
        self._tasks.start(work, name="http")

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Mark the running task's connection as one that waits for its client and may be dropped."""
        task = asyncio.current_task()
        self._idle[task] = None
        try:
            yield
        finally:
            self._idle.pop(task, None)

    @contextmanager
    def receiving(self) -> Iterator[Callable[[int], None]]:
        """Mark the running task's connection as one whose client sends a body; call the result for bytes that came.

        Bodies wait here for as long as their clients like. Where they are too many bytes in all, who has been sending
        longest is dropped.
        """
        task = asyncio.current_task()
        self._receiving[task] = 0
        try:
            yield partial(self._received, task)
        finally:
            self._receiving.pop(task, None)

    def _received(self, task: asyncio.Task[object] | None, size_bytes: int) -> None:
        if task in self._receiving:
            self._receiving[task] += size_bytes
        while sum(self._receiving.values()) > self._most_body_bytes:
            # Not the one that has just sent: what it may send alone is bounded by ``read_body``.
            longest = next((other for other in self._receiving if other is not task), None)
            if longest is None:
                return
            self._drop(longest)

    def _drop(self, task: asyncio.Task[object]) -> None:
        self._idle.pop(task, None)
        self._receiving.pop(task, None)
        self._open.discard(task)
        task.cancel()

    async def finish(self, seconds: float) -> None:
        """Drop the idle connections, and wait so long for the others to end."""
        for task in filter(None, self._idle):
            task.cancel()
        if self._open:
            await asyncio.wait(self._open, timeout=seconds)

    async def cancel(self) -> None:
        """Drop all connections and wait until their tasks have ended."""
        await self._tasks.cancel()


class FairShare:
    """Make answers one at a time, and leave the loop to others for as long as each took.

    All clients of one share together get half of the loop's time, however many they are and however fast they ask. A
    client that asks now and then does not wait.
    """

    def __init__(self, clock: Clock) -> None:
        """Start with the loop free."""
        self._clock = clock
        self._lock, self._long = asyncio.Lock(), asyncio.Lock()
        self._rests_until_seconds = 0.0

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for the next turn, at least until the loop has run everything else once."""
        async with self._lock:
            # Also for no time at all: requests that are in the buffer already would be answered without a pause.
            await self._clock.sleep(self._rests_until_seconds - self._clock.monotonic_seconds())
            began_seconds = self._clock.monotonic_seconds()
            try:
                yield
            finally:
                now_seconds = self._clock.monotonic_seconds()
                self._rests_until_seconds = now_seconds + (now_seconds - began_seconds)

    async def run(self, work: Steps[T]) -> T:
        """Return the result of this work, steps of a millisecond in each turn: short answers come in between."""
        async with self._long:  # one at a time is half done and takes memory
            with closing(work):
                while True:
                    async with self.turn():
                        ends_at_seconds = self._clock.monotonic_seconds() + TURN_SECONDS
                        try:
                            next(work)
                            while self._clock.monotonic_seconds() < ends_at_seconds:
                                next(work)
                        except StopIteration as done:
                            result: T = done.value
                            return result
