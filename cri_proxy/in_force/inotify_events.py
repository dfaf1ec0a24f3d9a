"""A descriptor of inotify(7), which Python's standard library does not have."""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Final, NamedTuple

_HEADER: Final = Struct("iIII")  # struct inotify_event: watch, mask, cookie, length of the name that follows
_READ_BYTES: Final = 1 << 16
_LIMITS: Final = {
    errno.EMFILE: "too many open files, or fs.inotify.max_user_instances is used up",
    errno.ENOSPC: "fs.inotify.max_user_watches is used up",
}
"""Reasons that the kernel's words would not lead to: other programs may have used up what a user has."""

MODIFY: Final = 0x2
ATTRIB: Final = 0x4
CLOSE_WRITE: Final = 0x8
MOVED: Final = 0xC0
CREATE: Final = 0x100
DELETE: Final = 0x200
DELETE_SELF: Final = 0x400
MOVE_SELF: Final = 0x800
OVERFLOW: Final = 0x4000
"""Events were lost; the watch of this one is -1."""


class InotifyEvent(NamedTuple):
    """A struct inotify_event: something happened to what is watched, or in it to the file of this name."""

    watch: int
    mask: int
    name: str


class InotifyDescriptor:
    """An open descriptor. The calls of different threads do not disturb each other."""

    def __init__(self) -> None:
        """Open it. Raises OSError."""
        self._libc: Final = ctypes.CDLL(None, use_errno=True)
        self.number: Final = _checked(self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC))

    def watch(self, path: Path, mask: int) -> int:
        """Report these events from now on; return the number of the watch, one for a file. Raises OSError."""
        return _checked(self._libc.inotify_add_watch(self.number, os.fsencode(path), mask))

    def unwatch(self, watch: int) -> None:
        """Report no more; nothing where the watch went with its file."""
        self._libc.inotify_rm_watch(self.number, watch)

    def events(self) -> Iterator[InotifyEvent]:
        """Yield what has happened since the last call, as far as one read of it reaches. Does not wait."""
        data = b""
        with suppress(BlockingIOError, InterruptedError):
            data = os.read(self.number, _READ_BYTES)
        while data:
            watch, mask, _, length = _HEADER.unpack_from(data)
            end = _HEADER.size + length
            # The kernel pads the name with NULs, to align the next event (inotify(7)).
            yield InotifyEvent(watch, mask, os.fsdecode(data[_HEADER.size : end].rstrip(b"\0")))
            data = data[end:]

    def close(self) -> None:
        """Close the descriptor, and with it all watches."""
        os.close(self.number)


def _checked(result: int) -> int:
    """Return the result of a call of the C library. Raises OSError where it has failed."""
    if result >= 0:
        return result
    number = ctypes.get_errno()
    raise OSError(number, _LIMITS.get(number, os.strerror(number)))
