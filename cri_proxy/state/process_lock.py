"""The decider's lock: one process per state directory decides, a second gets LockHeld; nothing here waits."""

import fcntl
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cri_proxy.errors import StoreError, StoreUnavailable
from cri_proxy.private_files import open_private, private_directory

Note = Callable[[Path, str], None]

_NAME = "decider.lock"
SUCCESSOR = "successor.lock"
"""Held by a process that waits for the decider's lock: two of them would take each other's socket."""


@dataclass(eq=False)
class LockHeld(StoreError):
    """Another process holds the lock: ``pid``, 0 if it could not be read.

    ``started_ticks`` is its start time as in proc(5) (stat, field 22), 0 when it does not offer to hand over.
    """

    pid: int
    started_ticks: int = 0


def note_holder(path: Path, text: str) -> None:
    """Write the holder into the file if the disk allows it; the lock also works on a full or read-only disk."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, text.encode(), 0)
        finally:
            os.close(descriptor)


class DeciderLock:
    """An flock(2) on a file of the state directory: the kernel releases it with the process."""

    def __init__(self, path: Path, descriptor: int, note: Note) -> None:
        """Hold the lock of this descriptor; use ``acquire``."""
        self._path = path
        self._descriptor = descriptor
        self._note = note

    @classmethod
    def acquire(cls, state_dir: Path, name: str = _NAME, *, note: Note = note_holder) -> Self:
        """Take the lock without waiting. Raises LockHeld, or StoreError when the directory cannot be used.

        ``note`` writes the holder into the file, at once or soon: on a frozen disk locking works and writing waits.
        """
        private_directory(state_dir)
        path = state_dir / name
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, ticks = _read(descriptor)
            os.close(descriptor)
            holder = f"process {pid}" if pid else "another process"
            problem = f"{holder} already uses this state directory: stop it, or use another --state-dir"
            raise LockHeld(str(path), problem, pid, ticks) from None
        note(path, f"{os.getpid()}\n")
        return cls(path, descriptor, note)

    def offer_handover(self) -> None:
        """Note in the file that this process hands over on request: see ``cri_proxy.daemon.handover``."""
        self._note(self._path, f"{os.getpid()}\n{started_ticks(os.getpid())}\n")

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        # The file stays: if it were removed, two processes could lock two different files of that name.
        # The holder's name stays in it too: to write it off could take as long as the disk hangs. Explicitly, because a
        # thread of this process that the disk holds would keep the descriptor open.
        if self._descriptor >= 0:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
            os.close(self._descriptor)
            self._descriptor = -1


def _open(path: Path) -> int:
    """Open the file, for reading only where the disk is read-only: flock(2) needs no more."""
    try:
        return open_private(path, os.O_RDWR)
    except StoreUnavailable:
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            pass
        raise


def started_ticks(pid: int) -> int:
    """Return when this process started, in clock ticks since boot (proc(5): stat, field 22); 0 when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def _read(descriptor: int) -> tuple[int, int]:
    """Read the holder's pid, and its start time if it offers to hand over; 0 for a missing number."""
    numbers = [int(word) for word in os.pread(descriptor, 64, 0).split() if word.isdigit()]
    pid, ticks, *_ = (*numbers, 0, 0)
    return pid, ticks
