"""Clean up after a private containerd: kill its shims and containers, find their sockets, unmount; probe overlayfs.

Other containerds are not touched: only shims whose ``-address`` is our socket, and mounts below our directory, are
removed.
"""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import psutil

from tests.testbed.errors import TryoutError

SHIM = "containerd-shim"
SHIM_SOCKETS = Path("/run/containerd/s")  # containerd has no option for it
MOUNTINFO = Path("/proc/self/mountinfo")
KILL_SECONDS = 30.0  # on a busy machine


def shims_of(socket: Path) -> list[psutil.Process]:
    """Return the shims that report to this containerd."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if command and Path(command[0]).name.startswith(SHIM) and str(socket) in command:
                found.append(process)
    return found


def end(socket: Path) -> int:
    """Kill the shims of this containerd and the containers below them; return how many processes ended.

    A shim is the parent of its containers (a child subreaper), so its descendants are exactly those.
    """
    processes: list[psutil.Process] = []
    for shim in shims_of(socket):
        with contextlib.suppress(psutil.Error):
            processes += [*shim.children(recursive=True), shim]
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _, alive = psutil.wait_procs(processes, timeout=KILL_SECONDS)
    if alive:
        raise TryoutError("containers", f"processes {[p.pid for p in alive]} do not end", "look at them with ps")
    return len(processes)


def sockets(state: Path) -> tuple[Path, ...]:
    """Return the sockets of shims outside our directory: each shim writes its address into its bundle."""
    found = []
    for note in state.glob("io.containerd.runtime.v2.task/*/*/address"):
        with contextlib.suppress(OSError):
            found.append(Path(note.read_text().strip().removeprefix("unix://")))
    return tuple(found)


def remove_if_empty(*directories: Path) -> None:
    """Remove these directories in this order, unless they hold something."""
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()


def mounts_below(directory: Path, mountinfo: str | None = None) -> tuple[str, ...]:
    """Return the mount points below a directory, last mounted first (proc_pid_mountinfo(5), field 5, octal escapes)."""
    text = MOUNTINFO.read_text() if mountinfo is None else mountinfo
    points = (_unescape(line.split()[4]) for line in text.splitlines())
    return tuple(point for point in points if Path(point).is_relative_to(directory))[::-1]


def unmount_below(directory: Path) -> None:
    """Unmount everything below a directory, busy mounts lazily (umount -l). Raises TryoutError if any stays."""
    for point in mounts_below(directory):
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)
    if left := mounts_below(directory):
        raise TryoutError(left[0], "cannot be unmounted", f"umount {left[0]}")


def overlay_works(directory: Path) -> bool:
    """Return True when an overlay can be mounted here; on some filesystems (an overlay itself) it cannot."""
    top = directory / "overlay-probe"
    for name in ("lower", "upper", "work", "merged"):
        (top / name).mkdir(parents=True, exist_ok=True)
    options = f"lowerdir={top}/lower,upperdir={top}/upper,workdir={top}/work"
    argv = ["mount", "-t", "overlay", "overlay", "-o", options, f"{top}/merged"]
    works = subprocess.run(argv, check=False, capture_output=True).returncode == 0
    unmount_below(top)
    return works


def _unescape(text: str) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), os.fsencode(text)))
