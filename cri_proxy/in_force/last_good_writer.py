"""Write the newest value for the next start, in the background: one write at a time, only the newest pending one."""

from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from cri_proxy.errors import StoreError
from cri_proxy.file_workers import PLAIN_THREADS, FileCalls, FilesFailed
from cri_proxy.tasks import Tasks

T = TypeVar("T")

SAVE_SECONDS: Final = 10.0  # for a file of some kilobytes and an fsync(2)


class Notes(Protocol):
    """Takes events for the log, as the node's journal does."""

    def noted(self, event: str, **fields: object) -> None:
        """Log this event."""


class LastGoodWriter(Generic[T]):
    """Writes values to a state directory; keeps only the newest one that waits."""

    def __init__(
        self,
        directory: Path,
        save: Callable[[Path, T], None],
        *,
        event: str,
        tasks: Tasks,
        journal: Notes,
        files: FileCalls = PLAIN_THREADS,
    ) -> None:
        """``save`` writes to the directory and raises StoreError; ``event`` is logged when that fails."""
        self._directory = directory
        self._save = save
        self._event = event
        self._files = files
        self._tasks = tasks
        self._journal = journal
        self._next: list[T] = []
        self._is_writing = False
        self.problem = ""
        """Why the newest one could not be written; '' = it was written, or is about to be."""

    def keep(self, value: T) -> None:
        """Write this for the next start, in the background."""
        self._next = [value]
        if not self._is_writing:
            self._is_writing = True
            self._tasks.start(self._write(), name="save for the next start")

    async def _write(self) -> None:
        try:
            while self._next:
                value = self._next.pop()
                try:
                    await self._files.run(
                        str(self._directory), self._save, self._directory, value, within_seconds=SAVE_SECONDS
                    )
                    self.problem = ""
                except (StoreError, FilesFailed) as error:
                    self.problem = str(error)
                    self._journal.noted(self._event, reason=self.problem)
        finally:
            self._is_writing = False
