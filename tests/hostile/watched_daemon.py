"""``python -m tests.hostile.watched_daemon run ...``: the daemon as it is, and what its loop and memory did.

At the signal REPORT it writes a ``Report`` to the file that the environment names, and starts to measure again.
"""

import asyncio
import ctypes
import gc
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from cri_proxy.cli.main import main as cri_proxy
from cri_proxy.daemon import app
from tests.fakes.reference import reference_seconds

REPORT: Final = signal.SIGRTMIN + 1
REPORT_FILE: Final = "HOSTILE_REPORT"
BEAT_SECONDS: Final = 0.002
LATE_SECONDS: Final = 0.02  # a pulse that is later than this was kept from beating


@dataclass(frozen=True, slots=True)
class Report:
    """Since the last report: the longest time without a beat, of CPU and by the clock; and memory now and at most.

    ``reference_seconds`` is what the reference loop takes of CPU here and now.
    """

    number: int
    turn_seconds: float
    stall_seconds: float
    resident_bytes: int
    peak_bytes: int
    reference_seconds: float


class Pulse:
    """Beats on a thread of its own, and so knows for how long the whole process stood still: the machine was busy."""

    def __init__(self) -> None:
        self._beaten = 0.0, time.monotonic()  # one value, as another thread reads it
        self._over = threading.Event()
        threading.Thread(target=self._beat, name="pulse", daemon=True).start()

    def lost_seconds(self, now: float) -> float:
        """How long it has not beaten when it should have, until now by the monotonic clock."""
        lost_seconds, beat_at = self._beaten
        return lost_seconds + max(0.0, now - beat_at - LATE_SECONDS)

    def stop(self) -> None:
        self._over.set()

    def _beat(self) -> None:
        while not self._over.wait(BEAT_SECONDS):
            now = time.monotonic()
            self._beaten = self.lost_seconds(now), now


class Heart:
    """Beats on the daemon's loop, and keeps the longest time in between, less that in which nothing else beat either.

    A call that holds Python's lock stops the pulse too: its time is CPU time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, lost_seconds: Callable[[float], float]) -> None:
        self._loop = loop
        self._lost_seconds = lost_seconds
        self.forget()
        self._beat()

    def forget(self) -> None:
        self.turn_seconds = self.stall_seconds = 0.0
        self._cpu, self._moving = time.thread_time(), self._moving_seconds()

    def look(self) -> None:
        cpu, moving = time.thread_time(), self._moving_seconds()
        self.turn_seconds = max(self.turn_seconds, cpu - self._cpu)
        self.stall_seconds = max(self.stall_seconds, moving - self._moving)
        self._cpu, self._moving = cpu, moving

    def _moving_seconds(self) -> float:
        """The monotonic clock, which stands while the process does."""
        now = time.monotonic()
        return now - self._lost_seconds(now)

    def _beat(self) -> None:
        self.look()
        self._loop.call_later(BEAT_SECONDS, self._beat)


class WatchedDaemon(app.Daemon):
    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        report_when_told(Heart(loop, Pulse().lost_seconds), Path(os.environ[REPORT_FILE]))
        await super().start()


def report_when_told(heart: Heart, file: Path) -> None:
    trim = ctypes.CDLL(None).malloc_trim
    numbers = iter(range(1, 1 << 30))

    def report(number: int, frame: object) -> None:
        heart.look()
        peak_bytes = memory_bytes("VmHWM")  # before the collector and the reference loop
        gc.collect()
        trim(0)
        found = Report(
            next(numbers),
            heart.turn_seconds,
            heart.stall_seconds,
            memory_bytes("VmRSS"),
            peak_bytes,
            reference_seconds(),
        )
        with suppress(OSError):  # from here on the peak is that of the next report (proc_pid_clear_refs(5))
            Path("/proc/self/clear_refs").write_text("5")
        beside = file.with_suffix(".new")
        beside.write_text(json.dumps(asdict(found)))
        beside.replace(file)
        heart.forget()

    signal.signal(REPORT, report)


def memory_bytes(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith(field))


def main() -> None:
    assert threading.current_thread() is threading.main_thread()
    app.Daemon = WatchedDaemon  # type: ignore[misc]  # the one that ``run`` makes
    cri_proxy()


if __name__ == "__main__":
    main()
