"""The open database as the store uses it: reopen a lost file, write a group of changes; in this process or in a helper.

A disk that hangs can hold a process that writes to it in an uninterruptible sleep: the daemon's session is in a
helper.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar, TypeVarTuple

from cri_proxy.errors import StoreError, StoreUnavailable
from cri_proxy.helper_process import HelperFailed, HelperProcess, Launcher
from cri_proxy.state import tables
from cri_proxy.state.database import BUSY_SECONDS, Opened, connect, open_database
from cri_proxy.state.rows import Saved

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(frozen=True, slots=True)
class Written:
    """The outcome of a transaction: ``problem`` is '' when it is on disk.

    ``is_value``: one of its values is at fault; the same statements without it may succeed.
    """

    problem: str = ""
    is_value: bool = False


class LocalSession:
    """An open database, or one that is opened by the first write, in this process. All calls block, one at a time."""

    def __init__(self, path: Path) -> None:
        """Open nothing yet."""
        self._path = path
        self._connection: sqlite3.Connection | None = None
        self._identity: tuple[int, int] | None = None

    def open(self, busy_seconds: float) -> Opened:
        """Open it, creating it if absent; wait this long for another process. Raises StoreError."""
        self.close()
        self._connection, opened = open_database(self._path, busy_seconds=busy_seconds)
        self._identity = _identity(self._path)
        return opened

    def attach(self) -> None:
        """Be the session of a database that was just opened and closed; where that fails, the first write opens it."""
        with suppress(sqlite3.Error):
            self._connection, self._identity = connect(self._path, BUSY_SECONDS), _identity(self._path)

    def write(self, statements: Sequence[tables.Statement], is_synced: bool = True) -> Written:
        """Run these statements as one transaction; return once the disk has it, or (not synced) the kernel."""
        # A file that was removed still takes writes, and they are lost when it is closed.
        if self._connection is None or _identity(self._path) != self._identity:
            problem = self._reopen()
            if problem or self._connection is None:
                return Written(problem)
        try:
            tables.apply(self._connection, statements, is_synced=is_synced)
        except sqlite3.OperationalError as error:
            return Written(f"cannot save: {error}; check the disk that holds it")
        # Not the disk: half of a surrogate pair in a text, or a number beyond 64 bits.
        except (sqlite3.Error, ValueError, OverflowError) as error:
            return Written(f"cannot save this value: {error}", is_value=True)
        return Written()

    def _reopen(self) -> str:
        """Open a file that could not be opened before, or was removed.

        Return the problem with what was done about it; '' when all is well.
        """
        old = self._connection
        try:
            self._connection, _ = open_database(self._path)
        except StoreError as error:
            return error.problem if old is None else f"the file was removed and cannot be recreated: {error.problem}"
        self._identity = _identity(self._path)
        if old is None:
            return ""
        old.close()
        return "the file was removed or replaced while in use; a new one was opened, and is filled again"

    def read(self) -> Saved:
        """Read all tables. Raises StoreError."""
        if self._connection is None:
            raise StoreUnavailable(str(self._path), "the file is not open")
        try:
            return tables.read(self._connection)
        except (sqlite3.Error, ValueError) as error:
            raise StoreError(str(self._path), f"cannot read: {error}") from error

    def close(self) -> None:
        """Close the file, if it is open."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of this file; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


# In the helper: its only session. The daemon's process has none.
_session = cache(LocalSession)


def _in_helper(path: Path, method: Callable[[LocalSession, *Ts], T], *args: *Ts) -> T:
    return method(_session(path), *args)


class RemoteSession:
    """A session in a helper process; one that ends is replaced by the next call."""

    def __init__(self, path: Path, launcher: Launcher) -> None:
        """Start nothing yet."""
        self._path = path
        self._launcher = launcher
        self._helper: HelperProcess | None = None

    def open(self, busy_seconds: float) -> Opened:
        """As ``LocalSession``, in a helper of its own: one that has checked and read it all is 3 MB larger."""
        opened = self._call(LocalSession.open, busy_seconds)
        self.close()
        self._call(LocalSession.attach)
        return opened

    def write(self, statements: Sequence[tables.Statement], is_synced: bool = True) -> Written:
        """As ``LocalSession``."""
        try:
            return self._call(LocalSession.write, statements, is_synced)
        except StoreUnavailable as error:
            return Written(error.problem)

    def read(self) -> Saved:
        """As ``LocalSession``."""
        return self._call(LocalSession.read)

    def close(self) -> None:
        """As ``LocalSession``."""
        if self._helper is not None:
            with suppress(StoreUnavailable):  # it ended: the kernel has closed the file
                self._call(LocalSession.close)
            self._drop()

    def _call(self, method: Callable[[LocalSession, *Ts], T], *args: *Ts) -> T:
        try:
            if self._helper is None:
                self._helper = self._launcher.start()
            return self._helper.call(_in_helper, self._path, method, *args)
        except HelperFailed as error:
            self._drop()
            raise StoreUnavailable(str(self._path), str(error)) from error

    def _drop(self) -> None:
        if self._helper is not None:
            self._helper.close()
            self._helper = None


Session = LocalSession | RemoteSession
