"""Capture a machine: write the files that discovery reads to a small tar file, for bug reports and simulation.

The files are listed by ``archives.extent``, not by what a discovery happened to read, so a capture is complete also
where discovery fails. Loading it makes the same machine: links stay links, and files that give an error when read
are listed so that they give it again. Times and owners are not kept.
"""

import errno
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from io import BytesIO
from pathlib import Path
from types import MappingProxyType

from sysfs.archives.extent import PATTERNS, PCI_FILES
from sysfs.archives.tar import UNREADABLE
from sysfs.pci import device_paths
from sysfs.reader import MAX_FILE_BYTES, DirectoryTree, Tree, TreeReader

NOTHING_MORE: Mapping[str, bytes] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Captured:
    """The result of a capture: the number of files and links, and the files that could not be read."""

    files: int
    links: int
    unreadable: tuple[str, ...]


def capture(file: Path, root: Path = Path("/"), more: Mapping[str, bytes] = NOTHING_MORE) -> Captured:
    """Write the machine below ``root`` to ``file``, with ``more`` files. Raises OSError when it cannot be written."""
    return capture_tree(DirectoryTree(root), file, more)


def capture_tree(tree: Tree, file: Path, more: Mapping[str, bytes] = NOTHING_MORE) -> Captured:
    """Write the machine of any tree to ``file``, whole or not at all. Raises OSError."""
    files = links = 0
    unreadable: list[str] = []
    # Half an archive under the file's own name would pass for a whole one.
    part = file.with_name(f".{file.name}.part")
    try:
        with tarfile.open(part, "w:xz", format=tarfile.GNU_FORMAT) as archive:
            for path in _paths(tree):
                try:
                    links += _add(archive, tree, path)
                except OSError as error:
                    unreadable.append(f"{errno.errorcode.get(error.errno or 0, 'EIO')} {path}")
                    continue
                files += 1
            for name, content in more.items():
                _add_file(archive, name, content)
            if unreadable:
                _add_file(archive, UNREADABLE, "".join(f"{line}\n" for line in unreadable).encode())
        part.replace(file)
    finally:
        part.unlink(missing_ok=True)
    return Captured(files - links, links, tuple(unreadable))


def _paths(tree: Tree) -> Iterator[str]:
    """Yield every path of this tree that discovery may read, each once."""
    seen: dict[str, None] = {}
    for pattern in PATTERNS:
        seen.update(dict.fromkeys(_expanded(tree, "", pattern.split("/"))))
    for device in device_paths(TreeReader(tree)):
        seen.update(dict.fromkeys(f"{device}/{name}" for name in PCI_FILES if name in _names(tree, device)))
    yield from seen


def _names(tree: Tree, path: str) -> list[str]:
    try:
        return sorted(tree.names(path))
    except OSError:
        return []


def _expanded(tree: Tree, base: str, parts: list[str]) -> Iterator[str]:
    """Yield the existing paths of a pattern, none below a link."""
    first, rest = parts[0], parts[1:]
    for name in _names(tree, base):
        if fnmatchcase(name, first):
            path = f"{base}/{name}" if base else name
            if not rest:
                yield path
            elif not _is_link(tree, path):  # a link's target has a pattern of its own
                yield from _expanded(tree, path, rest)


def _is_link(tree: Tree, path: str) -> bool:
    try:
        tree.link(path)
    except OSError:
        return False
    return True


def _add(archive: tarfile.TarFile, tree: Tree, path: str) -> bool:
    """Write one file, link or directory; return True for a link. Raises OSError when it cannot be read."""
    info = tarfile.TarInfo(path)
    if _is_link(tree, path):
        info.type, info.linkname = tarfile.SYMTYPE, tree.link(path)
        archive.addfile(info)
        return True
    try:
        content = tree.read(path)
    except IsADirectoryError:
        info.type = tarfile.DIRTYPE
        archive.addfile(info)
        return False
    # One byte beyond the bound, so that reading the capture refuses the file as the host does.
    _add_file(archive, path, content[: MAX_FILE_BYTES + 1])
    return False


def _add_file(archive: tarfile.TarFile, path: str, content: bytes) -> None:
    info = tarfile.TarInfo(path)
    info.size = len(content)
    archive.addfile(info, BytesIO(content))
