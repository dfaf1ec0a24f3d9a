"""A machine on which systemd is process 1, without a virtual one: namespaces over a copy-on-write view of this machine.

What is installed, enabled and written there is gone with it. Needs root, overlayfs, systemd and unshare(1).
"""

import asyncio
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from tests.testbed.wait import until

T = TypeVar("T")
PROGRAMS: Final = ("systemctl", "unshare", "nsenter", "mount", "dpkg")
SYSTEMD: Final = "/lib/systemd/systemd"
BOOT_SECONDS: Final = 180.0
COMMAND_SECONDS: Final = 240.0

# In a mount namespace: $1 = an empty directory. Nothing of the outside can be written through /proc/sys, /sys or /dev,
# and no unit of this machine is started but what basic.target needs.
BOOT: Final = (
    r"""
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
for place in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs $place; done
for node in null zero full random urandom tty; do touch dev/$node; mount --bind /dev/$node dev/$node; done
mkdir dev/shm dev/pts
rm -rf etc/systemd/system/*.wants etc/systemd/system/cri-proxy* var/lib/cri-proxy etc/cri-proxy usr/sbin/policy-rc.d
for unit in systemd-modules-load.service systemd-sysctl.service sys-kernel-debug.mount sys-kernel-tracing.mount; do
    ln -sf /dev/null etc/systemd/system/$unit
done
: >etc/fstab
echo booted >etc/hostname
for hierarchy in /sys/fs/cgroup/*/; do
    [ -e "$hierarchy/cgroup.procs" ] && [ "$(basename "$hierarchy")" != cpuset ] || continue
    mkdir -p "$hierarchy/$2" && echo $$ >"$hierarchy/$2/cgroup.procs" || true
done
exec unshare --fork --pid --cgroup --net --uts --ipc --kill-child sh -ec '
mount -t proc proc proc
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs sys/fs/cgroup
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
    mount -t cgroup2 cgroup2 sys/fs/cgroup
else
    mkdir sys/fs/cgroup/systemd
    mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
fi
mkdir -p .outside
pivot_root . .outside
umount -l .outside
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin '"""
    + SYSTEMD
    + r"""' --system --unit=basic.target
'
"""
)


@dataclass(frozen=True, slots=True)
class Booted:
    """The machine; ``pid`` is its systemd, seen from outside."""

    pid: int

    def run(self, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        entered = ["nsenter", f"--target={self.pid}", "--all", "--", "sh", "-c", command]
        done = subprocess.run(
            entered,
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )
        if check and done.returncode:
            raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}")
        return done

    def tell(self, command: str) -> str:
        """What a shell command prints there, whatever its status."""
        return self.run(command, check=False).stdout.strip()

    def put(self, path: str, content: str | bytes) -> None:
        entered = ["nsenter", f"--target={self.pid}", "--all", "--", "sh", "-c"]
        data = content.encode() if isinstance(content, str) else content
        command = f"mkdir -p $(dirname {path}) && cat >{path}"
        subprocess.run([*entered, command], check=True, input=data, timeout=COMMAND_SECONDS)

    def receive(self, file: Path, path: str) -> None:
        self.put(path, file.read_bytes())

    def systemctl(self, *words: str) -> str:
        return self.run(f"systemctl {' '.join(words)}").stdout.strip()

    def value(self, unit: str, name: str) -> str:
        return self.tell(f"systemctl show --property={name} --value {unit}")


def missing() -> str:
    """What keeps this machine from showing another one; '' for nothing."""
    if os.geteuid() != 0:
        return "needs root"
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    absent += [] if Path(SYSTEMD).exists() else [SYSTEMD]
    return f"needs {' '.join(absent)}" if absent else ""


@contextmanager
def booted() -> Iterator[Booted]:
    """A machine that has reached basic.target."""
    directory = tempfile.mkdtemp(prefix="cri-proxy-e2e-", dir="/tmp")
    name = Path(directory).name
    log = Path(directory).with_suffix(".log")
    with log.open("wb") as output:
        command = ["unshare", "--mount", "sh", "-ec", BOOT, "sh", directory, name]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        yield wait("basic.target is reached", lambda: found_up(process, log))
    finally:
        process.kill()  # unshare's --kill-child takes systemd along, and that all the rest
        process.wait()
        wait("the machine's cgroups are empty", lambda: removed_cgroups(name))
        shutil.rmtree(directory, ignore_errors=True)
        log.unlink()


def wait(claim: str, check: Callable[[], T | None]) -> T:
    """What ``check`` gives once that is neither None nor False. Outside of a running event loop."""
    return asyncio.run(until(claim, lambda: asyncio.to_thread(check), seconds=BOOT_SECONDS))


def found_up(process: subprocess.Popen[bytes], log: Path) -> Booted | None:
    """The machine once its basic.target is reached. Raises AssertionError with what was said when it ended instead."""
    if process.poll() is not None:
        raise AssertionError(f"systemd did not come up: {log.read_text(errors='replace')[-2000:]}")
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        name = Path(f"/proc/{children[0]}/comm").read_text().strip() if children else ""
    except OSError:  # a command on the way to systemd, which has ended meanwhile
        return None
    if name != "systemd":
        return None
    machine = Booted(int(children[0]))
    return machine if machine.tell("systemctl is-active basic.target") == "active" else None


def removed_cgroups(name: str) -> bool:
    """Remove what the machine left below its cgroups, from the deepest up; whether nothing is left."""
    tops = [top for pattern in (name, f"*/{name}") for top in Path("/sys/fs/cgroup").glob(pattern)]
    for directory in [d for top in tops for d, _, _ in os.walk(top, topdown=False)]:
        with suppress(OSError):  # its processes are about to end
            Path(directory).rmdir()
    return not tops
