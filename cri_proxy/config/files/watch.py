"""Notices that the configuration has changed, whatever the way, and has it taken over: never twice for the same.

Plain edits, editors that rename, the ``..data`` swap of a ConfigMap volume, a directory that goes and comes back. The
kernel tells at once (``notices``); a slow look finds what it does not tell: network file systems, limits reached.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from cri_proxy.clock import Clock
from cri_proxy.config.files.inotify import ChangeNotifier, Lookups

# An editor and the kubelet write in several steps: a change is looked at when nothing was heard for so long.
DEBOUNCE_SECONDS = 0.3
# Who writes all the time is looked at all the same after so many of these.
DEBOUNCE_ROUNDS = 10
POLL_SECONDS = 15.0
# A way that changes whenever it is followed is left to the slow look after so many attempts.
_FOLLOWED = 5

T = TypeVar("T")
Found_co = TypeVar("Found_co", covariant=True)

# Takes this over as a whole, or leaves everything as it is. Told whether somebody asked for it.
Take = Callable[[T, bool], Awaitable[None]]


class Watched(Protocol[Found_co]):
    """What is looked at, as ``place.ConfigLocation``."""

    def read(self) -> Found_co:
        """What stands there now, equal to what stood there before if nothing has changed; blocks."""

    def lookups(self) -> Lookups:
        """Where the way there is decided; blocks."""


class Watch(Generic[T]):
    """Watches one place. Everything is called on the event loop, but for ``place`` and ``notices``, which may block."""

    def __init__(self, place: Watched[T], in_force: T, take: Take[T], *, clock: Clock) -> None:
        """``in_force`` was read at start: what has changed since is taken over by the first look."""
        self._place = place
        self._tried: T = in_force
        self._take = take
        self._clock = clock
        self._woken = asyncio.Event()
        self._is_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.problem = ""
        """Why changes are found by the slow look only; '' = the kernel tells."""

    def ask(self) -> None:
        """Take over what is there now, changed or not; several preferences until that begins are one."""
        self._is_asked = True
        self._woken.set()

    def notice(self) -> None:
        """Something may have changed. Safe to call from any thread once ``watch`` runs."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def watch(self, notices: ChangeNotifier) -> None:
        """Look whenever there is a reason, for ever; ``notices`` are closed at the end."""
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                self.problem = await asyncio.to_thread(self._follow, notices)
                await self.check()
                await self._woken.wait()
                await self._settle()
        finally:
            self._loop = None
            await asyncio.to_thread(notices.close)

    async def poll(self) -> None:
        """Ask for a look again and again, for ever."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            self._woken.set()

    async def check(self) -> None:
        """Look once; take over what is there if it is new, or if somebody asked."""
        is_asked, self._is_asked = self._is_asked, False
        source = await asyncio.to_thread(self._place.read)
        if source == self._tried and not is_asked:
            return
        self._tried = source
        await self._take(source, is_asked)

    async def _settle(self) -> None:
        """Wait until nothing is heard for a moment; who asks does not wait."""
        for _ in range(DEBOUNCE_ROUNDS):
            self._woken.clear()
            if self._is_asked:
                return
            await self._clock.sleep(DEBOUNCE_SECONDS)
            if not self._woken.is_set():
                return

    def _follow(self, notices: ChangeNotifier) -> str:
        """Follow the way as it is now: what changes it before it is followed may be told by nobody."""
        lookups, problem = self._place.lookups(), ""
        for _ in range(_FOLLOWED):
            followed, problem = lookups, notices.follow(lookups)
            lookups = self._place.lookups()
            if lookups == followed:
                break
        return problem
