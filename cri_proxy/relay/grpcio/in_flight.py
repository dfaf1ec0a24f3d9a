"""Count the grpcio relay's calls in flight; for a stop wait for them, end endless ones, hold replies back meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

TICK_SECONDS: Final = 0.01
# Ticks of the loop rather than time, which also passes for a process that does not run.
_QUIET_TICKS: Final = 10
_MOST_TICKS: Final = 200  # for clients that never pause; the last of their calls are lost


class InFlight:
    """Count calls by wrapping their handlers; each handler is wrapped once, when it is made."""

    def __init__(self, *, tick_seconds: float = TICK_SECONDS) -> None:
        """Start without calls. ``gather`` looks for new calls every ``tick_seconds``."""
        self._count = 0
        self._changed = asyncio.Event()
        self._endless: set[asyncio.Timeout] = set()
        self._tick_seconds = tick_seconds
        self._has_new_call = False
        self._may_reply = asyncio.Event()
        self._may_reply.set()

    def arrived(self) -> None:
        """Note that a call has arrived."""
        self._has_new_call = True

    def counted(self, answer: Callable[_P, Awaitable[_R]]) -> Callable[_P, Coroutine[object, object, _R]]:
        """Return a handler whose calls ``ended`` waits for, and whose replies wait while calls are gathered."""

        async def answer_counted(*args: _P.args, **named: _P.kwargs) -> _R:
            self._count += 1
            try:
                result = await answer(*args, **named)
                await self._may_reply.wait()
                return result
            finally:
                self._count -= 1
                self._changed.set()

        return answer_counted

    def endless(
        self, answer: Callable[_P, Awaitable[None]], on_end: Callable[_P, Awaitable[None]]
    ) -> Callable[_P, Coroutine[object, object, None]]:
        """Return a handler whose calls ``end_endless`` ends; ``on_end`` then answers the caller."""

        async def answer_until_ended(*args: _P.args, **named: _P.kwargs) -> None:
            limit = asyncio.timeout(None)
            try:
                async with limit:
                    self._endless.add(limit)
                    await answer(*args, **named)
            except TimeoutError:
                if not limit.expired():
                    raise
                await on_end(*args, **named)
            finally:
                self._endless.discard(limit)

        return answer_until_ended

    async def ended(self) -> None:
        """Wait until no counted call is in flight."""
        while self._count:
            self._changed.clear()
            await self._changed.wait()

    def end_endless(self) -> None:
        """End the calls without an end of their own."""
        now = asyncio.get_running_loop().time()
        for limit in self._endless:
            limit.reschedule(now)

    async def gather(self) -> None:
        """Hold replies back until no new call has arrived for a while, at most two seconds.

        A server of grpcio that stops rejects the calls that it has not looked at, and those that arrive until the
        client has read the GOAWAY: the client sees CANCELLED. Most clients wait for a reply before they call again,
        so each active client has a call here in the end, and reads the GOAWAY before its reply.
        """
        self._may_reply.clear()
        quiet = 0
        for _ in range(_MOST_TICKS):
            self._has_new_call = False
            await asyncio.sleep(self._tick_seconds)
            quiet = 0 if self._has_new_call else quiet + 1
            if quiet == _QUIET_TICKS:
                return

    def release(self) -> None:
        """Let the replies go that ``gather`` holds back."""
        self._may_reply.set()
