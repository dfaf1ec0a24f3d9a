"""``make run`` on real containerd: it tells the truth, and leaves nothing behind however it ends."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.testbed import cgroups
from tests.testbed.wait import until

# It makes pods on a containerd that it starts, and removes everything: some ten seconds on an idle machine.
RUN_SECONDS = 240.0
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Where the try-out puts its directory; short, since sockets lie in it."""
    scratch = Path(tempfile.mkdtemp(prefix="try-", dir="/tmp"))
    yield scratch
    shutil.rmtree(scratch, ignore_errors=True)


def start(scratch: Path) -> "subprocess.Popen[str]":
    """The try-out without a terminal, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "tests.tryout"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch), "RUNTIME": ""},
    )


def left_behind(scratch: Path, name: str) -> list[str]:
    """Directories, processes, mounts and cgroups that name the try-out's directory, which was called so."""
    found = [str(path) for path in scratch.iterdir()]
    found += [
        str(p.info["cmdline"]) for p in psutil.process_iter(["cmdline"]) if str(scratch) in str(p.info["cmdline"])
    ]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(scratch) in line]
    return found + [str(h / name) for h in cgroups.hierarchies() if (h / name).exists()]


def test_every_container_is_confirmed_by_the_kernel_and_nothing_is_left(scratch: Path) -> None:
    with start(scratch) as run:
        text, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 0, text
    assert "confirmed by the kernel." in text
    assert "✗" not in text
    has_one_pool = "├─ socket" not in text and "├─ NUMA node" not in text
    assert ("cri-proxy demo" in text) is has_one_pool
    name = re.search(rf"its own, below {scratch}/(\S+)\)", text)
    assert name, text
    assert left_behind(scratch, name[1]) == []


@pytest.mark.parametrize("moment", ["runtime/containerd.sock", "runtime/image.tar", "cri-proxy.sock", "admin.sock"])
async def test_interrupted_with_all_its_programs_it_leaves_nothing(scratch: Path, moment: str) -> None:
    """As Ctrl-C does: the whole process group gets the signal, at the moment when this file appears."""

    async def has_come() -> str | None:
        return next((path.name for path in scratch.iterdir() if (path / moment).exists()), None)

    with start(scratch) as run:
        name = await until(f"{moment} is there", has_come, seconds=RUN_SECONDS)
        os.killpg(run.pid, signal.SIGINT)
        text, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 130, text
    assert left_behind(scratch, name) == []
