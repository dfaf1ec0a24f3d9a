"""Watch directories by inotify(7), through watchdog; call back on its thread when a watched name may have changed."""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from cri_proxy.in_force.symlinks import ANY, Lookups

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.inotify import InotifyObserver

_SUBSCRIBED = 5
"""Attempts to subscribe while directories appear or disappear."""


class ChangeNotifier(Protocol):
    """Calls back, from any thread, when one of the watched names may have changed in its directory."""

    def follow(self, lookups: Lookups) -> str:
        """Watch these from now on, and no others; return '' or why that fails. May block."""

    def close(self) -> None:
        """Stop watching. May block."""


class Inotify:
    """Implements ``ChangeNotifier``."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Open nothing yet; ``on_change`` is called on a thread of the library."""
        self._on_change = on_change
        self._observer: InotifyObserver | None = None
        self._followed: frozenset[tuple[Path, int, int]] = frozenset()
        self._names: Lookups = {}

    def follow(self, lookups: Lookups) -> str:
        """As ``ChangeNotifier``. A directory that was replaced by another of the same name is watched too."""
        self._names = lookups
        if not lookups:
            return ""
        try:
            for _ in range(_SUBSCRIBED):
                # A directory that was removed and created often has its old inode, but no watch: see ``_notice``.
                present = _present(lookups)
                if present == self._followed and self._observer is not None:
                    return ""
                self._subscribe(present)  # then check again: a directory may have appeared before the watch
        except OSError as error:
            # ENOSPC and EMFILE: other programs may have used up the limits in /proc/sys/fs/inotify.
            self.close()
            return f"inotify: {error.strerror or error}"
        return ""

    def close(self) -> None:
        """End the library's threads."""
        observer, self._observer, self._followed = self._observer, None, frozenset()
        if observer is not None and observer.is_alive():
            observer.stop()
            observer.join()

    def _subscribe(self, present: frozenset[tuple[Path, int, int]]) -> None:
        """Replace all watches. Directories change rarely, and the caller reads the files afterwards anyway."""
        # 2.4 MB and 30 ms: loaded by the first watch, when the daemon serves already.
        from watchdog import events
        from watchdog.observers.inotify import InotifyObserver

        # Keep its messages out of the log; polling finds what it misses.
        logging.getLogger("watchdog").setLevel(logging.CRITICAL)

        class Handler(events.FileSystemEventHandler):
            def dispatch(self, event: events.FileSystemEvent) -> None:
                notice(event)

        notice = self._notice
        # Neither opening nor reading counts: reading the files would cause the next notice.
        wanted: list[type[FileSystemEvent]] = [
            *(events.FileCreatedEvent, events.FileModifiedEvent, events.FileDeletedEvent, events.FileMovedEvent),
            *(events.FileClosedEvent, events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent),
            *(events.FileAttribEvent, events.DirAttribEvent),  # the permission to read it may have changed
        ]
        if self._observer is None:
            self._observer = InotifyObserver()
            self._observer.start()
        with suppress(OSError):  # the kernel has dropped the watch of a removed directory
            self._observer.unschedule_all()
        self._followed = present  # before the first watch: its first event may reset this
        handler, inodes = Handler(), set()
        for path, device, inode in sorted(present):
            if (device, inode) not in inodes:  # the kernel has one watch for a directory with two names
                inodes.add((device, inode))
                with suppress(FileNotFoundError, NotADirectoryError):  # removed since: its parent reports that
                    self._observer.schedule(handler, str(path), event_filter=wanted)

    def _notice(self, event: "FileSystemEvent") -> None:
        """Report names that matter, and the end or beginning of a watched directory. On the library's thread."""
        paths = [Path(str(name)) for name in (event.src_path, event.dest_path) if name]
        if any(path in self._names for path in paths):
            self._followed = frozenset()
        if any(map(self._matters, paths)):
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
