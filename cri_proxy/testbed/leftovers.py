"""What a containerd leaves behind when it ends: shims, their sockets, mounts. Found and removed by our directory alone.

Nothing of another containerd is ever touched: a shim is ours when its ``-address`` is our socket, a mount when it
lies below our directory.
"""

import contextlib
import os
import re
import subprocess
from pathlib import Path

import psutil

from cri_proxy.cri_client.errors import TryoutError

SHIM = "containerd-shim"
SHIM_SOCKETS = Path("/run/containerd/s")  # fixed in containerd, whatever its state directory is
MOUNTINFO = Path("/proc/self/mountinfo")
KILL_SECONDS = 30.0  # for the kernel and their parents, on a busy machine


def shims_of(socket: Path) -> list[psutil.Process]:
    """The shims that report to this containerd."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            command = process.cmdline()
            if command and Path(command[0]).name.startswith(SHIM) and str(socket) in command:
                found.append(process)
    return found


def end_shims(socket: Path) -> int:
    """Kill the shims of this containerd with the containers below them; gives how many processes ended.

    A shim is the parent of its containers (a child subreaper), so its descendants are exactly those.
    """
    doomed: list[psutil.Process] = []
    for shim in shims_of(socket):
        with contextlib.suppress(psutil.Error):
            doomed += [*shim.children(recursive=True), shim]
    for process in doomed:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _, alive = psutil.wait_procs(doomed, timeout=KILL_SECONDS)
    if alive:
        raise TryoutError("containers", f"processes {[p.pid for p in alive]} do not end", "look at them with ps")
    return len(doomed)


def shim_sockets(state: Path) -> tuple[Path, ...]:
    """Sockets that the shims made outside our directory: each shim leaves its address in its bundle."""
    found = []
    for note in state.glob("io.containerd.runtime.v2.task/*/*/address"):
        with contextlib.suppress(OSError):
            found.append(Path(note.read_text().strip().removeprefix("unix://")))
    return tuple(found)


def remove_if_empty(*directories: Path) -> None:
    """Remove these directories in this order, those that hold something excepted."""
    for directory in directories:
        with contextlib.suppress(OSError):
            directory.rmdir()


def mounts_below(directory: Path, mountinfo: str | None = None) -> tuple[str, ...]:
    """Mount points below a directory, the last mounted first (proc_pid_mountinfo(5), field 5, octal escapes)."""
    text = MOUNTINFO.read_text() if mountinfo is None else mountinfo
    points = (_unescape(line.split()[4]) for line in text.splitlines())
    return tuple(point for point in points if Path(point).is_relative_to(directory))[::-1]


def unmount_below(directory: Path) -> None:
    """Unmount everything below a directory; a busy mount is detached (umount -l). Raises TryoutError if any stays."""
    for point in mounts_below(directory):
        subprocess.run(["umount", "-l", point], check=False, capture_output=True)
    if left := mounts_below(directory):
        raise TryoutError(left[0], "cannot be unmounted", f"umount {left[0]}")


def overlay_works(directory: Path) -> bool:
    """Whether an overlay can be mounted here; on some filesystems (an overlay itself) it cannot."""
    top = directory / "overlay-probe"
    parts = [top / name for name in ("lower", "upper", "work", "merged")]
    for part in parts:
        part.mkdir(parents=True, exist_ok=True)
    lower, upper, work, merged = parts
    options = f"lowerdir={lower},upperdir={upper},workdir={work}"
    argv = ["mount", "-t", "overlay", "overlay", "-o", options, str(merged)]
    works = subprocess.run(argv, check=False, capture_output=True).returncode == 0
    unmount_below(top)
    return works


def _unescape(text: str) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda m: bytes([int(m[1], 8)]), os.fsencode(text)))
