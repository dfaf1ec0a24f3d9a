"""Keep a value over restarts: find what was saved, write the newest one in the background, one write at a time."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from cri_proxy.errors import StoreError
from cri_proxy.file_workers import PLAIN_THREADS, FileCalls, FilesFailed
from cri_proxy.in_force.state_file import StateFile, find_document, save_document
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
        self._file = state.path / document.name
        self._event = event
        self._next: list[T] = []
        self._is_writing = False
        self.problem = ""
        """Why the newest one could not be written; '' = it was written, or is about to be."""

    async def find(self, absent: T) -> T | None:
        """Return what was saved, ``absent`` where nothing was; None where that cannot be used, which is logged."""
        most_bytes, file = self._document.most_bytes, self._file
        try:
            found = await self._state.files.run(
                str(file.parent), find_document, file, most_bytes, within_seconds=FIND_SECONDS
            )
            return absent if found is None else self._document.value(found[0], str(file))
        except (StoreError, FilesFailed) as error:
            self._state.journal.noted(self._event, reason=str(error))
            return None

    def keep(self, value: T) -> None:
        """Write this for the next start, in the background."""
        self._next = [value]
        if not self._is_writing:
            self._is_writing = True
            self._state.tasks.start(self._write(), name="save for the next start")

    async def _write(self) -> None:
        try:
            while self._next:
                # Taken before the write: one that comes meanwhile is written after it.
                value = self._next.pop()
                try:
                    await self._save(value)
                    self.problem = ""
                except (StoreError, FilesFailed) as error:
                    self.problem = str(error)
                    self._state.journal.noted(self._event, reason=self.problem)
        finally:
            self._is_writing = False

    async def _save(self, value: T) -> None:
        kind, file = self._document, self._file
        document, equal = kind.document(value), (kind.most_bytes, kind.uncompared)
        await self._state.files.run(
            str(file.parent), save_document, file, document, *equal, within_seconds=SAVE_SECONDS
        )
