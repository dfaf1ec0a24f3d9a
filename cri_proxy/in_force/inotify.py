"""Watch directories by inotify(7); call back on a thread when a watched name may have changed."""

import os
import select
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from cri_proxy.in_force import inotify_events as inotify
from cri_proxy.in_force.symlinks import ANY, Lookups

# Neither opening nor reading counts: reading the files would cause the next notice. An attribute is the permission to
# read them.
_EVENTS: Final = (
    inotify.MODIFY | inotify.ATTRIB | inotify.CLOSE_WRITE | inotify.MOVED | inotify.CREATE | inotify.DELETE
) | (inotify.DELETE_SELF | inotify.MOVE_SELF)

_SUBSCRIBED = 5
"""Attempts to subscribe while directories appear or disappear."""


class ChangeNotifier(Protocol):
    """Calls back, from any thread, when one of the watched names may have changed in its directory."""

    def follow(self, lookups: Lookups) -> str:
        """Watch these from now on, and no others; return '' or why that fails. May block."""

    def close(self) -> None:
        """Stop watching. May block."""


class InotifyThread(threading.Thread):
    """Waits for events and passes them on, until it is stopped."""

    def __init__(self, on_event: Callable[[inotify.InotifyEvent], None]) -> None:
        """Open the descriptor. Raises OSError."""
        super().__init__(name="inotify", daemon=True)
        self.descriptor = inotify.InotifyDescriptor()
        try:
            self._end, self._ask_to_end = os.pipe2(os.O_CLOEXEC)
        except OSError:  # no descriptor is left for the pipe
            self.descriptor.close()
            raise
        self._on_event = on_event

    def run(self) -> None:
        """Pass on events."""
        ready = select.poll()
        for number in (self.descriptor.number, self._end):
            ready.register(number, select.POLLIN)
        while self._end not in dict(ready.poll()):
            for event in self.descriptor.events():
                self._on_event(event)

    def stop(self) -> None:
        """Wait for the end of the thread, and close the descriptor."""
        os.close(self._ask_to_end)
        self.join()
        os.close(self._end)
        self.descriptor.close()


class Inotify:
    """Implements ``ChangeNotifier``."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Open nothing yet; ``on_change`` is called on a thread."""
        self._on_change = on_change
        self._thread: InotifyThread | None = None
        self._followed: frozenset[tuple[Path, int, int]] = frozenset()
        self._names: Lookups = {}
        self._directories: dict[int, list[Path]] = {}
        self._lock = threading.Lock()

    def follow(self, lookups: Lookups) -> str:
        """As ``ChangeNotifier``. A directory that was replaced by another of the same name is watched too."""
        self._names = lookups
        if not lookups:
            return ""
        try:
            for _ in range(_SUBSCRIBED):
                # A directory that was removed and created often has its old inode, but no watch: see ``_notice``.
                present = _present(lookups)
                if present == self._followed and self._thread is not None:
                    return ""
                self._subscribe(present)  # then check again: a directory may have appeared before the watch
        except OSError as error:
            self.close()
            return f"inotify: {error.strerror or error}"
        return ""

    def close(self) -> None:
        """End the thread."""
        thread, self._thread, self._followed = self._thread, None, frozenset()
        if thread is not None:
            thread.stop()

    def _subscribe(self, present: frozenset[tuple[Path, int, int]]) -> None:
        """Replace all watches. Directories change rarely, and the caller reads the files afterwards anyway."""
        if self._thread is None:
            thread = InotifyThread(self._notice)
            thread.start()  # first: the end of the process may close the watch at any moment, and join it
            self._thread, self._directories = thread, {}
        descriptor = self._thread.descriptor
        with self._lock:
            for watch in self._directories:
                descriptor.unwatch(watch)
            self._directories = {}
            self._followed = present  # before the first event, which may reset this
            for path, _, _ in sorted(present):
                with suppress(FileNotFoundError, NotADirectoryError):  # removed since: its parent reports that
                    # The kernel has one watch for a directory with two names.
                    self._directories.setdefault(descriptor.watch(path, _EVENTS), []).append(path)

    def _notice(self, event: inotify.InotifyEvent) -> None:
        """Report names that matter, and the end or beginning of a watched directory. On the thread."""
        with self._lock:
            paths = [path / event.name for path in self._directories.get(event.watch, ())]
            # A directory on the way may be another one now, or events are lost: the next ``follow`` subscribes again.
            if event.mask & inotify.OVERFLOW or any(path in self._names for path in paths):
                self._followed = frozenset()
        if event.mask & inotify.OVERFLOW or (event.mask & _EVENTS and any(map(self._matters, paths))):
            self._on_change()

    def _matters(self, path: Path) -> bool:
        names = self._names.get(path.parent, frozenset())
        return path in self._names or path.name in names or ANY in names


def _present(lookups: Lookups) -> frozenset[tuple[Path, int, int]]:
    """Return the directories that exist, as path, device and inode."""
    found = set()
    for path in lookups:
        with suppress(OSError):
            status = path.stat()
            found.add((path, status.st_dev, status.st_ino))
    return frozenset(found)
