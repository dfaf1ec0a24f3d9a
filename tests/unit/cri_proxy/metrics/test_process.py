import asyncio
import gc
import os
import subprocess
import sys
import time

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


def test_psutil_is_loaded_by_the_first_scrape() -> None:
    """It is a megabyte that a daemon does without until then."""
    program = "import sys, cri_proxy.daemon.engine; sys.exit('psutil' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=60).returncode == 0


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
