import os
import subprocess
import sys
from pathlib import Path

import pytest

from cri_proxy.state.process_lock import DeciderLock, LockHeld, started_ticks

_HOLD_AND_DIE = """
import os, pathlib, signal, sys
from cri_proxy.state.process_lock import DeciderLock
lock = DeciderLock.acquire(pathlib.Path(sys.argv[1]))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_second_is_told_who_decides(tmp_path: Path) -> None:
    lock = DeciderLock.acquire(tmp_path / "state")
    with pytest.raises(LockHeld, match=f"process {os.getpid()} already uses") as caught:
        DeciderLock.acquire(tmp_path / "state")
    assert caught.value.pid == os.getpid()
    lock.release()


def test_who_offers_to_hand_over_says_when_it_began(tmp_path: Path) -> None:
    lock = DeciderLock.acquire(tmp_path)
    lock.offer_handover()
    with pytest.raises(LockHeld) as caught:
        DeciderLock.acquire(tmp_path)
    assert (caught.value.pid, caught.value.started_ticks) == (os.getpid(), started_ticks(os.getpid()))
    lock.release()


def test_nothing_began_where_there_is_no_process() -> None:
    assert started_ticks(2**22 + 1) == 0 < started_ticks(os.getpid())


def test_a_released_lock_can_be_taken(tmp_path: Path) -> None:
    first = DeciderLock.acquire(tmp_path)
    first.release()
    first.release()
    DeciderLock.acquire(tmp_path).release()


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", _HOLD_AND_DIE, str(tmp_path)], check=False, timeout=30)
    assert (tmp_path / "decider.lock").read_text().strip().isdigit()
    DeciderLock.acquire(tmp_path).release()
