"""A captured machine straight from its archive: only what discovery reads is kept, in memory, and nothing unpacked."""

import bz2
import errno
import gzip
import lzma
import os
import posixpath
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sysfs.archives.extent import is_read
from sysfs.archives.tar import Kind, Member, TarError, members
from sysfs.errors import MachineSourceError
from sysfs.reader import MAX_FILE_BYTES

MAX_KEPT_BYTES = 1 << 27
MAX_LINKS = 8
UNREADABLE = "capture-errors.txt"  # beside sys/: lines "ERRNO-NAME PATH" of files that exist but gave an error

_OPENERS: Mapping[str, Callable[[Path], bz2.BZ2File | gzip.GzipFile | lzma.LZMAFile]] = {
    ".tar.xz": lzma.LZMAFile,
    ".tar.gz": gzip.GzipFile,
    ".tgz": gzip.GzipFile,
    ".tar.bz2": bz2.BZ2File,
}
_NAMED = re.compile(r"(.+?(?:\.tar\.xz|\.tar\.gz|\.tgz|\.tar\.bz2))(?::(.*))?")
_ROOTED = re.compile(r"((?:.*?/)??)((?:sys|proc)/.+|capture-errors\.txt)")


class MemoryTree:
    """A tree held in memory; see ``sysfs.reader.Tree``. Links are followed by their text."""

    def __init__(self, files: Mapping[str, bytes], links: Mapping[str, str], directories: Iterable[str] = ()) -> None:
        """Paths are relative to the root. The file UNREADABLE names files that give an error when read."""
        self._files = files
        self._links = links
        self._errors = dict(_unreadable(files.get(UNREADABLE, b"")))
        self._children: dict[str, set[str]] = {}
        for path in (*files, *links, *directories, *self._errors):
            self._add(path)

    def _add(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        while name not in self._children.setdefault(parent, set()):
            self._children[parent].add(name)
            parent, _, name = parent.rpartition("/")

    def read(self, path: str) -> bytes:
        """See Tree."""
        found = self._files.get(path)
        if found is not None:
            return found
        real = self._resolve(path)
        if real in self._errors:
            raise OSError(self._errors[real], os.strerror(self._errors[real]), path)
        if real in self._files:
            return self._files[real]
        code = errno.EISDIR if real in self._children else errno.ENOENT
        raise OSError(code, os.strerror(code), path)

    def names(self, path: str) -> list[str]:
        """See Tree."""
        real = self._resolve(path)
        if real not in self._children:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        return list(self._children[real])

    def link(self, path: str) -> str:
        """See Tree."""
        parent, _, name = path.rpartition("/")
        real = posixpath.join(self._resolve(parent), name)
        if real not in self._links:
            code = errno.EINVAL if real in self._files or real in self._children else errno.ENOENT
            raise OSError(code, os.strerror(code), path)
        return self._links[real]

    def _resolve(self, path: str) -> str:
        """The path with every link in it replaced by what it points to; at most MAX_LINKS are followed."""
        for _ in range(MAX_LINKS):
            parts = path.split("/")
            for i in range(1, len(parts) + 1):
                head = "/".join(parts[:i])
                if head in self._links:
                    target = posixpath.join(posixpath.dirname(head), self._links[head])
                    path = posixpath.normpath(posixpath.join(target, *parts[i:]))
                    break
            else:
                return path
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _unreadable(content: bytes) -> Iterable[tuple[str, int]]:
    for line in content.decode("ascii", "replace").splitlines():
        name, _, path = line.partition(" ")
        yield path, getattr(errno, name, errno.EIO)


def split_archive(spec: str) -> tuple[Path, str] | None:
    """``FILE.tar.xz:ROOT`` as file and root (None when there is no archive's suffix in it).

    >>> split_archive("bug/4711.tar.xz:server")
    (PosixPath('bug/4711.tar.xz'), 'server')
    """
    match = _NAMED.fullmatch(spec)
    return (Path(match[1]), match[2] or "") if match else None


def read_archive(path: Path) -> dict[str, MemoryTree]:
    """The trees of an archive by the directory that holds their ``sys`` ('' for the top). Raises MachineSourceError."""
    files: dict[str, dict[str, bytes]] = {}
    links: dict[str, dict[str, str]] = {}
    directories: dict[str, list[str]] = {}
    kept_bytes = 0
    for member in _members(path):
        root, inner = _split_root(member.name)
        match member.kind:
            case Kind.FILE:
                kept_bytes += len(member.content) + len(inner)
                files.setdefault(root, {})[inner] = member.content
            case Kind.LINK:
                links.setdefault(root, {})[inner] = member.target
            case Kind.DIRECTORY:
                directories.setdefault(root, []).append(inner)
            case Kind.OTHER:
                continue
        if kept_bytes > MAX_KEPT_BYTES:
            raise MachineSourceError(str(path), f"it holds more than {MAX_KEPT_BYTES} bytes of sysfs; is it a capture?")
    roots = files.keys() | links.keys()
    return {r: MemoryTree(files.get(r, {}), links.get(r, {}), directories.get(r, ())) for r in sorted(roots)}


def _split_root(name: str) -> tuple[str, str]:
    """Where the tree stands in the archive, and the path in it; two empty texts outside any tree."""
    match = _ROOTED.fullmatch(name)
    return (match[1].removesuffix("/"), match[2]) if match else ("", "")


def _is_wanted(name: str) -> bool:
    inner = _split_root(name)[1]
    return inner == UNREADABLE or is_read(inner)


def _members(path: Path) -> list[Member]:
    """What discovery may need of an archive. Raises MachineSourceError."""
    opener = next(opener for suffix, opener in _OPENERS.items() if path.name.endswith(suffix))
    try:
        with opener(path) as stream:
            return list(members(stream, _is_wanted, MAX_FILE_BYTES + 1))
    except FileNotFoundError:
        raise MachineSourceError(str(path), "there is no such file") from None
    except (OSError, EOFError, TarError, lzma.LZMAError, zlib.error) as error:
        raise MachineSourceError(str(path), f"not an archive that can be read: {error}") from None
