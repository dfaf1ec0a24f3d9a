"""Tell which mount a path lies on, from the list of mounts alone: no path is touched, so nothing can hang.

Source: proc_pid_mountinfo(5). The list is in the order in which mounts were made: of two on one directory the later one
is seen.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

_MOUNTS: Final = Path("/proc/self/mountinfo")
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")  # space, tab, newline and backslash


@dataclass(frozen=True, slots=True)
class Mount:
    """A mount: the number of its file system (``major:minor``), and that one's type.

    ``root`` is what of the file system is mounted, at ``directory``.
    """

    number: str
    kind: str
    root: str = "/"
    directory: str = "/"

    @property
    def is_remote(self) -> bool:
        """Whether another program answers for its files: the file system has no block device, and is not in memory."""
        return self.number.startswith("0:") and self.kind not in _LOCAL


# File systems of the kernel's own without a block device, and those on several block devices.
_LOCAL: Final = frozenset({"bcachefs", "btrfs", "devtmpfs", "overlay", "ramfs", "rootfs", "sysfs", "tmpfs", "zfs"})


@dataclass(frozen=True, slots=True)
class Mounts:
    """The mounts of this process, by directory."""

    by_directory: Mapping[str, Mount]

    @classmethod
    def read(cls, path: Path = _MOUNTS) -> Self:
        """Read the list. Raises OSError."""
        return cls.parse(path.read_bytes().splitlines())

    @classmethod
    def parse(cls, lines: Iterable[bytes]) -> Self:
        r"""Parse the lines of the list; one that is not understood is left out.

        >>> Mounts.parse([b"36 35 0:52 / /mnt/a\\040b rw - nfs4 host:/ rw"]).of("/mnt/a b/c")
        Mount(number='0:52', kind='nfs4', root='/', directory='/mnt/a b')
        """
        found = {}
        for line in lines:
            words = line.split(b" ")
            # Any number of optional fields stands before the "-" (proc_pid_mountinfo(5)).
            if b"-" in words[6:-1]:
                root, directory = (
                    os.fsdecode(_ESCAPED.sub(lambda match: bytes([int(match[1], 8)]), word)) for word in words[3:5]
                )
                number, kind = (word.decode("ascii", "replace") for word in (words[2], words[words.index(b"-", 6) + 1]))
                found[directory] = Mount(number, kind, root, directory)
        return cls(found)

    def of(self, path: str) -> Mount | None:
        """Return the mount of the nearest directory on the path, as it is spelt: links are not followed."""
        directory = os.path.normpath(path)
        while directory not in self.by_directory:
            if directory in ("", "/", "//"):
                return None
            directory = os.path.dirname(directory)  # noqa: PTH120 - pathlib has no text for what may hold a NUL
        return self.by_directory[directory]


def subjects_of(root: Path, paths: Iterable[str]) -> tuple[str, ...]:
    """Return for each path what hangs if it hangs: its file system where that is remote, else the path itself.

    The paths are below ``root``.

    Mounts of one NFS export at several directories are one file system (``struct super_block`` of the kernel), and hang
    together. Raises OSError.
    """
    mounts = Mounts.read()
    found = []
    for path in paths:
        mount = mounts.of(f"{root}/{path}")
        found.append(f"{mount.kind} {mount.number}" if mount is not None and mount.is_remote else path)
    return tuple(found)
