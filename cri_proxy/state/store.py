"""Save and load rows in SQLite on one thread, which groups concurrent saves in a transaction."""

import asyncio
import sys
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cri_proxy.errors import StoreError, StoreUnavailable
from cri_proxy.helper_process import Launcher
from cri_proxy.state import tables
from cri_proxy.state.database import BUSY_SECONDS, Opened
from cri_proxy.state.rows import Deletable, Saveable, Saved, is_to_be_synced
from cri_proxy.state.session import LocalSession, RemoteSession, Session
from policies.base import ContainerKey, Grant


@dataclass(frozen=True, slots=True)
class _Save:
    """One save that waits for the thread."""

    puts: Sequence[Saveable]
    deletes: Sequence[Deletable]
    done: "asyncio.Future[None]"


class Store:
    """See ``rows.GrantStore``. Only its thread waits for the database, never the event loop."""

    def __init__(self, path: Path, session: Session, opened: Opened | None, problem: str = "") -> None:
        """Use a session that is open, or none because of this problem; call ``Store.open`` or ``open_or_wait``."""
        self._path = path
        self._session = session
        self.problem = problem
        # Which damaged store was moved aside at open, as a sentence; None = none.
        self.recovered = opened.recovered if opened is not None else None
        self._waiting: deque[_Save] = deque()
        self._submitting: asyncio.Handle | None = None
        # By the thread alone: the grants that the file has, as far as it wrote them itself.
        self._held: dict[ContainerKey, Grant] = {}
        self._is_closed = False
        self._read_at_open: Saved | None = opened.saved if opened is not None else Saved()
        # An executor hands every exception to the caller: its thread outlives them all.
        self._thread = ThreadPoolExecutor(1, "store")

    @classmethod
    def open(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS, launcher: Launcher | None = None) -> Self:
        """Open the store at this path, creating it if absent; make its directory private. Blocks. Raises StoreError.

        A damaged file is renamed to NAME.damaged-N and replaced by an empty store: see ``recovered``. Opening and
        saving wait ``busy_seconds`` for another process that has the file locked. With a launcher the database is
        open in a helper process, so that a disk that hangs does not keep this one from ending.
        """
        session = _session(path, launcher)
        return cls(path, session, session.open(busy_seconds))

    @classmethod
    def open_or_wait(cls, path: Path, *, busy_seconds: float = BUSY_SECONDS, launcher: Launcher | None = None) -> Self:
        """Open the store; on a full, read-only or broken disk start empty and open the file at a later save.

        ``problem`` is why, and the node continues as it does when the disk fails later. Raises StoreError where only
        an administrator can help.
        """
        session, problem = _session(path, launcher), ""
        try:
            opened = session.open(busy_seconds)
        except StoreUnavailable as error:
            opened, problem = None, error.problem
        return cls(path, session, opened, problem)

    def load(self) -> Saved:
        """Return everything saved so far. Blocks the calling thread; raises StoreError."""
        self._require_open()
        # Opening the file has read everything already, and nothing was saved since.
        if self._read_at_open is not None:
            return self._read_at_open
        # Saves that wait come first: a read must see them.
        self._submit()
        return self._thread.submit(self._session.read).result()

    async def save(self, puts: Sequence[Saveable], deletes: Sequence[Deletable] = ()) -> None:
        """Return when the change is in the file, on the disk if it ``is_to_be_synced``. See ``GrantStore.save``."""
        self._require_open()
        loop = asyncio.get_running_loop()
        save = _Save(tuple(puts), tuple(deletes), loop.create_future())
        self._read_at_open = None
        self._waiting.append(save)
        if self._submitting is None:  # not in this turn of the loop, so that a turn is one group
            self._submitting = loop.call_soon(self._submit)
        # A caller that is cancelled leaves its save among those that wait.
        await asyncio.shield(save.done)

    def _submit(self) -> None:
        if self._submitting is not None:
            self._submitting.cancel()
        self._submitting = None
        self._thread.submit(self._commit_waiting)

    async def close(self) -> None:
        """Finish the saves that wait, then close the file; a second call does nothing."""
        if self._is_closed:
            return
        self._submit()
        self._is_closed = True
        closed = self._thread.submit(self._session.close)
        # Without waiting: a disk that hangs would hold the event loop here.
        self._thread.shutdown(wait=False)
        await asyncio.shield(asyncio.wrap_future(closed))

    def _require_open(self) -> None:
        if self._is_closed:
            raise StoreError(str(self._path), "the store is closed")

    def _commit_waiting(self) -> None:
        """Commit all saves that wait; an earlier call may have taken those of this one."""
        group = []
        while self._waiting:
            group.append(self._waiting.popleft())
        if not group:
            return
        problems: Sequence[str] = ()
        try:
            problems = self._commit(group)
        finally:
            error = sys.exc_info()[1]
            with suppress(RuntimeError):  # the loop has ended
                group[0].done.get_loop().call_soon_threadsafe(
                    self._settle, group, problems or [f"an internal error: {error!r}"] * len(group)
                )

    def _commit(self, group: Sequence[_Save]) -> Sequence[str]:
        """Save the whole group in one transaction; return for each save why it failed, '' for those on disk."""
        held, self._held = self._held, {}  # nothing is known of the file if this fails
        statements = [s for save in group for s in tables.change(save.puts, save.deletes, held)]
        is_synced = any(is_to_be_synced(put) for save in group for put in save.puts)
        written = self._session.write(statements, is_synced)
        # A bad value fails alone; a failing disk fails all of them.
        if written.is_value and len(group) > 1:
            return [problem for save in group for problem in self._commit([save])]
        if not written.problem:
            self._held = held
        return [written.problem] * len(group)

    def _settle(self, group: Sequence[_Save], problems: Sequence[str]) -> None:
        """Complete every save of the group."""
        for save, problem in zip(group, problems, strict=True):
            if problem:
                save.done.set_exception(StoreError(str(self._path), problem))
            else:
                save.done.set_result(None)


def _session(path: Path, launcher: Launcher | None) -> Session:
    return LocalSession(path) if launcher is None else RemoteSession(path, launcher)
