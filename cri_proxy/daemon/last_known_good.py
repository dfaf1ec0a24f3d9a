"""Keeps what is in force for the next start, in the background: no reload and no call waits for this disk."""

import asyncio
from pathlib import Path

from cri_proxy import events
from cri_proxy.config.last_known_good import Kept, keep
from cri_proxy.errors import StoreError
from cri_proxy.node.observer import Observer
from cri_proxy.tasks import Tasks


class Keeping:
    """Writes one after the other, and of those that wait the newest only."""

    def __init__(self, directory: Path, tasks: Tasks, observer: Observer) -> None:
        """``directory`` is the state's; nothing is written yet."""
        self._directory = directory
        self._tasks = tasks
        self._observer = observer
        self._next: Kept | None = None
        self._is_writing = False
        self.problem = ""
        """Why the newest could not be kept; '' = it was, or is about to be."""

    def keep(self, kept: Kept) -> None:
        """Have the next start find this."""
        self._next = kept
        if not self._is_writing:
            self._is_writing = True
            self._tasks.start(self._write(), name="keep the configuration")

    def warnings(self) -> tuple[str, ...]:
        """What an operator should know."""
        return (f"a start with an invalid file would not find this configuration: {self.problem}",) * bool(self.problem)

    async def _write(self) -> None:
        try:
            while (kept := self._next) is not None:
                self._next = None
                await self._try(kept)
        finally:
            self._is_writing = False

    async def _try(self, kept: Kept) -> None:
        try:
            await asyncio.to_thread(keep, self._directory, kept)
        except StoreError as error:
            self.problem = str(error)
            self._observer.noted(events.CONFIG_NOT_KEPT, reason=self.problem)
        else:
            self.problem = ""
