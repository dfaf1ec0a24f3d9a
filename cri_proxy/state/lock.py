"""The decider's lock: of all proxies that share a state directory, one decides."""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cri_proxy.errors import StoreError
from cri_proxy.state.files import open_private, private_directory

_NAME = "decider.lock"


@dataclass(eq=False)
class LockHeld(StoreError):
    """Another process decides; ``pid`` is what it wrote, 0 when it could not be read."""

    pid: int


class DeciderLock:
    """An flock(2) on a file of the state directory: gone with the process, however it ends.

    The file stays, so that two processes can never lock two different files of that name.
    """

    def __init__(self, descriptor: int) -> None:
        """Hold the lock of this descriptor; use ``acquire``."""
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, state_dir: Path) -> Self:
        """The lock, without waiting. Raises LockHeld, or StoreError when the directory cannot be used."""
        private_directory(state_dir)
        path = state_dir / _NAME
        descriptor = open_private(path, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid = _written_pid(descriptor)
            os.close(descriptor)
            whom = f"process {pid}" if pid else "another process"
            raise LockHeld(
                str(path), f"{whom} decides here already: stop it, or use another --state-dir", pid
            ) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        return cls(descriptor)

    def release(self) -> None:
        """Let the next one decide; a second call does nothing."""
        if self._descriptor >= 0:
            os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = -1


def _written_pid(descriptor: int) -> int:
    text = os.pread(descriptor, 32, 0).strip()
    return int(text) if text.isdigit() else 0
