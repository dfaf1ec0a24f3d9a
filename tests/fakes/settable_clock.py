"""A ``cri-proxy`` whose monotonic clock a test sets, as restoring a process or moving a machine may do."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

SET_BACK: Final = signal.SIGRTMIN
SET_FORWARD: Final = signal.SIGRTMIN + 1
"""By ten minutes: longer than any timer."""

_PRELUDE: Final = """
import signal, sys, time
shifts_seconds, monotonic = [0.0], time.monotonic
time.monotonic = lambda: monotonic() + sum(shifts_seconds)
from cri_proxy.cli.main import main
signal.signal(signal.SIGRTMIN, lambda *_: shifts_seconds.append(-1e6))
signal.signal(signal.SIGRTMIN + 1, lambda *_: shifts_seconds.append(600.0))
"""


def program(more: str = "") -> tuple[str, ...]:
    """Return the command of such a ``cri-proxy``; ``more`` is Python that runs before it."""
    return (sys.executable, "-c", f"{_PRELUDE}{more}\nsys.exit(main())\n")


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[str]]:
    """Run such a ``cri-proxy`` with these arguments; it is killed at the end."""
    child = subprocess.Popen([*program(), *words], stderr=subprocess.PIPE, text=True)
    assert child.stderr is not None
    try:
        yield child
    finally:
        child.kill()
        child.wait()
        child.stderr.close()


def said(child: subprocess.Popen[str], event: str) -> None:
    """Read its log until there is such an event."""
    assert child.stderr is not None
    assert any(event in line for line in child.stderr), f"it ended without {event}"
