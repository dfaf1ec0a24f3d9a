"""Call functions that read or write files off the event loop, each with a time limit; what hangs is not asked again.

A call is about a *subject* (a mount, a directory): calls about one subject run one after the other. One that exceeds
its time goes on where it runs, since a system call cannot be withdrawn; its subject *hangs* until it returns, and
further calls about it fail at once. So a subject holds one worker however often it is asked for, and the number of
workers is bounded.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, Protocol, TypeVar, TypeVarTuple

from cri_proxy.errors import FileError
from cri_proxy.helper_process import HelperFailed, HelperProcess, Launcher

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PATIENCE_SECONDS: Final = 0.05
"""How long a call waits for a busy worker before another one is started: far above what a call takes that works."""

IDLE_SECONDS: Final = 15.0
"""How long a worker waits for work before it ends: pods come in bursts, and each process costs a megabyte or two."""


class FilesFailed(FileError):
    """A call about these files did not end in time, or its process ended."""


class FileCalls(Protocol):
    """Runs a blocking function off the event loop."""

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        """Return the function's result, or raise its error. Raises FilesFailed where the subject hangs."""


class PlainThreads:
    """Threads of the loop's default executor, without a time limit: for a node that is not a daemon."""

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        """See ``FileCalls``; nothing hangs here."""
        return await asyncio.to_thread(function, *args)


PLAIN_THREADS: Final = PlainThreads()


class _Worker:
    """A thread, and the helper process that it waits for where there is a launcher."""

    def __init__(self, launcher: Launcher | None) -> None:
        # Joined by no one while it hangs: the daemon ends without joining threads (``cli.run.leave``).
        self.thread = ThreadPoolExecutor(1, "files")
        self._launcher = launcher
        self._helper: HelperProcess | None = None

    def call(self, function: Callable[[*Ts], T], *args: *Ts) -> T:
        """Run this, in the helper if there is to be one. Raises HelperFailed; the next call starts a new one then."""
        if self._launcher is None:
            return function(*args)
        if self._helper is None:
            self._helper = self._launcher.start()
        try:
            return self._helper.call(function, *args)
        except HelperFailed:
            self.close_helper()
            raise

    def close_helper(self) -> None:
        if self._helper is not None:
            self._helper.close()
            self._helper = None


@dataclass(slots=True)
class _Call:
    """A call under way; ``hangs`` once it has exceeded its time."""

    ended: asyncio.Event
    began_seconds: float
    hangs: bool = False


class FileWorkers:
    """At most ``most`` workers, processes where there is a launcher; an idle one waits for work for a while."""

    def __init__(self, launcher: Launcher | None, *, most: int) -> None:
        """Start nothing yet. Without a launcher the workers are threads."""
        self._launcher = launcher
        self._most = most
        self._idle: list[_Worker] = []
        self._count = 0
        self._freed = asyncio.Event()
        self._calls: dict[str, _Call] = {}
        self._ending: asyncio.TimerHandle | None = None

    def hanging(self) -> tuple[tuple[str, float], ...]:
        """Return the subjects that hang, each with the seconds since it was asked, by name."""
        now_seconds = asyncio.get_running_loop().time()
        calls = sorted(self._calls.items())
        return tuple((subject, now_seconds - call.began_seconds) for subject, call in calls if call.hangs)

    async def run(self, subject: str, function: Callable[[*Ts], T], *args: *Ts, within_seconds: float) -> T:
        """See ``FileCalls``."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + within_seconds
        try:
            async with asyncio.timeout_at(deadline):
                call, worker = await self._begun(subject)
        except TimeoutError:
            raise FilesFailed(subject, "not asked: there was no time left") from None
        running = loop.run_in_executor(worker.thread, worker.call, function, *args)
        running.add_done_callback(partial(self._ended, worker, subject, call))
        # Not wait_for: it would cancel the future, and ``_ended`` would count a worker as free whose thread goes on.
        await asyncio.wait([running], timeout=max(0.0, deadline - loop.time()))
        if not running.done():
            # In this order: who waits for the subject's turn wakes up, finds that it hangs, and fails.
            call.hangs = True
            call.ended.set()
            self._freed.set()  # others wait for a worker, perhaps in vain now
            raise FilesFailed(subject, f"no answer within {within_seconds:.3g} s")
        try:
            return running.result()
        except HelperFailed as error:
            raise FilesFailed(subject, str(error)) from error

    async def _begun(self, subject: str) -> tuple[_Call, _Worker]:
        """Wait for the subject's turn and for a worker. Raises FilesFailed."""
        await asyncio.sleep(0)  # lets a time limit that has passed take effect
        await self._turn(subject)
        call = self._calls[subject] = _Call(asyncio.Event(), asyncio.get_running_loop().time())
        try:
            return call, await self._worker(subject)
        # A cancelled caller, too: else the subject would count as under way without an end.
        except BaseException:
            self._forget(subject, call)
            raise

    async def _turn(self, subject: str) -> None:
        """Wait until no call about the subject is under way. Raises FilesFailed where one hangs."""
        while (call := self._calls.get(subject)) is not None:
            if call.hangs:
                raise FilesFailed(subject, "it does not answer since an earlier call; it is not asked again meanwhile")
            await call.ended.wait()

    async def _worker(self, subject: str) -> _Worker:
        """Return an idle worker, else a new one after a moment. Raises FilesFailed where all of them hang."""
        is_patient = True
        while not self._idle:
            if self._count < self._most and (self._count == 0 or not is_patient):
                self._count += 1
                return _Worker(self._launcher)
            if self._count < self._most:
                is_patient = await self._is_freed_soon()
            elif sum(call.hangs for call in self._calls.values()) >= self._most:
                raise FilesFailed(subject, f"not asked: all {self._most} workers wait for files that do not answer")
            else:
                self._freed.clear()
                await self._freed.wait()
        return self._idle.pop()

    async def _is_freed_soon(self) -> bool:
        """Wait a moment for a worker that is busy; return whether one may be idle."""
        if self._count == sum(call.hangs for call in self._calls.values()):
            return False
        self._freed.clear()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await self._freed.wait()
        except TimeoutError:
            return False
        return True

    def _ended(self, worker: _Worker, subject: str, call: _Call, running: asyncio.Future[T]) -> None:
        """Note the end of a call; its caller may have left, and its error with it."""
        if not running.cancelled():
            # asyncio reports exceptions of futures that nothing has retrieved.
            running.exception()
        self._forget(subject, call)
        # One idle worker serves what comes singly; each is a process of a megabyte or two.
        if self._idle:
            self._count -= 1
            self._close(worker)
        else:
            self._idle.append(worker)
            self._end_later()
        self._freed.set()

    def _end_later(self) -> None:
        """End the idle worker unless it gets work in time."""
        if self._ending is not None:
            self._ending.cancel()
        self._ending = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end_idle)

    def _forget(self, subject: str, call: _Call) -> None:
        call.ended.set()
        if self._calls.get(subject) is call:
            del self._calls[subject]

    def close(self) -> None:
        """End the idle workers; those that hang are left behind."""
        if self._ending is not None:
            self._ending.cancel()
        self._end_idle()

    def _end_idle(self) -> None:
        while self._idle:
            self._close(self._idle.pop())
            self._count -= 1

    def _close(self, worker: _Worker) -> None:
        worker.thread.shutdown(wait=False)
        worker.close_helper()
