"""Links on the way to a file: where each step is decided, and ``..data``, which swaps a ConfigMap volume as a whole."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

# The link that the kubelet renames over the old one when it has written a ConfigMap's new directory.
DATA_LINK = "..data"
# A volume that is swapped under every look is looked at again this often.
_LOOKS = 5
# As the kernel's own limit, path_resolution(7).
_LINKS = 40

T = TypeVar("T")


def of_one_generation(directory: Path, look: Callable[[], T]) -> T:
    """What this finds while ``..data`` of the directory stays the same, so that nothing is mixed. Blocks as it does.

    After a few looks the last one counts.
    """
    for _ in range(_LOOKS - 1):
        before = leads_to(directory / DATA_LINK)
        found = look()
        if leads_to(directory / DATA_LINK) == before:
            return found
    return look()


def looked_up(targets: Iterable[Path]) -> dict[Path, set[str]]:
    """The physical directories in which the way to these is decided, each with the names that matter there."""
    found: dict[Path, set[str]] = {}
    for target in targets:
        for directory, name in steps(target):
            found.setdefault(directory, set()).add(name)
    return found


def steps(path: Path) -> Iterator[tuple[Path, str]]:
    """(physical directory, name) of every name that is looked up on the way, links followed; path_resolution(7).

    Ends at the first that is missing, so the directory in which it would appear comes last.
    """
    ahead = list(reversed(path.absolute().parts[1:]))
    here, links = Path("/"), 0
    while ahead and links <= _LINKS:
        name = ahead.pop()
        if name == "..":
            here = here.parent
            continue
        yield here, name
        target = leads_to(here / name)
        if target is None:
            here = here / name
            if ahead and not is_directory(here):
                return
            continue
        links += 1
        ahead.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        here = Path("/") if target.is_absolute() else here


def leads_to(link: Path) -> Path | None:
    """Where a link leads; None for what is none, or is gone meanwhile."""
    try:
        return link.readlink()
    except OSError:
        return None


def is_directory(path: Path) -> bool:
    """False as well for what cannot be looked at: opening it says why."""
    try:
        return path.is_dir()
    except OSError:
        return False
