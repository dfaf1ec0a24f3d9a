"""List the processes below a root (psutil reads its ``proc``): names, command lines, start times, sockets."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import Final

import psutil

from cri_proxy.doctor.facts.model import ProcessFacts

_SOCKET: Final = re.compile(r"socket:\[(\d+)\]")
KUBELET: Final = "kubelet"
# Programs with the kubelet inside: k3s, MicroK8s. What they use cannot be read from flags.
EMBEDDED: Final = ("k3s", "k3s-server", "k3s-agent", "kubelite")
PROGRAM: Final = "cri-proxy"
MODULE: Final = "cri_proxy.cli.main"
_PODS: Final = "/kubepods"  # the kubelet's cgroup of all pods, kubepods.slice with the systemd driver
MAX_CONTAINED_FILES: Final = 4096  # a plugin of the runtime has tens; a pod may open a million
_MAX_NAME: Final = 64  # the kernel keeps 15 characters, psutil completes them from the command line
_HELPER: Final = "cri-proxy-files"  # helpers for files that may hang are forks of a daemon


@contextmanager
def procfs(directory: Path) -> Iterator[None]:
    """Let psutil read this directory in place of /proc."""
    before = psutil.PROCFS_PATH
    psutil.PROCFS_PATH = str(directory)
    try:
        yield
    finally:
        psutil.PROCFS_PATH = before


def list_processes(root: Path) -> tuple[ProcessFacts, ...]:
    """Return the processes of ``root``'s proc, by pid; () where it has none."""
    try:
        pids = sorted(int(path.name) for path in (root / "proc").iterdir() if path.name.isdecimal())
    except OSError:
        return ()
    with procfs(root / "proc"):
        return tuple(found for pid in pids if (found := _process(root, pid)) is not None)


def _process(root: Path, pid: int) -> ProcessFacts | None:
    """Return this process; None when it has ended, or is a thread of the kernel or a zombie."""
    with suppress(psutil.Error, OSError):  # OSError: it has ended between two files
        process = psutil.Process(pid)
        directory = root / "proc" / str(pid)
        if _is_contained(directory):
            # Nothing depends on its words, and a pod can make them as long as it likes.
            sockets = _sockets(directory, most=MAX_CONTAINED_FILES)
            return ProcessFacts(pid, process.name()[:_MAX_NAME], (), process.create_time(), sockets, is_contained=True)
        if words := tuple(process.cmdline()):
            return ProcessFacts(pid, process.name()[:_MAX_NAME], words, process.create_time(), _sockets(directory))
    return None


def _is_contained(directory: Path) -> bool:
    """Return whether a process is a container's: in another pid namespace than this one, or in the pods' cgroup.

    A pod with hostPID is in the host's namespace. A node may be a pod itself, as in tests of Kubernetes. False where
    neither can be seen.
    """
    with suppress(OSError):
        if (directory / "ns/pid").readlink() != Path("/proc/self/ns/pid").readlink():
            return True
    with suppress(OSError):
        is_in_pod = _PODS in (directory / "cgroup").read_text(errors="replace")
        return is_in_pod and _PODS not in Path("/proc/self/cgroup").read_text(errors="replace")
    return False


def _sockets(directory: Path, *, most: int | None = None) -> frozenset[int] | None:
    """Return the inodes of a process's sockets, of its first ``most`` files; None where they may not be read.

    psutil has the names of sockets, and a client's has none.
    """
    try:
        return frozenset(socket_files(directory, most=most))
    except OSError:
        return None


def socket_files(directory: Path, *, most: int | None = None) -> dict[int, int]:
    """Return the file descriptor of each socket of a process, by inode. Raises OSError."""
    found = {}
    with os.scandir(directory / "fd") as entries:
        for entry in islice(entries, most):
            with suppress(OSError):  # closed meanwhile
                if match := _SOCKET.fullmatch(os.readlink(entry.path)):  # noqa: PTH115 - a process may have thousands
                    found[int(match[1])] = int(entry.name)
    return found


def is_kubelet(process: ProcessFacts) -> bool:
    """Return whether it is a kubelet, as a program of its own or inside another; no container's process is one."""
    # A pod may call its process so: judged by that one, a removal could be allowed under the real kubelet.
    return not process.is_contained and (process.name == KUBELET or is_embedded(process))


def is_embedded(process: ProcessFacts) -> bool:
    """Return whether it holds a kubelet among other things."""
    return process.name in EMBEDDED


def is_proxy(process: ProcessFacts) -> bool:
    """Return whether it is a daemon of cri-proxy: the program or its module, and the command ``run``.

    >>> is_proxy(ProcessFacts(1, "python3", ("/usr/bin/python3", "-IS", "/usr/bin/cri-proxy", "run")))
    True
    >>> is_proxy(ProcessFacts(1, "cri-proxy", ("cri-proxy", "status")))
    False
    """
    program = next((i for i, word in enumerate(process.words[:6]) if word.rpartition("/")[2] in (PROGRAM, MODULE)), -1)
    if process.is_contained or process.name == _HELPER:
        return False
    return program >= 0 and process.words[program + 1 : program + 2] == ("run",)
