import os

import pytest

from cri_proxy.simulate.processes import MOST_PROCESSES, in_processes


def squared_where(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


@pytest.mark.parametrize("cpus", [1, 2, 64])
def test_results_come_in_the_order_of_the_items(cpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(cpus)))
    found = list(in_processes(squared_where, range(20)))
    assert [square for square, _ in found] == [number**2 for number in range(20)]
    pids = {pid for _, pid in found}
    assert len(pids) <= min(cpus, MOST_PROCESSES)
    assert (os.getpid() in pids) is (cpus == 1)


def test_one_item_and_none_need_no_process() -> None:
    assert list(in_processes(squared_where, [3])) == [(9, os.getpid())]
    assert list(in_processes(squared_where, [])) == []
