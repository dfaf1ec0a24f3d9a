"""Read captured machines' sysfs trees from an untrusted tar into ``MemoryTree``, bounded; nothing goes to disk."""

import errno
import lzma
import os
import posixpath
import re
import tarfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self

from sysfs.archives.extent import is_read
from sysfs.errors import MachineSourceError
from sysfs.reader import MAX_FILE_BYTES

MAX_STREAM_BYTES = 1 << 30  # unpacked
MAX_KEPT_BYTES = 1 << 27
MAX_HEADER_BYTES = 1 << 16  # of an extended header
MAX_NAME_CHARACTERS = 4096
MAX_LINKS = 8
UNREADABLE = "capture-errors.txt"  # beside sys/: lines "ERRNO-NAME PATH" of files that could not be read

# The modes of tarfile.open, by the archive's suffix.
_MODES: Mapping[str, Literal["r:xz", "r:gz", "r:bz2"]] = {
    ".tar.xz": "r:xz",
    ".tar.gz": "r:gz",
    ".tgz": "r:gz",
    ".tar.bz2": "r:bz2",
}
# Headers whose content tarfile reads at once: long names and pax records.
_PAX = (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.SOLARIS_XHDTYPE)
_EXTENDED = (*_PAX, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK)
# tarfile raises the last three for malformed pax records, truncated sparse maps and endless extended headers.
_DAMAGE = (OSError, EOFError, tarfile.TarError, lzma.LZMAError, zlib.error, ValueError, IndexError, RecursionError)
_NAMED = re.compile(r"(.+?(?:\.tar\.xz|\.tar\.gz|\.tgz|\.tar\.bz2))(?::(.*))?")
_ROOTED = re.compile(r"((?:.*?/)??)((?:sys|proc)/.+|capture-errors\.txt)")


_Members = tuple[dict[str, bytes], dict[str, str], list[str]]  # the arguments of MemoryTree


class MemoryTree:
    """A tree in memory; see ``sysfs.reader.Tree``. Links are followed by their text."""

    def __init__(self, files: Mapping[str, bytes], links: Mapping[str, str], directories: Iterable[str] = ()) -> None:
        """Paths are relative to the root. The file UNREADABLE lists files that raise an error when read."""
        self._files = files
        self._links = links
        lines = (line.partition(" ") for line in files.get(UNREADABLE, b"").decode("ascii", "replace").splitlines())
        self._errors = {path: getattr(errno, name, errno.EIO) for name, _, path in lines}
        self._children: dict[str, set[str]] = {}
        for path in (*files, *links, *directories, *self._errors):
            parent, _, name = path.rpartition("/")
            # Up to the first directory that is known: those above it are then known too.
            while name not in self._children.setdefault(parent, set()):
                self._children[parent].add(name)
                parent, _, name = parent.rpartition("/")

    def read(self, path: str) -> bytes:
        """See Tree."""
        # Most paths have no link in them: these need no walk.
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
        """Return the path with links resolved, at most MAX_LINKS of them. Raises OSError (ELOOP) for more."""
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


def split_archive(spec: str) -> tuple[Path, str] | None:
    """Split ``FILE.tar.xz:ROOT`` into file and root; None when no part ends in an archive's suffix.

    >>> split_archive("bug/4711.tar.xz:server")
    (PosixPath('bug/4711.tar.xz'), 'server')
    """
    match = _NAMED.fullmatch(spec)
    return (Path(match[1]), match[2] or "") if match else None


class _Header(tarfile.TarInfo):
    """A tar header that bounds the size of extended headers before tarfile reads them."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """See TarInfo. Raises ReadError for an extended header of negative or excessive size."""
        header = super().frombuf(buf, encoding, errors)
        if header.type in _EXTENDED and not 0 <= header.size <= MAX_HEADER_BYTES:
            raise tarfile.ReadError(f"an extended header of {header.size} bytes")
        return header


def read_archive(path: Path) -> dict[str, MemoryTree]:
    """Return the trees of an archive by the directory that holds their ``sys`` ('' for the top).

    Of each file at most MAX_FILE_BYTES + 1 bytes are kept. Names that are absolute or escape the root with ``..`` are
    left out. Raises MachineSourceError.
    """
    found: dict[str, _Members] = {}
    with _opened(path) as archive:
        _read_members(archive, found)
    # Empty directories alone are no tree.
    return {root: MemoryTree(*members) for root, members in sorted(found.items()) if members[0] or members[1]}


def read_member(path: Path, name: str, most_bytes: int) -> bytes | None:
    """Return the content of one file of an archive, None where it has none. Raises MachineSourceError."""
    with _opened(path) as archive:
        for member in _headers(archive):
            if _clean(member.name) == name and member.isreg() and (file := archive.extractfile(member)):
                if member.size > most_bytes:
                    raise MachineSourceError(str(path), f"{name} has more than {most_bytes} bytes")
                return file.read(most_bytes)
    return None


@contextmanager
def _opened(path: Path) -> Iterator[tarfile.TarFile]:
    """Open an archive; what is wrong with it becomes a MachineSourceError."""
    mode = next(mode for suffix, mode in _MODES.items() if path.name.endswith(suffix))
    try:
        with tarfile.open(path, mode, tarinfo=_Header, encoding="utf-8", errors="replace") as archive:
            yield archive
    except FileNotFoundError:
        raise MachineSourceError(str(path), "no such file") from None
    except _DAMAGE as error:
        raise MachineSourceError(str(path), f"cannot be read as an archive: {error}") from None


def _read_members(archive: tarfile.TarFile, found: dict[str, _Members]) -> None:
    """Add the members that discovery reads to ``found``, by root. Raises ReadError beyond MAX_KEPT_BYTES."""
    kept_bytes = 0
    for member in _headers(archive):
        root, inner = _split_root(_clean(member.name))
        if inner != UNREADABLE and not is_read(inner):
            continue
        files, links, directories = found.setdefault(root, ({}, {}, []))
        # Names count too: a million empty files would fill the memory as well.
        kept_bytes += len(inner)
        if member.issym():
            links[inner] = member.linkname
        elif member.isdir():
            directories.append(inner)
        elif member.isreg() and (file := archive.extractfile(member)):
            files[inner] = file.read(MAX_FILE_BYTES + 1)
            kept_bytes += len(files[inner])
        if kept_bytes > MAX_KEPT_BYTES:
            raise tarfile.ReadError(f"it holds more than {MAX_KEPT_BYTES} bytes of sysfs; is it a capture?")


def _headers(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Yield the members in order. Raises ReadError for damage and sizes that tarfile accepts."""
    end = 0
    while (header := archive.next()) is not None:
        archive.members.clear()  # type: ignore[attr-defined]  # tarfile keeps every header it has read
        # Pythons without the fix of CVE-2025-8194 follow a negative size backwards, in an endless loop.
        if header.size < 0 or archive.offset <= end:
            raise tarfile.ReadError("a member of negative size")
        end = archive.offset
        if end > MAX_STREAM_BYTES:
            raise tarfile.ReadError(f"it unpacks to more than {MAX_STREAM_BYTES} bytes")
        yield header
    # tarfile treats a damaged header as the end of the archive.
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE).strip(tarfile.NUL):
        raise tarfile.ReadError("a damaged header")


def _clean(name: str) -> str:
    """Return the name as a clean relative path; '' for one that is absolute, escapes the root or is too long."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    return "" if name.startswith("/") or ".." in parts or len(name) > MAX_NAME_CHARACTERS else "/".join(parts)


def _split_root(name: str) -> tuple[str, str]:
    """Split a member's name into the root of its tree and the path below it; both are '' outside any tree."""
    match = _ROOTED.fullmatch(name)
    return (match[1].removesuffix("/"), match[2]) if match else ("", "")
