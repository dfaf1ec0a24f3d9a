"""Sample this process at a scrape: CPU time, memory, open files and start time (proc(5)), blocks, asyncio tasks."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Sample

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def process_samples(pid: int | None = None) -> Iterator[Sample]:
    """Return the figures of this process, or of another one; none where they may not be read."""
    directory = Path("/proc", str(pid or "self"))
    try:
        fields = (directory / "stat").read_text().rpartition(")")[2].split()  # the third field is the first of them
        resident = int((directory / "statm").read_text().split()[1])
        files = sum(1 for _ in (directory / "fd").iterdir())
    except OSError:
        return
    user, system, started = int(fields[11]), int(fields[12]), int(fields[19])
    yield Sample(catalog.PROCESS_START, _boot_time_seconds() + started / _TICKS)
    yield Sample(catalog.PROCESS_CPU, (user + system) / _TICKS)
    yield Sample(catalog.PROCESS_MEMORY, resident * _PAGE_BYTES)
    yield Sample(catalog.PROCESS_FILES, files)
    yield Sample(catalog.BLOCKS, sys.getallocatedblocks())


@cache  # or the start of a process would differ after the machine's clock was set
def _boot_time_seconds() -> float:
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)


def task_samples() -> Iterator[Sample]:
    """Return the number of tasks of the running loop. Raises RuntimeError without one."""
    yield Sample(catalog.TASKS, len(asyncio.all_tasks()))
