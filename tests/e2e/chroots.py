"""A root of another Debian release, made by mmdebstrap: commands run in it on this machine's kernel."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PROGRAMS: Final = ("mmdebstrap", "unshare", "chroot", "rpm", "rpmbuild", "lintian")
BUILD_SECONDS: Final = 900.0
COMMAND_SECONDS: Final = 400.0
# $1 = the root; the rest is the command. The mounts end with it.
ENTER: Final = """
for place in proc sys dev; do mount --rbind /$place "$1/$place"; done
root=$1
shift
exec chroot "$root" "$@"
"""


@dataclass(frozen=True, slots=True)
class Chroot:
    """A root directory. Sockets in it can be connected to from outside."""

    root: Path

    def started(self, *command: str) -> list[str]:
        """The words that run this command inside, in the process that they start."""
        return ["unshare", "--mount", "sh", "-ec", ENTER, "sh", str(self.root), *command]

    def run(self, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.started("sh", "-c", command),
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_SECONDS,
            env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive"},
        )
        if check and done.returncode:
            raise AssertionError(f"{command}: status {done.returncode}\n{done.stdout}")
        return done

    def holds(self, path: str) -> bool:
        return (self.root / path.lstrip("/")).exists()


def missing() -> str:
    """What keeps this machine from making such a root; '' for nothing."""
    if os.geteuid() != 0:
        return "needs root"
    absent = [name for name in PROGRAMS if not shutil.which(name)]
    return f"not installed: {' '.join(absent)} (packaging/setup/system.sh test installs them)" if absent else ""


def mirror() -> str:
    """The archive that this machine's own packages come from."""
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]
    return subprocess.run(asked, check=True, capture_output=True, text=True).stdout.split()[0]


@contextmanager
def debian(release: str) -> Iterator[Chroot]:
    """A minimal root of this release, without any Python."""
    root = Path(tempfile.mkdtemp(prefix="cri-proxy-e2e-", dir="/tmp"))
    try:
        made = ["mmdebstrap", "--quiet", "--variant=minbase", "--include=init-system-helpers", release]
        subprocess.run([*made, str(root), mirror()], check=True, timeout=BUILD_SECONDS, stdin=subprocess.DEVNULL)
        yield Chroot(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)
