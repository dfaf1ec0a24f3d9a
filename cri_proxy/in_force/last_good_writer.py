"""Keep a value over restarts: find what was saved, write the newest one in the background, one write at a time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from cri_proxy.errors import StoreError
from cri_proxy.file_workers import PLAIN_THREADS, FileCalls, FilesFailed
from cri_proxy.in_force.state_file import StateFile
from cri_proxy.tasks import Tasks

T = TypeVar("T")

FIND_SECONDS: Final = 2.0
SAVE_SECONDS: Final = 10.0  # for a file of some kilobytes and an fsync(2)


class Notes(Protocol):
    """Takes events for the log, as the node's journal does."""

    def noted(self, event: str, **fields: object) -> None:
        """Log this event."""


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The state directory, and what writes to it: ``tasks`` in the background, ``files`` off the event loop."""

    path: Path
    tasks: Tasks
    journal: Notes
    files: FileCalls = PLAIN_THREADS


class LastGoodWriter(Generic[T]):
    """Finds and writes values of one kind in a state directory; keeps only the newest one that waits."""

    def __init__(self, state: StateDirectory, document: StateFile[T], event: str) -> None:
        """``event`` is logged when the document cannot be read or written."""
        self._state = state
        self._document = document
        self._event = event
        self._next: list[T] = []
        self._is_writing = False
        self.problem = ""
        """Why the newest one could not be written; '' = it was written, or is about to be."""

    async def find(self, absent: T) -> T | None:
        """Return what was saved, ``absent`` where nothing was; None where that cannot be used, which is logged."""
        directory, find = self._state.path, self._document.find
        try:
            found = await self._state.files.run(str(directory), find, directory, within_seconds=FIND_SECONDS)
        except (StoreError, FilesFailed) as error:
            self._state.journal.noted(self._event, reason=str(error))
            return None
        return absent if found is None else found

    def keep(self, value: T) -> None:
        """Write this for the next start, in the background."""
        self._next = [value]
        if not self._is_writing:
            self._is_writing = True
            self._state.tasks.start(self._write(), name="save for the next start")

    async def _write(self) -> None:
        try:
            while self._next:
                value = self._next.pop()
                try:
                    directory, save = self._state.path, self._document.save
                    await self._state.files.run(str(directory), save, directory, value, within_seconds=SAVE_SECONDS)
                    self.problem = ""
                except (StoreError, FilesFailed) as error:
                    self.problem = str(error)
                    self._state.journal.noted(self._event, reason=self.problem)
        finally:
            self._is_writing = False
