"""The kernel's word that something changed in a few directories, by inotify(7) through the watchdog library.

A notice says no more than "look": what has changed, and whether, is found by reading. The library costs 2.4 MB and
30 ms, so it is loaded by whoever watches, after the daemon serves.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from watchdog.events import FileSystemEvent
    from watchdog.observers.inotify import InotifyObserver

Lookups = Mapping[Path, frozenset[str]]
"""Directories, each with the names in it that matter."""

_SUBSCRIBED = 5
"""Directories that come and go meanwhile are subscribed to anew so often at a time."""

ANY = "*"
"""Stands for every name in a directory."""


class ChangeNotifier(Protocol):
    """Calls somebody, from any thread, when one of these names may have changed in its directory."""

    def follow(self, lookups: Lookups) -> str:
        """Look at these from now on, and at no others; '' or why it cannot. May block."""

    def close(self) -> None:
        """Look at nothing any more. May block."""


class Inotify:
    """Implements ``ChangeNotifier``."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """Nothing is opened yet; ``on_change`` is called on a thread of the library."""
        self._on_change = on_change
        self._observer: InotifyObserver | None = None
        self._followed: frozenset[tuple[Path, int, int]] = frozenset()
        self._names: Lookups = {}

    def follow(self, lookups: Lookups) -> str:
        """As ``ChangeNotifier``. A directory that was replaced by another of its name is another one."""
        self._names = lookups
        if not lookups:
            return ""
        try:
            for _ in range(_SUBSCRIBED):
                # One that was made anew often has the old one's inode, and its watch has ended: see ``_notice``.
                present = _present(lookups)
                if present == self._followed and self._observer is not None:
                    return ""
                self._subscribe(present)  # and look again: one that comes meanwhile is told of by nobody
        except OSError as error:
            # ENOSPC and EMFILE are the limits in /proc/sys/fs/inotify: other programs may have used them up.
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
        """Everything anew: what changes the directories is rare, and whoever follows reads afterwards anyway."""
        from watchdog import events
        from watchdog.observers.inotify import InotifyObserver

        # Its own words do not belong between the log's lines; what it misses the slow look finds.
        logging.getLogger("watchdog").setLevel(logging.CRITICAL)

        class Handler(events.FileSystemEventHandler):
            def dispatch(self, event: events.FileSystemEvent) -> None:
                notice(event)

        notice = self._notice
        # Neither opening nor reading counts: our own look would call for the next.
        wanted: list[type[FileSystemEvent]] = [
            *(events.FileCreatedEvent, events.FileModifiedEvent, events.FileDeletedEvent, events.FileMovedEvent),
            *(events.FileClosedEvent, events.DirCreatedEvent, events.DirDeletedEvent, events.DirMovedEvent),
            *(events.FileAttribEvent, events.DirAttribEvent),  # who may not read it now, or may again
        ]
        if self._observer is None:
            self._observer = InotifyObserver()
            self._observer.start()
        with suppress(OSError):  # the kernel has dropped the watch of a directory that is gone
            self._observer.unschedule_all()
        self._followed = present  # before the first watch is made: what it tells may be that this is over
        handler, inodes = Handler(), set()
        for path, device, inode in sorted(present):
            if (device, inode) not in inodes:  # one directory by two names is one watch to the kernel
                inodes.add((device, inode))
                with suppress(FileNotFoundError, NotADirectoryError):  # gone meanwhile: its parent tells
                    self._observer.schedule(handler, str(path), event_filter=wanted)

    def _notice(self, event: "FileSystemEvent") -> None:
        """Called by the library's thread: tell of names that matter, and of a directory's own end or beginning."""
        paths = [Path(str(name)) for name in (event.src_path, event.dest_path) if name]
        if any(path in self._names for path in paths):
            self._followed = frozenset()
        if any(map(self._matters, paths)):
            self._on_change()

    def _matters(self, path: Path) -> bool:
        names = self._names.get(path.parent, frozenset())
        return path in self._names or path.name in names or ANY in names


def _present(lookups: Lookups) -> frozenset[tuple[Path, int, int]]:
    """The directories that are there, by path, device and inode."""
    found = set()
    for path in lookups:
        with suppress(OSError):
            status = path.stat()
            found.add((path, status.st_dev, status.st_ino))
    return frozenset(found)
