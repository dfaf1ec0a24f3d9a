"""Whether a file that is mounted alone can ever change: the mounts of this process, as mountinfo tells them.

Source: proc(5) on /proc/PID/mountinfo: fields 4 (root of the mount within its file system) and 5 (where it is mounted).
"""

import os
import re
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")
# What the kubelet names the directory that one generation of a volume is in (its atomic writer). A mount of the whole
# volume has no such part in its root; one with subPath has, as bind mounts show what they were made of.
_GENERATION = re.compile(r"/\.\.\d{4}(_\d\d){5}\.\d+(/|$)")
_SUB_PATHS = "/volume-subpaths/"


def mount_warning(path: Path, mountinfo: str) -> str:
    """Why this file or directory will not be seen to change, as a sentence; '' where it will.

    ``mountinfo`` is the text of the file of that name.
    """
    there = Path(os.path.realpath(path))  # Path.resolve() raises for a circle of links
    found = [(point, root) for root, point in _mounts(mountinfo) if there.is_relative_to(point)]
    if not found:
        return ""
    # A later mount of the same point lies above the earlier one.
    point, root = max(reversed(found), key=lambda mount: len(mount[0].parts))
    if _GENERATION.search(root) or _SUB_PATHS in root:
        return f"{path} is mounted with subPath, which Kubernetes never updates: mount the whole ConfigMap instead"
    if point == there and not there.is_dir():
        return (
            f"{path} is a bind mount of a single file: when an editor or a tool replaces the file, the old one stays "
            "here; mount its directory instead"
        )
    return ""


def own_mounts() -> str:
    """The mounts of this process; '' where they are not told."""
    try:
        return MOUNTINFO.read_text(errors="surrogateescape")
    except OSError:
        return ""


def _mounts(mountinfo: str) -> list[tuple[str, Path]]:
    """(root, mount point) of every line that has them."""
    fields = (line.split(" ", 5) for line in mountinfo.splitlines())
    return [(_plain(each[3]), Path(_plain(each[4]))) for each in fields if len(each) > 5]


def _plain(text: str) -> str:
    r"""The kernel writes space, tab, newline and backslash as octal numbers.

    >>> _plain(r"/a\040b")
    '/a b'
    """
    return re.sub(r"\\([0-7]{3})", lambda match: os.fsdecode(bytes([int(match[1], 8)])), text)
