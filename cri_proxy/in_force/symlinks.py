"""Follow symbolic links to the directories to watch, and read a ConfigMap volume without mixing two generations."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import takewhile
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
        for directory, name in steps(target.absolute()):
            found.setdefault(directory, set()).add(name)
    return found


def lookups_beneath(*places: tuple[Path, Iterable[str]]) -> Lookups:
    """Return the directories on the paths to these ones, and for the names in each of them those beneath it.

    No link is followed out of a directory, as ``foreign_files.beneath`` does not read what it leads to. Blocks.
    """
    found = directories_to_watch(directory for directory, _ in places)
    for directory, names in places:
        real = Path(os.path.realpath(directory))
        for name in names if is_directory(real) else ():
            for inside, step in _steps_beneath(real, name):
                found.setdefault(inside, set()).add(step)
    return {directory: frozenset(names) for directory, names in found.items()}


def _steps_beneath(directory: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Yield the steps to this name up to the first one outside the directory, where nothing is looked up."""
    return takewhile(lambda step: step[0].is_relative_to(directory), steps(Path(name), directory))


def steps(path: Path, here: Path = Path("/")) -> Iterator[tuple[Path, str]]:
    """Yield (physical directory, name) of every name that is looked up, links followed; path_resolution(7).

    ``here`` is where a relative path begins. Ends at the first missing name, so the directory in which it would appear
    comes last.
    """
    ahead, links = _parts_ahead(path), 0
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
        ahead.extend(_parts_ahead(target))
        here = Path("/") if target.is_absolute() else here


def _parts_ahead(path: Path) -> list[str]:
    """Return the names on this path, the first one last."""
    return list(reversed(path.parts[1:] if path.is_absolute() else path.parts))


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
