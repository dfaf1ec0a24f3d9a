"""The decider's lock: of all proxies that share a state directory, one decides."""

import fcntl
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cri_proxy.errors import StoreError, StoreUnavailable
from cri_proxy.private_files import open_private, private_directory

_NAME = "decider.lock"
SUCCESSOR = "successor.lock"
"""Held by a process that waits for the decider's lock: two at once would take each other's socket."""


@dataclass(eq=False)
class LockHeld(StoreError):
    """Another process decides; ``pid`` is what it wrote, 0 when it could not be read.

    ``started_ticks`` is its start as proc(5) gives it (stat, field 22), 0 when it does not offer to hand over.
    """

    pid: int
    started_ticks: int = 0


class DeciderLock:
    """An flock(2) on a file of the state directory: gone with the process, however it ends.

    The file stays, so that two processes can never lock two different files of that name.
    """

    def __init__(self, descriptor: int) -> None:
        """Hold the lock of this descriptor; use ``acquire``."""
        self._descriptor = descriptor

    @classmethod
    def acquire(cls, state_dir: Path, name: str = _NAME) -> Self:
        """The lock, without waiting. Raises LockHeld, or StoreError when the directory cannot be used."""
        private_directory(state_dir)
        path = state_dir / name
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pid, ticks = _written(descriptor)
            os.close(descriptor)
            whom = f"process {pid}" if pid else "another process"
            problem = f"{whom} decides here already: stop it, or use another --state-dir"
            raise LockHeld(str(path), problem, pid, ticks) from None
        _write(descriptor, f"{os.getpid()}\n")
        return cls(descriptor)

    def offer_handover(self) -> None:
        """Say that this process gives place to another that asks: see ``cri_proxy.daemon.handover``."""
        _write(self._descriptor, f"{os.getpid()}\n{started_ticks(os.getpid())}\n")

    def release(self) -> None:
        """Let the next one decide; a second call does nothing."""
        if self._descriptor >= 0:
            _write(self._descriptor, "")
            os.close(self._descriptor)
            self._descriptor = -1


def _opened(path: Path) -> int:
    """The file, for reading only where the disk is read-only by now: flock(2) asks for no more."""
    try:
        return open_private(path, os.O_RDWR)
    except StoreUnavailable:
        try:
            return os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            pass
        raise


def _write(descriptor: int, text: str) -> None:
    """Say who holds it. On a disk that is full or read-only nobody learns that; the lock holds all the same."""
    with suppress(OSError):
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)


def started_ticks(pid: int) -> int:
    """When this process began, in clock ticks since boot (proc(5): stat, field 22); 0 when there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0
    return int(stat.rpartition(")")[2].split()[19])


def _written(descriptor: int) -> tuple[int, int]:
    """The holder's pid, and its start when it offers to hand over; 0 for what is not there."""
    numbers = [int(word) for word in os.pread(descriptor, 64, 0).split() if word.isdigit()]
    pid, ticks, *_ = (*numbers, 0, 0)
    return pid, ticks
