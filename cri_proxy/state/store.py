"""The durable store: SQLite behind one writer thread, concurrent saves grouped in one transaction."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cri_proxy.errors import StoreError, StoreUnavailable
from cri_proxy.state import tables
from cri_proxy.state.database import BUSY_SECONDS, Opened, open_database
from cri_proxy.state.rows import Saveable, Saved
from cri_proxy.state.tables import Statement
from policies.base import ContainerKey

Report = Callable[[StoreError | None], None]


@dataclass(frozen=True, slots=True)
class _Save:
    """One save that waits for the writer; ``report`` is called in the writer's thread with what came of it."""

    statements: tuple[Statement, ...]
    report: Report


@dataclass(frozen=True, slots=True)
class _Load:
    """A read that waits for its turn among the saves."""

    answer: Future[Saved]


@dataclass(frozen=True, slots=True)
class _Close:
    """The last job."""

    report: Report


_Job = _Save | _Load | _Close


class Store:
    """See ``rows.GrantStore``. The event loop never touches SQLite; the writer thread alone does."""

    def __init__(self, path: Path, opened: Opened | None, problem: str = "") -> None:
        """Take over an opened database, or none because of this problem; use ``Store.open`` or ``open_or_wait``."""
        self._path = path
        self.problem = problem
        self._recovered = opened.recovered if opened is not None else None
        self._connection = opened.connection if opened is not None else None
        self._identity = _identity(path) if opened is not None else None
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._is_closed = False
        self._commits = 0
        self._read_at_open: Saved | None = opened.saved if opened is not None else Saved()
        # A daemon thread: whoever leaves without close() is not held up, and has lost only unacknowledged saves.
        self._writer = threading.Thread(target=self._write, name="store-writer", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Self:
        """The store at this path, made if absent; its directory is made private. Blocks. Raises StoreError.

        A damaged file is renamed to NAME.damaged-N and an empty store takes its place: see ``recovered``.
        Where another process has the file locked, opening and saving wait ``busy_seconds`` for it.
        """
        return cls(path, open_database(path, busy_seconds=busy_seconds))

    @classmethod
    def open_or_wait(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Self:
        """The same; where the disk is full, read-only or broken, one that is empty and opens the file at a later save.

        ``problem`` says then why: the node goes on, as it does when the disk fails later. Raises StoreError for what
        only a person can mend.
        """
        try:
            return cls.open(path, busy_seconds=busy_seconds)
        except StoreUnavailable as error:
            return cls(path, None, error.problem)

    @property
    def recovered(self) -> str | None:
        """What happened to a damaged file at open, as a sentence; None = it was sound."""
        return self._recovered

    @property
    def commits(self) -> int:
        """Transactions so far: the fewer per save, the more were grouped."""
        return self._commits

    def load(self) -> Saved:
        """Everything saved so far. Blocks the calling thread; raises StoreError.

        Before the first save that is what opening the file has read anyway.
        """
        if self._read_at_open is not None and not self._is_closed:
            return self._read_at_open
        answer: Future[Saved] = Future()
        self._put(_Load(answer))
        return answer.result()

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[ContainerKey | str] = ()) -> None:
        """Resolves when the change is on disk. See ``GrantStore.save``."""
        saved, report = _waiter()
        self._put(_Save(tables.change(puts, deletes), report))
        self._read_at_open = None
        await saved

    async def close(self) -> None:
        """Finish what was asked, then close the file; a second call does nothing."""
        if self._is_closed:
            return
        closed, report = _waiter()
        self._put(_Close(report))
        self._is_closed = True
        await closed

    def _put(self, job: _Job) -> None:
        if self._is_closed:
            raise StoreError(str(self._path), "the store is closed")
        self._jobs.put(job)

    def _write(self) -> None:
        """The writer thread: takes all that waits, in order, until the closing job."""
        while True:
            group: list[_Save] = []
            job = self._jobs.get()
            while isinstance(job, _Save):
                group.append(job)
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
            if group:
                self._commit(group)
            match job:
                case _Load():
                    self._read(job)
                case _Close():
                    if self._connection is not None:
                        self._connection.close()
                    job.report(None)
                    return

    def _commit(self, group: Sequence[_Save]) -> None:
        """One transaction for the whole group. What fails for its content fails alone, the disk fails for all."""
        if self._connection is None or _identity(self._path) != self._identity:
            problem = self._reopened()
            if problem or self._connection is None:
                self._report(group, problem)
                return
        try:
            tables.apply(self._connection, [statement for save in group for statement in save.statements])
        except sqlite3.OperationalError as error:
            self._report(group, f"cannot save: {error}; check the disk that holds it")
        except (sqlite3.Error, ValueError, OverflowError) as error:
            if len(group) == 1:
                self._report(group, f"cannot save this value: {error}")
            else:
                for save in group:
                    self._commit([save])
        else:
            self._commits += 1
            self._report(group, "")

    def _reopened(self) -> str:
        """Open the file that could not be, or that somebody has removed: nobody would find what we write.

        Gives what is wrong, and what was done; '' when all is well.
        """
        old = self._connection
        try:
            opened = open_database(self._path)
        except StoreError as error:
            return error.problem if old is None else f"the file was removed and cannot be made again: {error.problem}"
        self._connection, self._identity = opened.connection, _identity(self._path)
        if old is None:
            return ""
        old.close()
        return "the file was removed or replaced while in use; a new one was opened, and is filled again"

    def _report(self, group: Sequence[_Save], problem: str) -> None:
        """Tell everybody; each gets an error of its own, because raising one changes it."""
        for save in group:
            save.report(StoreError(str(self._path), problem) if problem else None)

    def _read(self, load: _Load) -> None:
        if self._connection is None:
            load.answer.set_exception(StoreUnavailable(str(self._path), self.problem))
            return
        try:
            load.answer.set_result(tables.read(self._connection))
        except (sqlite3.Error, ValueError) as error:
            load.answer.set_exception(StoreError(str(self._path), f"cannot read: {error}"))


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file this is; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _waiter() -> tuple[asyncio.Future[None], Report]:
    """A future of the running loop and the function by which another thread resolves it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle(failure: StoreError | None) -> None:
        if future.done():  # the caller was cancelled
            return
        if failure is None:
            future.set_result(None)
        else:
            future.set_exception(failure)

    def report(failure: StoreError | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, failure)

    return future, report
