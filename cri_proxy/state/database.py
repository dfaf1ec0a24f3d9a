"""Open the SQLite file of the state: check it, migrate its schema, read all rows, and move a damaged file aside."""

import contextlib
import os
import sqlite3
from dataclasses import dataclass
from pathlib import Path

from cri_proxy.errors import StoreError, StoreUnavailable
from cri_proxy.private_files import check_private, private_directory
from cri_proxy.state import migrate, tables
from cri_proxy.state.rows import Saved

_COMPANIONS = ("", "-wal", "-shm")  # the database, its write-ahead log and the log's index
# Another process has the database open only while it hands over; the decider's lock excludes all others.
BUSY_SECONDS = 5.0
# Free pages are used again: only what an older version left behind is worth a rewrite of the file.
KEPT_FREE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Opened:
    """The content of the database when it was opened, and the treatment of a damaged file (None = intact)."""

    saved: Saved
    recovered: str | None = None


def connect(path: Path, busy_seconds: float) -> sqlite3.Connection:
    """Connect with a write-ahead log and synchronous FULL: a returned commit survives a power failure."""
    # isolation_level None: sqlite3 begins no transaction by itself. The connection moves to the writer thread once.
    connection = sqlite3.connect(path, timeout=busy_seconds, isolation_level=None, check_same_thread=False)
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        # Everything is read once, at the start: what is written needs no 2 MB of pages in memory. A page that is read
        # again comes from the kernel's cache.
        connection.execute("PRAGMA cache_size = -64")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection) -> Saved:
    """Check the file, migrate and read it. Raises sqlite3.DatabaseError or ValueError when it is damaged."""
    version = _known_version(connection)
    # One problem is enough to move the file aside.
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise sqlite3.DatabaseError(verdict)
    tables.apply(connection, [(sql, ()) for sql in migrate.statements(version)])
    tables.apply(connection, tables.bound_decisions(connection))
    _give_back(connection)
    return tables.read(connection)


def _give_back(connection: sqlite3.Connection) -> None:
    """Rewrite the file where most of it is free, to give the disk space back; without space for that leave it."""
    ((page_bytes,), (pages,), (free,)) = (
        connection.execute(f"PRAGMA {name}").fetchone() for name in ("page_size", "page_count", "freelist_count")
    )
    if free * page_bytes > KEPT_FREE_BYTES and free > pages // 2:
        with contextlib.suppress(sqlite3.OperationalError):
            connection.execute("VACUUM")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class _UnusableError(Exception):
    """The file is to be moved aside, as NAME.``kind``-N."""

    def __init__(self, problem: str, kind: str = "damaged") -> None:
        super().__init__(problem)
        self.kind = kind


def _known_version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version > len(migrate.STEPS):
        problem = f"has schema version {version}, this program supports up to {len(migrate.STEPS)}"
        raise _UnusableError(problem, "newer")
    return version


def require_known_version(path: Path) -> None:
    """Raise StoreError when a newer program wrote the file at this path; change nothing.

    Any other problem is left to ``open_database``.
    """
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            _known_version(connection)
    except _UnusableError as error:
        problem = f"{error}: start the newer program, or move the file away; grants are then rebuilt from the runtime"
        raise StoreError(str(path), problem) from error
    except sqlite3.Error:
        return


def _open_once(path: Path, busy_seconds: float, recovered: str | None = None) -> tuple[sqlite3.Connection, Opened]:
    connection = connect(path, busy_seconds)
    try:
        return connection, Opened(_prepare(connection), recovered)
    except BaseException:
        connection.close()
        raise


def _move_aside(path: Path, kind: str) -> Path:
    """Rename the database and its companions to NAME.KIND-N, with the first free N; return the new name."""
    # Earlier ones stay: they are what is left to find the cause of the damage.
    number = 1
    while any(os.path.lexists(path.with_name(f"{path.name}.{kind}-{number}{end}")) for end in _COMPANIONS):
        number += 1
    # With its log, which may hold the last commits: without it the damaged file tells less than was saved.
    target = path.with_name(f"{path.name}.{kind}-{number}")
    for end in _COMPANIONS:
        source = path.with_name(path.name + end)
        if source.exists():
            source.rename(target.with_name(target.name + end))
    return target


def _is_damage(error: Exception) -> bool:
    """Return whether the content is damaged; other OperationalErrors come from the disk, permissions or a lock."""
    signs = ("no such", "already exists", "Could not decode")
    return not isinstance(error, sqlite3.OperationalError) or any(sign in str(error) for sign in signs)


def _check_files(path: Path) -> None:
    """Refuse what others may write to; make the database if it is absent.

    Raises StoreError, or _UnusableError for what is no file: a container engine makes a directory of a path to mount
    that is absent, and a daemon that stopped at it would leave the node without a proxy for good.
    """
    for end in _COMPANIONS:
        companion = path.with_name(path.name + end)
        if not end or os.path.lexists(companion):
            if companion.exists() and not companion.is_file() and not companion.is_symlink():
                raise _UnusableError(f"{companion.name} is a {'directory' if companion.is_dir() else 'special file'}")
            check_private(companion)


def open_database(path: Path, *, busy_seconds: float = BUSY_SECONDS) -> tuple[sqlite3.Connection, Opened]:
    """Open the database at this path, creating it if absent; wait this long for another process.

    What cannot be used is moved aside. Raises StoreError, or StoreUnavailable where a later attempt may succeed.
    """
    private_directory(path.parent)
    try:
        _check_files(path)
        return _open_once(path, busy_seconds)
    except _UnusableError as error:
        problem, kind = str(error), error.kind
    except (sqlite3.Error, ValueError) as error:
        if not _is_damage(error):
            problem = f"cannot open: {error}; check the disk and other processes that use the file"
            raise StoreUnavailable(str(path), problem) from error
        problem, kind = str(error), "damaged"
    try:
        target = _move_aside(path, kind)
        check_private(path)
        found = "newer than this program" if kind == "newer" else "damaged"
        recovered = f"{path} was {found} ({problem}) and is now {target}"
        return _open_once(path, busy_seconds, recovered)
    except (sqlite3.Error, OSError) as error:
        raise StoreUnavailable(str(path), f"{kind} ({problem}) and cannot be replaced: {error}") from error
