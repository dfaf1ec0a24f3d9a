"""The calls that a relay on grpcio has under way: those that end by themselves, and those that somebody must end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Flight:
    """Who is under way. Handlers are wrapped once, when they are made."""

    def __init__(self) -> None:
        """Nobody is."""
        self._count = 0
        self._changed = asyncio.Event()
        self._limits: set[asyncio.Timeout] = set()  # of those without end

    def counted(self, answer: Callable[_P, Awaitable[_R]]) -> Callable[_P, Coroutine[object, object, _R]]:
        """The same handler, for calls that are waited for."""

        async def answer_counted(*args: _P.args, **named: _P.kwargs) -> _R:
            self._count += 1
            try:
                return await answer(*args, **named)
            finally:
                self._count -= 1
                self._changed.set()

        return answer_counted

    def endless(
        self, answer: Callable[_P, Awaitable[None]], on_end: Callable[_P, Awaitable[None]]
    ) -> Callable[_P, Coroutine[object, object, None]]:
        """The same handler, for calls that ``end`` ends; then ``on_end`` says so to the caller."""

        async def answer_until_ended(*args: _P.args, **named: _P.kwargs) -> None:
            limit = asyncio.timeout(None)
            try:
                async with limit:
                    self._limits.add(limit)
                    await answer(*args, **named)
            except TimeoutError:
                if not limit.expired():
                    raise
                await on_end(*args, **named)
            finally:
                self._limits.discard(limit)

        return answer_until_ended

    async def landed(self) -> None:
        """Wait until none is under way but those without end."""
        while self._count:
            self._changed.clear()
            await self._changed.wait()

    def end(self) -> None:
        """End those without end."""
        now = asyncio.get_running_loop().time()
        for limit in self._limits:
            limit.reschedule(now)
