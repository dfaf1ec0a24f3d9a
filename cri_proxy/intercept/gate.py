"""The way to the decider, which opens when this process may decide and closes when it hands over to another.

The relay serves what passes untouched from its first moment to its last; calls that need a decision wait here until
there is a decider, and are turned away once there is none any more: their callers come again, and find the new process.
"""

import asyncio
from typing import Final

from cri_proxy.http2.status import Code
from cri_proxy.intercept.interest import CREATE, START, UPDATE, interest_of
from cri_proxy.relay.calls import Call, Interceptor, Interest, Outcome, Refuse, Verdict

_WAIT_SECONDS: Final = 10.0  # for a decider; then a call is refused, and its caller tries again
_AWAITED: Final = frozenset({CREATE, START, UPDATE})
"""Whose outcome is waited for before handing over: it says what a container holds. What others end (a stop lasts for
its grace period) the new process learns from the runtime."""

_NOBODY_YET = Refuse(Code.UNAVAILABLE, "cri-proxy: it starts, and does not decide yet; try again")
_TURNED_AWAY = Refuse(Code.UNAVAILABLE, "cri-proxy: this process does not decide any more; try again", was_unseen=True)


class Gate:
    """An ``Interceptor`` before the node's own; shut at first."""

    def __init__(self, *, wait_seconds: float = _WAIT_SECONDS) -> None:
        """``wait_seconds``: how long a call waits for ``open``."""
        self._wait_seconds = wait_seconds
        self._inner: Interceptor | None = None
        self._opened = asyncio.Event()
        self._is_closing = False
        self._limits: dict[int, asyncio.Timeout] = {}  # of calls that are being decided on
        self._sent: set[int] = set()  # calls whose outcome says what a container holds
        self._ended = asyncio.Event()

    def open(self, inner: Interceptor) -> None:
        """Let calls through to this one."""
        self._inner = inner
        self._opened.set()

    async def close(self, seconds: float) -> bool:
        """Let nobody through any more; give calls this long to end. Whether all have: the others are left alone.

        What is still being decided on then is given up and turned away; of what the runtime has not answered nobody
        here learns the outcome.
        """
        self._is_closing = True
        self._opened.set()
        all_ended = await self._wait_until_done(seconds)
        loop = asyncio.get_running_loop()
        for limit in self._limits.values():
            limit.reschedule(loop.time())
        while self._limits:
            self._ended.clear()
            await self._ended.wait()
        self._inner = None
        return all_ended

    def wants(self, method: str) -> Interest:
        """As the node's own interceptor, which is not there yet or any more."""
        return interest_of(method)

    async def on_request(self, call: Call) -> Verdict:
        """The decider's verdict, as soon as there is one who decides."""
        if not self._opened.is_set():
            try:
                async with asyncio.timeout(self._wait_seconds):
                    await self._opened.wait()
            except TimeoutError:
                return _NOBODY_YET
        if self._is_closing or self._inner is None:
            return _TURNED_AWAY
        try:
            async with asyncio.timeout(None) as limit:
                self._limits[call.id] = limit
                verdict = await self._inner.on_request(call)
        except TimeoutError:
            if not self._limits[call.id].expired():
                raise
            return _TURNED_AWAY  # by ``close``: whatever it had begun is rolled back
        finally:
            del self._limits[call.id]
            self._ended.set()
        if call.method in _AWAITED and not isinstance(verdict, Refuse):
            self._sent.add(call.id)
        return verdict

    def on_outcome(self, call: Call, outcome: Outcome) -> None:
        """Tell the decider, unless it has gone."""
        self._sent.discard(call.id)
        if self._inner is not None:
            self._inner.on_outcome(call, outcome)
        self._ended.set()

    async def _wait_until_done(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                while self._limits or self._sent:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            return False
        return True
