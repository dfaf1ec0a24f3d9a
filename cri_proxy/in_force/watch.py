"""Read a location again at notices, polls and reload requests, debounced; pass what is new or requested to ``take``.

Inotify (``notices``) reports at once: plain edits, editors that rename, the ``..data`` swap of a ConfigMap volume, a
directory that goes and comes back. Polling finds what inotify does not: network file systems, limits reached.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from cri_proxy.clock import Clock
from cri_proxy.in_force.inotify import ChangeNotifier, Inotify
from cri_proxy.in_force.last_good_writer import LastGoodWriter
from cri_proxy.in_force.symlinks import Lookups

# An editor and the kubelet write in several steps: a change is read after this time without a notice.
DEBOUNCE_SECONDS = 0.3
# A file that keeps changing is read after this many debounce periods.
DEBOUNCE_ROUNDS = 10
POLL_SECONDS = 15.0
# Attempts to watch a path that changes during the attempt; after these, polling finds the changes.
_FOLLOWED = 5

T = TypeVar("T")
K = TypeVar("K")
Found_co = TypeVar("Found_co", covariant=True)

# Applies the whole of what was read, or changes nothing. The second argument: whether a reload was requested.
Take = Callable[[T, bool], Awaitable[None]]


class Watched(Protocol[Found_co]):
    """The files that are watched."""

    async def read(self) -> Found_co:
        """Return what is there now, equal to the last result if nothing has changed."""

    async def lookups(self) -> Lookups:
        """Return the directories on the path, each with the names that matter there; none where that is unknown."""


class BlockingPlace(Protocol[Found_co]):
    """As ``Watched``, blocking, as ``location.ConfigLocation``."""

    def read(self) -> Found_co:
        """See ``Watched``."""

    def lookups(self) -> Lookups:
        """See ``Watched``."""


class OnThreads(Generic[Found_co]):
    """A place that is read on threads of the loop, without a time limit."""

    def __init__(self, place: BlockingPlace[Found_co]) -> None:
        """Read nothing yet."""
        self._place = place

    async def read(self) -> Found_co:
        """See ``Watched``."""
        return await asyncio.to_thread(self._place.read)

    async def lookups(self) -> Lookups:
        """See ``Watched``."""
        return await asyncio.to_thread(self._place.lookups)


class Watch(Generic[T]):
    """Watches one location. ``notices`` may block and run on a thread; the rest is on the loop."""

    def __init__(
        self, location: Watched[T], in_force: T, take: Take[T], *, clock: Clock, poll_seconds: float = POLL_SECONDS
    ) -> None:
        """``in_force`` was read at start: the first check applies what has changed since."""
        self._location = location
        self._tried: T | None = in_force
        self.poll_seconds = poll_seconds
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

    def forget(self) -> None:
        """Apply with the next check what is there then, changed or not."""
        self._tried = None

    def notice(self) -> None:
        """Check soon: something may have changed. Safe to call from any thread once ``watch`` runs."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def watch(self, notices: ChangeNotifier | None = None) -> None:
        """Check whenever there is a reason, until cancelled; closes ``notices`` (None: inotify's) then."""
        notices = notices or Inotify(self.notice)
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                self.problem = await self._follow(notices)
                await self.check()
                await self._woken.wait()
                await self._settle()
        finally:
            self._loop = None
            await asyncio.to_thread(notices.close)

    async def poll(self) -> None:
        """Request a check periodically, until cancelled."""
        while True:
            await self._clock.sleep(self.poll_seconds)
            self._woken.set()

    async def check(self) -> None:
        """Read once; apply what is there if it is new, or if a reload was requested."""
        # Before the read: a request that comes during it asks for a read of its own.
        is_asked, self._is_asked = self._is_asked, False
        source = await self._location.read()
        if source == self._tried and not is_asked:
            return
        # Before it is taken: a rejected one is not tried again by itself (docs/adr/0009-reload.md).
        self._tried = source
        await self._take(source, is_asked)

    async def _settle(self) -> None:
        """Wait until no notice has come for DEBOUNCE_SECONDS; return at once if a reload was requested."""
        for _ in range(DEBOUNCE_ROUNDS):
            self._woken.clear()
            if self._is_asked:
                return
            await self._clock.sleep(DEBOUNCE_SECONDS)
            if not self._woken.is_set():
                return

    async def _follow(self, notices: ChangeNotifier) -> str:
        """Watch the current path, then check it again: inotify does not report changes made before the watch."""
        lookups, problem = await self._location.lookups(), ""
        for _ in range(_FOLLOWED):
            followed, problem = lookups, await asyncio.to_thread(notices.follow, lookups)
            lookups = await self._location.lookups()
            if lookups == followed:
                break
        return problem


@dataclass(frozen=True, slots=True)
class Follower(Generic[T, K]):
    """Follows one place in the background, and saves what is in force; ``name`` is what is there, in the plural."""

    name: str
    watch: Watch[T]
    writer: LastGoodWriter[K]

    def start(self, keep_doing: Callable[[Callable[[], Coroutine[object, object, None]], str], None]) -> None:
        """Watch from now on; a reload that was asked for earlier is made now."""
        keep_doing(self.watch.watch, self.name)
        keep_doing(self.watch.poll, f"{self.name} poll")

    def warnings(self) -> Iterator[str]:
        """Yield warnings for the operator, one sentence each."""
        if self.watch.problem:
            every = f"every {self.watch.poll_seconds:.0f} s"
            yield f"changes of the {self.name} are found by polling only, {every}: {self.watch.problem}"
        if self.writer.problem:
            yield f"a start with bad {self.name} would not find the last good content: {self.writer.problem}"
