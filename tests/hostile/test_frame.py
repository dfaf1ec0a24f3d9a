"""The frame sees what it is there to see."""

import asyncio
import os
import subprocess
import sys

from cri_proxy.testbed.wait import until
from tests.fakes.reference import reference_seconds
from tests.hostile.bounds import Bounds, Cost
from tests.hostile.node import ROOT, AttackedNode, cost_of
from tests.hostile.watched_daemon import SWITCH, Heart, Report


async def test_a_callback_that_blocks_the_loop_is_seen_in_cpu_time_and_by_the_clock() -> None:
    heart = Heart(asyncio.get_running_loop())
    blocked = reference_seconds() + reference_seconds()  # both in one turn of this loop

    async def seen() -> bool:
        return min(heart.turn_seconds, heart.stall_seconds) >= blocked

    await until("the heart has seen it", seen, seconds=20)


def test_a_cost_above_its_bound_is_named_with_both() -> None:
    assert Cost(turn_references=3.0).beyond(Bounds(turn_references=2.0)) == ["turn_references: 3.0, at most 2.0"]
    assert Cost(log_bytes=65_536).beyond(Bounds(log_bytes=65_536)) == []


def test_time_is_counted_in_reference_loops_and_memory_from_before_the_attack() -> None:
    before = Report(1, 9, 9, 100, 900, 0.5)
    cost = cost_of(before, Report(2, 1, 3, 800, 900, 0.25), Report(3, 9, 9, 150, 1, 0.25))
    assert (cost.turn_references, cost.stall_references, cost.peak_bytes, cost.kept_bytes) == (2, 6, 800, 50)


async def test_a_path_hangs_until_it_recovers(node: AttackedNode) -> None:
    """A process looks twice: the writer that finds it at the FIFO sees it through the first, recovery the second."""
    node.hang()
    code = "import os, sys; from tests.hostile.watched_daemon import hang_below; hang_below(sys.argv[1]); "
    code += "print(*(os.path.exists(sys.argv[1] + '/volume') for _ in range(2)))"
    command = (sys.executable, "-c", code, str(node.hung_path))
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.PIPE)

    async def waited() -> bool:
        try:
            os.close(os.open(f"{node.hung_path}{SWITCH}", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:  # nobody reads
            return False
        return True

    await until("it waits", waited, seconds=30)
    node.recover()
    assert (await process.communicate())[0] == b"False False\n"
