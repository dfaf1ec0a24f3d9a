"""Cgroup directories of a pod tree, on cgroup v1, v2 and the hybrid of both (cgroups(7)).

The kubelet makes and removes the cgroups of pods; who plays the kubelet has to remove them as well.
"""

import os
import time
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")


def hierarchies(mounts: str | None = None) -> tuple[Path, ...]:
    """Mount points of every cgroup hierarchy, in order of mounting: one on v2, one per controller on v1."""
    lines = (MOUNTS.read_text() if mounts is None else mounts).splitlines()
    fields = (line.split() for line in lines)
    return tuple(Path(f[1]) for f in fields if len(f) > 2 and f[2] in ("cgroup", "cgroup2"))


def remove_tree(top: Path, *, seconds: float = 10.0) -> bool:
    """Remove a cgroup and those below it, deepest first; True when nothing is left.

    A cgroup whose last process has just ended stays busy for a moment, so this tries until ``seconds`` have passed.
    """
    deadline = time.monotonic() + seconds
    while top.is_dir():
        for directory, _, _ in os.walk(top, topdown=False):  # others may remove some meanwhile
            _remove(Path(directory))
        if time.monotonic() > deadline:
            return not top.is_dir()
        time.sleep(0.02)
    return True


def remove_everywhere(cgroup: str) -> tuple[Path, ...]:
    """Remove this cgroup (a path like '/a/b') from every hierarchy; gives the directories that would not go."""
    tops = (hierarchy / cgroup.strip("/") for hierarchy in hierarchies())
    return tuple(top for top in tops if not remove_tree(top))


def _remove(directory: Path) -> None:
    try:
        directory.rmdir()
    except OSError:
        return  # busy or gone: the caller looks again
