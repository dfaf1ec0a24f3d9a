"""How much CPU time a command takes that a person waits for. Run: python benchmarks/commands.py [ROUNDS].

Each is a process as on a node (``installed``); ``status`` and ``explain`` ask a daemon on the embedded runtime. Prints
the least of the rounds, user and system time together, as other work on the machine only lengthens it.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.installed import environment, install
from sysfs.descriptions.machine import describe
from tests.fakes.sysfs_tree import write_tree

MACHINE: Final[dict[str, object]] = {"packages": 2, "nodes": 4, "cores": 16, "threads": 2, "memory": "64Gi"}
COMMANDS: Final = (("--help",), ("status", "--help"), ("status",), ("explain", "--problems"), ("topology",))
BARRED: Final = (("--help",), ("status", "--help"), ("status",))
BAR_SECONDS: Final = 0.15
START_SECONDS: Final = 30


@contextmanager
def daemon(program: Path, place: Path) -> Iterator[None]:
    """A daemon with its admin socket in this directory answers inside the block."""
    write_tree(place / "root", describe(MACHINE))
    words = [
        *("run", "--runtime-endpoint", "embedded", "--listen", f"unix://{place}/cri-proxy.sock", "--http", "off"),
        *("--state-dir", str(place / "state"), "--sysfs-root", str(place / "root")),
    ]
    quiet = subprocess.DEVNULL
    child = subprocess.Popen([program, *words], env=environment(), stdout=quiet, stderr=quiet)
    try:
        deadline = time.monotonic() + START_SECONDS
        while not (place / "admin.sock").exists():
            if time.monotonic() > deadline or child.poll() is not None:
                raise SystemExit("the daemon has not started")
            time.sleep(0.05)
        yield
    finally:
        child.terminate()
        child.wait(START_SECONDS)


def cpu_seconds(program: Path, words: tuple[str, ...], place: Path) -> float:
    """Return the CPU time of one process with this command line."""
    admin = ("--admin", f"unix://{place}/admin.sock") if words[0] in ("status", "explain") else ()
    before = os.times()
    subprocess.run([program, *words, *admin], env=environment(), stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user - before.children_user + after.children_system - before.children_system


def main() -> int:
    """Measure, print, and return 1 where the bar is missed."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    missed = False
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        program = install(place / "venv")
        with daemon(program, place):
            for words in COMMANDS:
                least = min(cpu_seconds(program, words, place) for _ in range(rounds))
                bar = f"   (bar {BAR_SECONDS})" if words in BARRED else ""
                print(f"cri-proxy {' '.join(words):20} {least:.3f} s of CPU{bar}")
                missed |= words in BARRED and least > BAR_SECONDS
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
