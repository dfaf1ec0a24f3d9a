"""What the process says of itself."""

import os
import time
from pathlib import Path

from cri_proxy import metrics
from cri_proxy.own_process import process_samples


def test_the_process_tells_its_start_time_memory_and_files() -> None:
    said = {sample.metric: sample.value for sample in process_samples()}
    start, memory = said[metrics.PROCESS_START], said[metrics.PROCESS_MEMORY]
    assert isinstance(start, float)
    assert isinstance(memory, int)
    assert time.time() - 86400 < start <= time.time() + 1
    assert memory > 1 << 20
    assert said[metrics.PROCESS_FILES] in range(3, os.sysconf("SC_OPEN_MAX"))


def test_a_process_that_may_not_look_says_nothing(tmp_path: Path) -> None:
    assert list(process_samples(tmp_path)) == []
