"""Notice at once that a container's cpuset files were written: by inotify(7), which reports writes to cgroup files too.

It reports every writer, the runtime as well: the caller reads the files and compares. Polling finds what is missed.
"""

import asyncio
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final, Protocol

from cri_proxy.in_force.inotify_events import MODIFY, OVERFLOW, InotifyDescriptor

FILES: Final = ("cpuset.cpus", "cpuset.mems")


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
        self._inotify: InotifyDescriptor | None = None
        self._containers: dict[int, str] = {}
        self._watches: dict[str, tuple[int, ...]] = {}
        self.problem = ""

    def follow(self, container_id: str, directory: Path) -> bool:
        """As ``Writes``."""
        if container_id in self._watches:
            return False
        try:
            inotify = self._opened()
            found = tuple(inotify.watch(directory / name, MODIFY) for name in FILES)
        except FileNotFoundError:
            return False  # it has ended
        except OSError as error:
            self.problem = f"inotify: {error.strerror}"  # the regular check finds writes then
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
                self._opened().unwatch(watch)

    def close(self) -> None:
        """As ``Writes``."""
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.number)
            self._inotify.close()
        self._inotify, self._watches, self._containers = None, {}, {}

    def _opened(self) -> InotifyDescriptor:
        if self._inotify is None:
            self._inotify = InotifyDescriptor()
            asyncio.get_running_loop().add_reader(self._inotify.number, self._read, self._inotify)
        return self._inotify

    def _read(self, inotify: InotifyDescriptor) -> None:
        """Report each container once, however many writes there were."""
        written: dict[str, None] = {}
        for watch, mask, _ in inotify.events():
            if mask & OVERFLOW:
                # Events were lost: any of them may have been written.
                written |= dict.fromkeys(self._watches)
            elif mask & MODIFY and watch in self._containers:
                written[self._containers[watch]] = None
        for container_id in written:
            self._on_write(container_id)
