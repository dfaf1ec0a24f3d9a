"""Check the configuration at inotify notices, polls and reload requests; call ``take`` once for each change.

Inotify (``notices``) reports at once: plain edits, editors that rename, the ``..data`` swap of a ConfigMap volume, a
directory that goes and comes back. Polling finds what inotify does not: network file systems, limits reached.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, Protocol, TypeVar

from cri_proxy.clock import Clock
from cri_proxy.config.files.inotify import ChangeNotifier, Lookups

# An editor and the kubelet write in several steps: a change is read once no notice came for so long.
DEBOUNCE_SECONDS = 0.3
# A file that changes all the time is read all the same after so many of these.
DEBOUNCE_ROUNDS = 10
POLL_SECONDS = 15.0
# How often a path is followed again that changes meanwhile; then polling has to find changes.
_FOLLOWED = 5

T = TypeVar("T")
Found_co = TypeVar("Found_co", covariant=True)

# Applies what was read as a whole, or changes nothing. The second argument: a reload was requested.
Take = Callable[[T, bool], Awaitable[None]]


class Watched(Protocol[Found_co]):
    """What is watched, as ``location.ConfigLocation``."""

    def read(self) -> Found_co:
        """Return what is there now, equal to the last result if nothing has changed; blocks."""

    def lookups(self) -> Lookups:
        """Return the directories on the path, each with the names that matter there; blocks."""


class Watch(Generic[T]):
    """Watches one location. All calls are on the event loop, but for ``location`` and ``notices``, which may block."""

    def __init__(self, location: Watched[T], in_force: T, take: Take[T], *, clock: Clock) -> None:
        """``in_force`` was read at start: the first check applies what has changed since."""
        self._location = location
        self._tried: T = in_force
        self._take = take
        self._clock = clock
        self._woken = asyncio.Event()
        self._is_asked = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.problem = ""
        """Why changes are found by polling only; '' = inotify reports them."""

    def ask(self) -> None:
        """Apply what is there now, changed or not; requests before that begins count as one."""
        self._is_asked = True
        self._woken.set()

    def notice(self) -> None:
        """Check soon: something may have changed. Safe to call from any thread once ``watch`` runs."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def watch(self, notices: ChangeNotifier) -> None:
        """Check whenever there is a reason, until cancelled; closes ``notices`` then."""
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
        """Request a check periodically, until cancelled."""
        while True:
            await self._clock.sleep(POLL_SECONDS)
            self._woken.set()

    async def check(self) -> None:
        """Read once; apply what is there if it is new, or if a reload was requested."""
        is_asked, self._is_asked = self._is_asked, False
        source = await asyncio.to_thread(self._location.read)
        if source == self._tried and not is_asked:
            return
        self._tried = source
        await self._take(source, is_asked)

    async def _settle(self) -> None:
        """Wait until no notice came for a moment; not at all for a requested reload."""
        for _ in range(DEBOUNCE_ROUNDS):
            self._woken.clear()
            if self._is_asked:
                return
            await self._clock.sleep(DEBOUNCE_SECONDS)
            if not self._woken.is_set():
                return

    def _follow(self, notices: ChangeNotifier) -> str:
        """Watch the path as it is now, and look again: no notice reports a change made before the watch."""
        lookups, problem = self._location.lookups(), ""
        for _ in range(_FOLLOWED):
            followed, problem = lookups, notices.follow(lookups)
            lookups = self._location.lookups()
            if lookups == followed:
                break
        return problem
