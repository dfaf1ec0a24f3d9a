"""Who has a call in our hands: gathers the callers of a server that cannot stop gently, before it stops.

grpcio's server rejects what has arrived and is not looked at when it stops, and what arrives until the client has read
that it should leave: its client sees CANCELLED. Most callers wait for one reply before they call again. So replies are
held back until no call comes any more: whoever is active has one here then, and reads that it should leave before its
reply, on the same connection.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

TICK_SECONDS: Final = 0.01
_QUIET_TICKS: Final = 10
"""So many ticks without a call: turns of our loop and not time, which passes for a process that does not run, too."""
_LONGEST_TICKS: Final = 200  # for callers without end; the last of them meet the wrong moment


class Callers:
    """Holds replies back while it is asked to."""

    def __init__(self, *, tick_seconds: float = TICK_SECONDS) -> None:
        """``tick_seconds``: how long a turn is."""
        self._tick_seconds = tick_seconds
        self._has_called = False
        self._may_go = asyncio.Event()
        self._may_go.set()

    def called(self) -> None:
        """Somebody has."""
        self._has_called = True

    def held(self, answer: Callable[_P, Awaitable[_R]]) -> Callable[_P, Awaitable[_R]]:
        """The same, but its result waits while callers are being gathered."""

        async def answer_when_it_may_go(*args: _P.args, **named: _P.kwargs) -> _R:
            result = await answer(*args, **named)
            await self._may_go.wait()
            return result

        return answer_when_it_may_go

    async def gather(self) -> None:
        """Hold replies back from now on, and wait until nobody calls any more, or for two seconds."""
        self._may_go.clear()
        quiet = 0
        for _ in range(_LONGEST_TICKS):
            self._has_called = False
            await asyncio.sleep(self._tick_seconds)
            quiet = 0 if self._has_called else quiet + 1
            if quiet == _QUIET_TICKS:
                return

    def let_go(self) -> None:
        """Answer them."""
        self._may_go.set()
