"""Sample this process at a scrape: CPU time, memory, open files and start time (by psutil), blocks, asyncio tasks."""

import asyncio
import sys
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from cri_proxy.metrics import catalog
from cri_proxy.metrics.exposition import Sample

if TYPE_CHECKING:
    from psutil import Process


def process_samples(pid: int | None = None) -> Iterator[Sample]:
    """Return the figures of this process, or of another one; none where they may not be read."""
    import psutil  # 0.9 MB and 7 ms, which a daemon without scrapes does without

    try:
        process = _process(pid)
        with process.oneshot():
            cpu, memory, files = process.cpu_times(), process.memory_info(), process.num_fds()
    except psutil.Error:
        return
    yield Sample(catalog.PROCESS_START, process.create_time())
    yield Sample(catalog.PROCESS_CPU, cpu.user + cpu.system)
    yield Sample(catalog.PROCESS_MEMORY, memory.rss)
    yield Sample(catalog.PROCESS_FILES, files)
    yield Sample(catalog.BLOCKS, sys.getallocatedblocks())


@cache  # it keeps its start time, which would differ after the machine's clock was set
def _process(pid: int | None) -> "Process":
    import psutil

    return psutil.Process(pid)


def task_samples() -> Iterator[Sample]:
    """Return the number of tasks of the running loop. Raises RuntimeError without one."""
    yield Sample(catalog.TASKS, len(asyncio.all_tasks()))
