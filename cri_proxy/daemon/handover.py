"""Pass the decider's lock from a running daemon to a new one, by pidfd and SIGUSR2; both sides. No sockets are passed.

The new process takes the sockets' names, asks the old one, and waits for the lock (docs/adr/0010). It finds the old
one by its entry in the lock file and opens a pidfd before it checks that entry, so that no other process with a reused
pid is ever signalled. A process that does not offer to hand over is not signalled either.
"""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

from cri_proxy import events
from cri_proxy.helper_process import HelperFailed, Launcher
from cri_proxy.logs import Log
from cri_proxy.state.process_lock import SUCCESSOR, DeciderLock, LockHeld, Note, note_holder, started_ticks
from cri_proxy.tasks import Tasks, readable
from cri_proxy.unix_socket import answers

ASK: Final = signal.SIGUSR2
HELD_SECONDS: Final = 5.0
"""How long the old process waits for decided calls before it gives the lock away."""
DRAIN_SECONDS: Final = 300.0
"""How long streams and long calls of the old process's clients go on after that."""
_RETRY_SECONDS: Final = 0.02
_OFFER_SECONDS: Final = 2.0  # from the ready line of a daemon on a busy machine until its offer can be read
_REPORT_SECONDS: Final = 30.0  # above the old one's own bounds


class Predecessor:
    """The process that holds the lock and offers to hand over."""

    def __init__(self, pid: int, descriptor: int) -> None:
        """``descriptor`` is its pidfd_open(2); use ``find``."""
        self.pid = pid
        self._descriptor = descriptor

    @classmethod
    def find(cls, held: LockHeld) -> Self:
        """Return the holder of the lock. Raises LockHeld when it cannot be found or does not hand over."""
        why = "it does not offer to hand over"
        if held.pid and held.started_ticks:
            try:
                descriptor = os.pidfd_open(held.pid)
            except OSError as error:
                why = f"it cannot be found from here ({error.strerror}); does it run in another container?"
            else:
                # From here on the descriptor names this process, even after its end.
                if started_ticks(held.pid) == held.started_ticks:
                    return cls(held.pid, descriptor)
                os.close(descriptor)
                why = "its pid belongs to another process here; does it run in another container?"
        problem = f"process {held.pid} uses this state directory and cannot be replaced: {why}; stop it first"
        raise LockHeld(held.path, problem, held.pid) from None

    async def ended(self) -> None:
        """Wait until it has ended: then its descriptor is readable."""
        await readable(self._descriptor)

    def close(self) -> None:
        """Forget it."""
        os.close(self._descriptor)

    def ask(self) -> None:
        """Ask it to hand over; one that has ended meanwhile has done so."""
        try:
            signal.pidfd_send_signal(self._descriptor, ASK)
        except ProcessLookupError:
            return


@dataclass(eq=False)
class Takeover:
    """Acquire the decider's lock: at once if it is free, else after the predecessor has handed over."""

    _state_dir: Path
    _lock: DeciderLock | None
    predecessor: Predecessor | None = None
    _note: Note = note_holder
    _queue: DeciderLock | None = field(default=None, init=False)

    @classmethod
    def begin(cls, state_dir: Path, *, takes_over: bool, note: Note = note_holder) -> Self:
        """Take the lock, or with ``takes_over`` queue behind its holder; ``note`` writes who holds it.

        Raises LockHeld, StoreError.
        """
        try:
            return cls(state_dir, DeciderLock.acquire(state_dir, note=note))
        except LockHeld as held:
            if not takes_over:
                raise
            predecessor = Predecessor.find(held)
        takeover = cls(state_dir, None, predecessor, note)
        try:
            takeover._queue = DeciderLock.acquire(state_dir, SUCCESSOR, note=note)
        except LockHeld as held:
            predecessor.close()
            raise LockHeld(held.path, f"process {held.pid} is already taking over", held.pid) from None
        return takeover

    @classmethod
    async def begin_when_offered(cls, state_dir: Path, *, takes_over: bool, note: Note = note_holder) -> Self:
        """Do the same as ``begin``; with ``takes_over`` wait a little for a holder that does not offer yet.

        It writes that when it is ready, off its event loop: a process that waited for the ready line may be here first.
        """
        loop = asyncio.get_running_loop()
        end_seconds = loop.time() + (_OFFER_SECONDS if takes_over else 0.0)
        while True:
            try:
                return cls.begin(state_dir, takes_over=takes_over, note=note)
            except LockHeld:
                if loop.time() >= end_seconds:
                    raise
            await asyncio.sleep(_RETRY_SECONDS)

    async def wait_for_lock(self, log: Log) -> None:
        """Ask the predecessor, if there is one, to hand over; wait for the lock without a time limit.

        This process must already have the socket paths: the request cannot be withdrawn.
        """
        predecessor = self.predecessor
        if self._lock is not None or predecessor is None:
            return
        log.info(events.TAKING_OVER, pid=predecessor.pid)
        predecessor.ask()
        loop = asyncio.get_running_loop()
        begun_at, is_reported = loop.time(), False
        while self._lock is None:
            try:
                self._lock = DeciderLock.acquire(self._state_dir, note=self._note)
            except LockHeld:
                if not is_reported and loop.time() - begun_at > _REPORT_SECONDS:
                    is_reported = True
                    reason = "it was asked to hand over and still holds the lock: kill it if it is stuck"
                    log.error(events.FAULT, what=f"process {predecessor.pid}", reason=reason)
                await asyncio.sleep(_RETRY_SECONDS)
        self._leave_queue()
        log.info(events.TAKEN_OVER, pid=predecessor.pid, seconds=round(loop.time() - begun_at, 3))

    def offer_handover(self) -> None:
        """Let a later process take over."""
        if self._lock is not None:
            self._lock.offer_handover()

    async def after_predecessor(self, act: Callable[[], Awaitable[None]]) -> None:
        """Call ``act`` once the predecessor has ended; do nothing without one."""
        if self.predecessor is not None:
            await self.predecessor.ended()
            await act()

    def release(self) -> None:
        """Release the lock, or the place in the queue."""
        self._leave_queue()
        if self._lock is not None:
            self._lock.release()

    def _leave_queue(self) -> None:
        if self._queue is not None:
            self._queue.release()
            self._queue = None


def noted_by(launcher: Launcher) -> Note:
    """Return a function that lets a helper process write who holds a lock, one text after the other."""
    thread = ThreadPoolExecutor(1, "lock")

    def write(path: Path, text: str) -> None:
        with suppress(HelperFailed), closing(launcher.start()) as helper:
            helper.call(note_holder, path, text)

    def note(path: Path, text: str) -> None:
        thread.submit(write, path, text)

    return note


async def wait_for_successor(
    asked: asyncio.Event, problems: Callable[[], Iterable[str]], listens: Iterable[Path], log: Log
) -> None:
    """Wait until a process that listens on all of our socket paths asks to take over.

    ``problems`` returns for each of our relays why new clients do not find it, '' where they do.

    A signal without such a listener would leave the node without a proxy: it is logged and ignored.
    """
    while True:
        await asked.wait()
        asked.clear()
        # Each socket is lost, and another process answers under its name: else the node would have no proxy.
        if all(problems()) and all(answers(path) for path in listens):
            return
        log.warning(events.NOT_HANDED_OVER, reason=f"got {ASK.name}, but no other process listens on the sockets")


async def unless(stopping: asyncio.Event, work: Coroutine[object, object, None]) -> None:
    """Run this until it ends, or cancel it when ``stopping`` is set. Raises what it raises."""
    tasks = Tasks(lambda error: None)  # it is raised below
    running = tasks.start(work)
    waiting = tasks.start(_set(stopping))
    try:
        await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await tasks.cancel()
    if not running.cancelled():
        running.result()


async def _set(event: asyncio.Event) -> None:
    await event.wait()
