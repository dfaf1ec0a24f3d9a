"""Notice at once that a container's cpuset files were written: by inotify(7), which reports writes to cgroup files too.

It reports every writer, the runtime as well: the caller reads the files and compares. Polling finds what is missed.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final, Protocol

FILES: Final = ("cpuset.cpus", "cpuset.mems")
_MODIFY, _OVERFLOW = 0x2, 0x4000
_HEADER: Final = Struct("iIII")  # struct inotify_event: watch, mask, cookie, length of the name that follows
_READ_BYTES: Final = 1 << 16


class Writes(Protocol):
    """Reports writes to the cpuset files of containers that it follows."""

    def follow(self, container_id: str, directory: Path) -> bool:
        """Follow this container, whose cgroup this is; return whether it was not followed before, and is now."""

    def keep(self, container_ids: Collection[str]) -> None:
        """Stop following all containers but these."""

    @property
    def problem(self) -> str:
        """Why some writes are found by polling only; '' = all are reported."""

    def close(self) -> None:
        """Follow nothing any more."""


class InotifyWrites:
    """Implements ``Writes`` on the running event loop: one descriptor, two watches for each container."""

    def __init__(self, on_write: Callable[[str], None]) -> None:
        """Open nothing yet; ``on_write`` gets the id of a container whose files were written."""
        self._on_write = on_write
        self._libc: Final = ctypes.CDLL(None, use_errno=True)
        self._descriptor = -1
        self._containers: dict[int, str] = {}
        self._watches: dict[str, tuple[int, ...]] = {}
        self.problem = ""

    def follow(self, container_id: str, directory: Path) -> bool:
        """As ``Writes``."""
        if container_id in self._watches:
            return False
        try:
            self._open()
            found = tuple(self._watch(directory / name) for name in FILES)
        except FileNotFoundError:
            return False  # it has ended
        except OSError as error:
            # ENOSPC and EMFILE: other programs may have used up the limits in /proc/sys/fs/inotify.
            self.problem = f"inotify: {error.strerror}"
            return False
        self.problem = ""
        self._watches[container_id] = found
        self._containers.update(dict.fromkeys(found, container_id))
        return True

    def keep(self, container_ids: Collection[str]) -> None:
        """As ``Writes``."""
        for container_id in self._watches.keys() - set(container_ids):
            for watch in self._watches.pop(container_id):
                self._containers.pop(watch, None)
                self._libc.inotify_rm_watch(self._descriptor, watch)  # EINVAL: went with its file

    def close(self) -> None:
        """As ``Writes``."""
        if self._descriptor >= 0:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
        self._descriptor, self._watches, self._containers = -1, {}, {}

    def _open(self) -> None:
        if self._descriptor >= 0:
            return
        self._descriptor = self._checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))
        asyncio.get_running_loop().add_reader(self._descriptor, self._read)

    def _watch(self, file: Path) -> int:
        return self._checked(self._libc.inotify_add_watch(self._descriptor, os.fsencode(file), _MODIFY))

    @staticmethod
    def _checked(result: int) -> int:
        if result >= 0:
            return result
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))

    def _read(self) -> None:
        """Report each container once, however many writes there were."""
        data = b""
        with suppress(BlockingIOError, InterruptedError):
            data = os.read(self._descriptor, _READ_BYTES)
        written: dict[str, None] = {}
        while data:
            watch, mask, _, length = _HEADER.unpack_from(data)
            data = data[_HEADER.size + length :]
            if mask & _OVERFLOW:
                written |= dict.fromkeys(self._watches)
            elif mask & _MODIFY and watch in self._containers:
                written[self._containers[watch]] = None
        for container_id in written:
            self._on_write(container_id)
