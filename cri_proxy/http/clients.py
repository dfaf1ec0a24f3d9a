"""Connections of clients, no more than so many: who has been idle longest gives way to whoever comes."""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager

from cri_proxy.tasks import Tasks


class Clients:
    """The connections of one kind, each served by a task."""

    def __init__(self, most: int) -> None:
        """``most`` may be open at a time."""
        self._most = most
        self._tasks = Tasks()
        self._open: set[asyncio.Task[object]] = set()  # less those that give way and have not ended yet
        self._idle: dict[asyncio.Task[object], None] = {}  # by age, longest first

    def __len__(self) -> int:
        return len(self._open)

    def makes_room(self) -> bool:
        """Whether one more may come; where there is no place, the one that has been idle longest is dropped for it."""
        if len(self._open) < self._most:
            return True
        longest = next(iter(self._idle), None)
        if longest is None:
            return False
        del self._idle[longest]
        self._open.discard(longest)
        longest.cancel()
        return True

    def serve(self, work: Coroutine[object, object, None]) -> None:
        """Serve one that was let in."""
        task = self._tasks.start(work, name="http")
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    def refuse(self, work: Coroutine[object, object, None]) -> None:
        """Tell one that there is no room for it."""
        self._tasks.start(work, name="http")

    @contextmanager
    def idle(self) -> Iterator[None]:
        """The running task waits for its client, and may be dropped meanwhile."""
        task = asyncio.current_task()
        if task is None:  # nobody can be cancelled then
            yield
            return
        self._idle[task] = None
        try:
            yield
        finally:
            self._idle.pop(task, None)

    async def cancel(self) -> None:
        """Drop all and wait until they have ended."""
        await self._tasks.cancel()
