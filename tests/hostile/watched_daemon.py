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


class Heart:
    """Beats on the daemon's loop, and keeps the longest time in between."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.forget()
        self._beat()

    def forget(self) -> None:
        self.turn_seconds = self.stall_seconds = 0.0
        self._cpu, self._clock = time.thread_time(), time.monotonic()

    def look(self) -> None:
        cpu, clock = time.thread_time(), time.monotonic()
        self.turn_seconds = max(self.turn_seconds, cpu - self._cpu)
        self.stall_seconds = max(self.stall_seconds, clock - self._clock)
        self._cpu, self._clock = cpu, clock

    def _beat(self) -> None:
        self.look()
        self._loop.call_later(BEAT_SECONDS, self._beat)


class WatchedDaemon(app.Daemon):
    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        report_when_told(Heart(loop), Path(os.environ[REPORT_FILE]))
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
