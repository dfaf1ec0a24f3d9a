"""The daemon's own process (proc(5)), in the words of Prometheus' client libraries where they have some."""

import asyncio
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Sample

_STARTED_AT_SECONDS = time.time() - time.monotonic()  # when the machine's monotonic clock began


def process_samples(proc: Path = Path("/proc/self")) -> Iterator[Sample]:
    """What of it can be read; a process that may not look at itself says nothing."""
    try:
        fields = (proc / "stat").read_text().rpartition(")")[2].split()
        pages = int((proc / "statm").read_text().split()[1])
        files = len(os.listdir(proc / "fd"))  # noqa: PTH208 - only their number is wanted
    except OSError:
        return
    ticks = os.sysconf("SC_CLK_TCK")
    started_seconds = int(fields[19]) / ticks  # field 22 of stat, after boot
    yield Sample(catalog.PROCESS_START, round(_STARTED_AT_SECONDS + started_seconds, 2))
    yield Sample(catalog.PROCESS_CPU, (int(fields[11]) + int(fields[12])) / ticks)
    yield Sample(catalog.PROCESS_MEMORY, pages * os.sysconf("SC_PAGE_SIZE"))
    yield Sample(catalog.PROCESS_FILES, files)
    yield Sample(catalog.BLOCKS, sys.getallocatedblocks())


def task_samples() -> Iterator[Sample]:
    """Tasks of the running loop. Raises RuntimeError where none runs."""
    yield Sample(catalog.TASKS, len(asyncio.all_tasks()))
