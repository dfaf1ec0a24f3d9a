import asyncio
import gc
import os
import subprocess
import time

import psutil
import pytest

from cri_proxy.metrics import catalog
from cri_proxy.metrics.process import process_samples, task_samples


def test_the_process_tells_its_start_time_memory_and_files() -> None:
    said = {sample.metric: sample.value for sample in process_samples()}
    start, memory = said[catalog.PROCESS_START], said[catalog.PROCESS_MEMORY]
    assert isinstance(start, float)
    assert isinstance(memory, int)
    assert time.time() - 86400 < start <= time.time() + 1
    assert memory > 1 << 20
    assert said[catalog.PROCESS_FILES] in range(3, os.sysconf("SC_OPEN_MAX"))


def test_a_process_that_cannot_be_looked_at_has_no_figures() -> None:
    with subprocess.Popen(["/bin/true"]) as ended:
        ended.wait()
    assert list(process_samples(ended.pid)) == []


def test_the_figures_are_those_of_psutil() -> None:
    said = {sample.metric: sample.value for sample in process_samples()}
    known = psutil.Process()
    assert said[catalog.PROCESS_START] == pytest.approx(known.create_time(), abs=1.5)
    assert said[catalog.PROCESS_CPU] == pytest.approx(sum(known.cpu_times()[:2]), rel=0.1, abs=0.1)
    assert said[catalog.PROCESS_MEMORY] == pytest.approx(known.memory_info().rss, rel=0.1)
    assert said[catalog.PROCESS_FILES] == pytest.approx(known.num_fds(), abs=2)


def test_objects_that_are_kept_show_as_blocks() -> None:
    gc.collect()  # else a collection in between may take away more than comes
    before = blocks()
    kept = [bytearray(100) for _ in range(1000)]
    assert 1000 <= blocks() - before <= 1000 * 20
    assert len(kept) == 1000


def blocks() -> int:
    (count,) = (sample.value for sample in process_samples() if sample.metric is catalog.BLOCKS)
    assert isinstance(count, int)
    return count


async def test_tasks_count_until_they_end() -> None:
    before = len(asyncio.all_tasks())
    task = asyncio.get_running_loop().create_task(asyncio.Event().wait())
    (with_it,) = task_samples()
    task.cancel()
    await asyncio.wait([task])
    (without,) = task_samples()
    assert (with_it.value, without.value) == (before + 1, before)
