"""Save and load rows in SQLite: one writer thread groups concurrent saves in a transaction, and reopens a lost file."""

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cri_proxy.errors import StoreError, StoreUnavailable
from cri_proxy.state import tables
from cri_proxy.state.database import BUSY_SECONDS, OpenDatabase, open_database
from cri_proxy.state.rows import Deletable, Saveable, Saved
from cri_proxy.state.tables import Statement


@dataclass(frozen=True, slots=True)
class _Save:
    """One save that waits for the writer thread."""

    statements: tuple[Statement, ...]
    done: Future[None]


@dataclass(frozen=True, slots=True)
class _Load:
    """A read in the queue of saves."""

    done: Future[Saved]


@dataclass(frozen=True, slots=True)
class _Close:
    """The job that ends the writer thread."""

    done: Future[None]


_Job = _Save | _Load | _Close


class Store:
    """See ``rows.GrantStore``. Only the writer thread touches SQLite, never the event loop."""

    def __init__(self, path: Path, opened: OpenDatabase | None, problem: str = "") -> None:
        """Use an opened database, or none because of this problem; call ``Store.open`` or ``open_or_wait`` instead."""
        self._path = path
        self.problem = problem
        self._recovered = opened.recovered if opened is not None else None
        self._connection = opened.connection if opened is not None else None
        self._identity = _identity(path) if opened is not None else None
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._is_closed = False
        self._commits = 0
        self._read_at_open: Saved | None = opened.saved if opened is not None else Saved()
        # A daemon thread: a process that exits without close() is not held up, and loses only unacknowledged saves.
        self._writer = threading.Thread(target=self._write, name="store-writer", daemon=True)
        self._writer.start()

    @classmethod
    def open(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Self:
        """Open the store at this path, creating it if absent; make its directory private. Blocks. Raises StoreError.

        A damaged file is renamed to NAME.damaged-N and replaced by an empty store: see ``recovered``. Opening and
        saving wait ``busy_seconds`` for another process that has the file locked.
        """
        return cls(path, open_database(path, busy_seconds=busy_seconds))

    @classmethod
    def open_or_wait(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS) -> Self:
        """Open the store; on a full, read-only or broken disk start empty and open the file at a later save.

        ``problem`` says why, and the node continues as it does when the disk fails later. Raises StoreError where
        only an administrator can help.
        """
        try:
            return cls.open(path, busy_seconds=busy_seconds)
        except StoreUnavailable as error:
            return cls(path, None, error.problem)

    @property
    def recovered(self) -> str | None:
        """See ``rows.GrantStore``."""
        return self._recovered

    @property
    def commits(self) -> int:
        """The number of transactions so far; fewer than saves where saves were grouped."""
        return self._commits

    def load(self) -> Saved:
        """Return everything saved so far. Blocks the calling thread; raises StoreError."""
        # Opening the file has read everything already, and nothing was saved since.
        if self._read_at_open is not None and not self._is_closed:
            return self._read_at_open
        done: Future[Saved] = Future()
        self._put(_Load(done))
        return done.result()

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        """Return when the change is on disk. See ``GrantStore.save``."""
        done: Future[None] = Future()
        self._put(_Save(tables.change(puts, deletes), done))
        self._read_at_open = None
        await _result(done)

    async def close(self) -> None:
        """Finish the saves that wait, then close the file; a second call does nothing."""
        if self._is_closed:
            return
        done: Future[None] = Future()
        self._put(_Close(done))
        self._is_closed = True
        await _result(done)

    def _put(self, job: _Job) -> None:
        if self._is_closed:
            raise StoreError(str(self._path), "the store is closed")
        self._jobs.put(job)

    def _write(self) -> None:
        """Run the writer thread: take all waiting jobs in order, until the closing one."""
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
                    job.done.set_result(None)
                    return

    def _commit(self, group: Sequence[_Save]) -> None:
        """Save the whole group in one transaction. A bad value fails alone, a failing disk fails all of them."""
        if self._connection is None or _identity(self._path) != self._identity:
            problem = self._reopen()
            if problem or self._connection is None:
                self._settle(group, problem)
                return
        try:
            tables.apply(self._connection, [statement for save in group for statement in save.statements])
        except sqlite3.OperationalError as error:
            self._settle(group, f"cannot save: {error}; check the disk that holds it")
        except (sqlite3.Error, ValueError, OverflowError) as error:
            if len(group) == 1:
                self._settle(group, f"cannot save this value: {error}")
            else:
                for save in group:
                    self._commit([save])
        else:
            self._commits += 1
            self._settle(group, "")

    def _reopen(self) -> str:
        """Open a file that could not be opened before, or was removed: writes to a removed file would be lost.

        Return the problem with what was done about it; '' when all is well.
        """
        old = self._connection
        try:
            opened = open_database(self._path)
        except StoreError as error:
            return error.problem if old is None else f"the file was removed and cannot be recreated: {error.problem}"
        self._connection, self._identity = opened.connection, _identity(self._path)
        if old is None:
            return ""
        old.close()
        return "the file was removed or replaced while in use; a new one was opened, and is filled again"

    def _settle(self, group: Sequence[_Save], problem: str) -> None:
        """Complete every save of the group; each gets its own error object, because raising one changes it."""
        for save in group:
            if problem:
                save.done.set_exception(StoreError(str(self._path), problem))
            else:
                save.done.set_result(None)

    def _read(self, load: _Load) -> None:
        if self._connection is None:
            load.done.set_exception(StoreUnavailable(str(self._path), self.problem))
            return
        try:
            load.done.set_result(tables.read(self._connection))
        except (sqlite3.Error, ValueError) as error:
            load.done.set_exception(StoreError(str(self._path), f"cannot read: {error}"))


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of this file; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


async def _result(done: Future[None]) -> None:
    """Wait for another thread; a caller that is cancelled leaves the job in the queue."""
    await asyncio.shield(asyncio.wrap_future(done))
