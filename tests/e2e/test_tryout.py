"""``make run`` on real containerd: it tells the truth, and leaves nothing behind however it ends."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from cri_proxy.tryout import cgroups
from cri_proxy.tryout.waiting import until

RUN_SECONDS = 60.0


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Where the try-out puts its directory; short, since sockets lie in it."""
    scratch = Path(tempfile.mkdtemp(prefix="try-", dir="/tmp"))
    yield scratch
    shutil.rmtree(scratch, ignore_errors=True)


def start(scratch: Path) -> "subprocess.Popen[str]":
    """The try-out without a terminal, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "cri_proxy.tryout"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(scratch), "RUNTIME": ""},
    )


def left_behind(scratch: Path) -> list[str]:
    """Directories, processes, mounts and cgroups that name the try-out's directory."""
    found = [str(path) for path in scratch.iterdir()]
    found += [
        str(p.info["cmdline"]) for p in psutil.process_iter(["cmdline"]) if str(scratch) in str(p.info["cmdline"])
    ]
    found += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(scratch) in line]
    names = [p.name for h in cgroups.hierarchies() for p in h.glob("cri-proxy-tryout-*")]
    return found + names


def exists(scratch: Path, name: str) -> bool:
    """Whether the try-out's directory has this file."""
    return any(scratch.glob(f"*/{name}"))


def test_every_container_is_confirmed_by_the_kernel_and_nothing_is_left(scratch: Path) -> None:
    with start(scratch) as run:
        text, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 0, text
    assert "says the kernel." in text
    assert "✗" not in text
    assert left_behind(scratch) == []


@pytest.mark.parametrize("moment", ["runtime/containerd.sock", "runtime/image.tar", "cri-proxy.sock", "admin.sock"])
async def test_interrupted_with_all_its_programs_it_leaves_nothing(scratch: Path, moment: str) -> None:
    """As Ctrl-C does: the whole process group gets the signal, at the moment when this file appears."""

    async def has_come() -> bool:
        return exists(scratch, moment)

    with start(scratch) as run:
        await until(f"{moment} is there", has_come, seconds=RUN_SECONDS)
        os.killpg(run.pid, signal.SIGINT)
        text, _ = run.communicate(timeout=RUN_SECONDS)
    assert run.returncode == 130, text
    assert left_behind(scratch) == []
