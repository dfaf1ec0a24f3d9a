"""Remove pods' cgroups from every hierarchy (v1, v2, hybrid), as a kubelet does after pods end (cgroups(7))."""

import contextlib
import os
import time
from pathlib import Path

MOUNTS = Path("/proc/self/mounts")


def hierarchies(mounts: str | None = None) -> tuple[Path, ...]:
    """Return the mount points of the cgroup hierarchies, in order of mounting: one on v2, one per controller on v1."""
    lines = (MOUNTS.read_text() if mounts is None else mounts).splitlines()
    fields = (line.split() for line in lines)
    return tuple(Path(f[1]) for f in fields if len(f) > 2 and f[2] in ("cgroup", "cgroup2"))


def remove_tree(top: Path, *, seconds: float = 10.0) -> bool:
    """Remove a cgroup and those below it, deepest first; return True when nothing is left.

    Tries for ``seconds``: a cgroup stays busy for a moment after its last process has ended.
    """
    deadline = time.monotonic() + seconds
    while top.is_dir():
        for directory, _, _ in os.walk(top, topdown=False):  # others may remove some during the walk
            with contextlib.suppress(OSError):  # busy or gone: the next round decides
                Path(directory).rmdir()
        if time.monotonic() > deadline:
            return not top.is_dir()
        time.sleep(0.02)
    return True


def remove_everywhere(cgroup: str) -> tuple[Path, ...]:
    """Remove this cgroup (a path like '/a/b') from every hierarchy; return the directories that remain."""
    tops = (hierarchy / cgroup.strip("/") for hierarchy in hierarchies())
    return tuple(top for top in tops if not remove_tree(top))
