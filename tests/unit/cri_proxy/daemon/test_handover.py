import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cri_proxy.daemon.handover import Predecessor, Takeover, unless, wait_for_successor
from cri_proxy.errors import StoreError
from cri_proxy.state.process_lock import SUCCESSOR, DeciderLock, LockHeld, started_ticks
from tests.fakes.site import Silent

# Gives its lock away when it is asked, as the daemon does; what it prints says that it can be asked.
HOLDER = """
import pathlib, signal, sys
from cri_proxy.daemon.handover import ASK
from cri_proxy.state.process_lock import DeciderLock
signal.pthread_sigmask(signal.SIG_BLOCK, {ASK})
lock = DeciderLock.acquire(pathlib.Path(sys.argv[1]))
lock.offer_handover()
print("asked for", flush=True)
signal.sigwait({ASK})
lock.release()
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Another process that decides, until it is asked; it ends when its input does."""
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"asked for\n"
        yield process
        process.terminate()


def test_without_the_wish_who_decides_is_left_alone(tmp_path: Path, holder: "subprocess.Popen[bytes]") -> None:
    with pytest.raises(LockHeld, match=f"process {holder.pid} already uses this state directory: stop it"):
        Takeover.begin(tmp_path, takes_over=False)
    assert holder.poll() is None


@pytest.mark.usefixtures("holder")
async def test_who_is_asked_gives_the_lock_away(tmp_path: Path) -> None:
    takeover = Takeover.begin(tmp_path, takes_over=True)
    await asyncio.wait_for(takeover.wait_for_lock(Silent()), 20)
    with pytest.raises(LockHeld, match=f"process {os.getpid()} already uses"):
        DeciderLock.acquire(tmp_path)
    takeover.release()
    DeciderLock.acquire(tmp_path, SUCCESSOR).release()


@pytest.mark.usefixtures("holder")
def test_only_one_stands_in_line(tmp_path: Path) -> None:
    first = Takeover.begin(tmp_path, takes_over=True)
    with pytest.raises(LockHeld, match=f"process {os.getpid()} is already taking over"):
        Takeover.begin(tmp_path, takes_over=True)
    first.release()


async def test_a_holder_that_offers_a_little_later_is_waited_for(tmp_path: Path) -> None:
    lock = DeciderLock.acquire(tmp_path)
    asyncio.get_running_loop().call_later(0.05, lock.offer_handover)
    takeover = await Takeover.begin_when_offered(tmp_path, takes_over=True)
    assert takeover.predecessor is not None
    assert takeover.predecessor.pid == os.getpid()
    takeover.release()
    lock.release()


async def test_a_holder_that_never_offers_is_not_waited_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = DeciderLock.acquire(tmp_path)
    monkeypatch.setattr("cri_proxy.daemon.handover._OFFER_SECONDS", 0.05)
    with pytest.raises(LockHeld, match="it does not offer to hand over"):
        await Takeover.begin_when_offered(tmp_path, takes_over=True)
    lock.release()


async def test_where_nobody_decides_there_is_nobody_to_ask(tmp_path: Path) -> None:
    takeover = Takeover.begin(tmp_path, takes_over=True)
    assert takeover.predecessor is None
    await takeover.wait_for_lock(Silent())
    takeover.release()
    DeciderLock.acquire(tmp_path).release()


async def test_the_end_of_the_old_process_is_noticed(tmp_path: Path, holder: "subprocess.Popen[bytes]") -> None:
    takeover = Takeover.begin(tmp_path, takes_over=True)
    await takeover.wait_for_lock(Silent())
    acted = asyncio.Event()

    async def act() -> None:
        acted.set()

    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(takeover.after_predecessor(act))
        await asyncio.sleep(0)
        assert not acted.is_set()
        assert holder.stdin is not None
        holder.stdin.close()
        await acted.wait()
    takeover.release()


@pytest.mark.parametrize(
    ("pid", "ticks", "why"),
    [
        (os.getpid(), 0, "does not offer"),
        (os.getpid(), started_ticks(os.getpid()) + 1, "another process here"),
        (2**22 + 1, 1, "cannot be found from here"),
        (0, 0, "does not offer"),
    ],
    ids=["none on offer", "its id was used again", "none there", "no process"],
)
def test_a_process_that_did_not_offer_or_is_not_the_one_is_never_signalled(pid: int, ticks: int, why: str) -> None:
    with pytest.raises(StoreError, match=f"cannot be replaced: .*{why}.*stop it first"):
        Predecessor.find(LockHeld("lock", "", pid, ticks))


async def asked(problem: str, listen: Path, log: Silent) -> bool:
    """Whether one signal makes the process give way; else it waits for the next, and has said why."""
    signal = asyncio.Event()
    signal.set()
    giving_way = asyncio.get_running_loop().create_task(wait_for_successor(signal, lambda: [problem], [listen], log))
    async with asyncio.timeout(20):
        while not giving_way.done() and not log.warnings:  # noqa: ASYNC110 - bounded
            await asyncio.sleep(0.002)
    gives_way = giving_way.done()
    giving_way.cancel()
    await asyncio.wait([giving_way])
    return gives_way


async def test_who_has_the_sockets_name_and_listens_gets_the_place(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "socket"))
        listening.listen()
        assert await asked("replaced", tmp_path / "socket", Silent())


@pytest.mark.parametrize("problem", ["", "removed"])
async def test_a_signal_without_a_successor_changes_nothing_and_is_logged(tmp_path: Path, problem: str) -> None:
    log = Silent()
    assert not await asked(problem, tmp_path / "socket", log)
    assert log.warnings == ["not_handed_over"]


async def test_work_ends_when_the_daemon_is_stopped() -> None:
    stopping = asyncio.Event()
    stopping.set()
    await asyncio.wait_for(unless(stopping, asyncio.sleep(3600)), 20)


async def test_what_work_raises_comes_through() -> None:
    async def fails() -> None:
        raise ValueError("as it was")

    with pytest.raises(ValueError, match="as it was"):
        await unless(asyncio.Event(), fails())
