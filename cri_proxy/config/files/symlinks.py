"""Follow symbolic links to the directories to watch, and read a ConfigMap volume without mixing two generations."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TypeVar

# The link that the kubelet renames over the old one when it has written a ConfigMap's new directory.
DATA_LINK = "..data"
# Attempts to read a volume that is swapped during the read: where swaps come fast, several in a row may meet one.
_ATTEMPTS = 20
# As the kernel's own limit, path_resolution(7).
_LINKS = 40

T = TypeVar("T")

Lookups = Mapping[Path, frozenset[str]]
"""Directories, each with the names in it that matter."""

ANY = "*"
"""Stands for every name in a directory."""


def of_one_generation(directory: Path, read: Callable[[], T]) -> T:
    """Return what ``read`` returns while ``..data`` of the directory stays the same, so that generations are not mixed.

    If every attempt saw a swap, the last result is returned. Blocks as ``read`` does.
    """
    for _ in range(_ATTEMPTS - 1):
        before = link_target(directory / DATA_LINK)
        found = read()
        if link_target(directory / DATA_LINK) == before:
            return found
    return read()


def directories_to_watch(targets: Iterable[Path]) -> dict[Path, set[str]]:
    """Return the physical directories on the paths to these targets, each with the names looked up there."""
    found: dict[Path, set[str]] = {}
    for target in targets:
        for directory, name in steps(target):
            found.setdefault(directory, set()).add(name)
    return found


def steps(path: Path) -> Iterator[tuple[Path, str]]:
    """Yield (physical directory, name) of every name that is looked up, links followed; path_resolution(7).

    Ends at the first missing name, so the directory in which it would appear comes last.
    """
    ahead = list(reversed(path.absolute().parts[1:]))
    here, links = Path("/"), 0
    while ahead and links <= _LINKS:
        name = ahead.pop()
        if name == "..":
            here = here.parent
            continue
        yield here, name
        target = link_target(here / name)
        if target is None:
            here = here / name
            if ahead and not is_directory(here):
                return
            continue
        links += 1
        ahead.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        here = Path("/") if target.is_absolute() else here


def link_target(link: Path) -> Path | None:
    """Return the target of a link; None if it is not a link, or is gone."""
    try:
        return link.readlink()
    except OSError:
        return None


def is_directory(path: Path) -> bool:
    """Return whether this is a directory; False if it cannot be examined: opening it reports why."""
    try:
        return path.is_dir()
    except OSError:
        return False
