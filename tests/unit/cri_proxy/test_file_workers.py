import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cri_proxy.file_workers import IDLE_SECONDS, PLAIN_THREADS, FilesFailed, FileWorkers
from tests.fakes.loops import SkippingLoop, skip
from tests.fakes.waiting import holds

MOST = 3
LONG_SECONDS = 60.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": SkippingLoop}


class Disk:
    """Hangs until it is freed; ``asked`` are those that were asked."""

    def __init__(self) -> None:
        self.freed = threading.Event()
        self.asked: list[str] = []

    def hang(self, name: str = "") -> str:
        self.asked.append(name)
        assert self.freed.wait(LONG_SECONDS)
        return name


@asynccontextmanager
async def workers() -> AsyncIterator[tuple[FileWorkers, Disk]]:
    files, disk = FileWorkers(None, most=MOST), Disk()
    try:
        yield files, disk
    finally:
        disk.freed.set()
        await holds("nothing hangs", lambda: not files.hanging(), seconds=LONG_SECONDS)
        files.close()


async def failure(files: FileWorkers, subject: str, disk: Disk) -> str:
    """Why a call about this failed, whose time has passed once it was made."""
    call = asyncio.get_running_loop().create_task(files.run(subject, disk.hang, subject, within_seconds=LONG_SECONDS))
    await holds("it is asked", lambda: call.done() or subject in disk.asked, seconds=LONG_SECONDS)
    skip(LONG_SECONDS)
    with pytest.raises(FilesFailed) as found:
        await call
    return found.value.problem


async def test_a_call_returns_what_the_function_returns_and_raises_what_it_raises() -> None:
    async with workers() as (files, _):
        assert await files.run("a", str.upper, "x", within_seconds=LONG_SECONDS) == "X"
        with pytest.raises(ValueError, match="invalid literal"):
            await files.run("a", int, "x", within_seconds=LONG_SECONDS)


async def test_what_hangs_is_asked_once_and_fails_at_once_afterwards() -> None:
    async with workers() as (files, disk):
        assert "no answer within" in await failure(files, "nfs", disk)
        assert "does not answer since an earlier call" in await failure(files, "nfs", disk)
        assert disk.asked == ["nfs"]
        assert [subject for subject, _ in files.hanging()] == ["nfs"]


async def test_calls_about_the_same_at_the_same_time_hold_one_worker() -> None:
    async with workers() as (files, disk):
        await asyncio.gather(*(failure(files, "nfs", disk) for _ in range(2 * MOST)))
        assert disk.asked == ["nfs"]


async def test_others_are_answered_while_one_hangs() -> None:
    async with workers() as (files, disk):
        await failure(files, "nfs", disk)
        found = await asyncio.gather(*(files.run(n, str.upper, n, within_seconds=LONG_SECONDS) for n in "abcdefgh"))
        assert found == list("ABCDEFGH")


async def test_when_all_workers_hang_nothing_is_asked_and_the_answer_comes_at_once() -> None:
    async with workers() as (files, disk):
        for number in range(2 * MOST):
            await failure(files, f"nfs {number}", disk)
        with pytest.raises(FilesFailed, match=f"all {MOST} workers"):
            await files.run("a", str.upper, "x", within_seconds=LONG_SECONDS)
        assert len(disk.asked) == MOST


async def test_what_answers_again_is_asked_again() -> None:
    async with workers() as (files, disk):
        await failure(files, "nfs", disk)
        disk.freed.set()
        await holds("nothing hangs", lambda: not files.hanging(), seconds=LONG_SECONDS)
        assert await files.run("nfs", disk.hang, "now", within_seconds=LONG_SECONDS) == "now"


async def test_a_caller_that_leaves_leaves_no_subject_and_no_worker_behind() -> None:
    async with workers() as (files, disk):
        calling = asyncio.get_running_loop().create_task(files.run("nfs", disk.hang, within_seconds=LONG_SECONDS))
        await holds("it is asked", lambda: bool(disk.asked), seconds=LONG_SECONDS)
        calling.cancel()
        disk.freed.set()
        assert await files.run("nfs", str.upper, "x", within_seconds=LONG_SECONDS) == "X"


async def test_a_call_without_time_is_not_made() -> None:
    async with workers() as (files, disk):
        with pytest.raises(FilesFailed, match="no time left"):
            await files.run("a", disk.hang, within_seconds=-1.0)
        assert disk.asked == []


async def test_without_workers_of_its_own_a_node_asks_on_a_thread() -> None:
    assert await PLAIN_THREADS.run("a", threading.get_ident, within_seconds=0.0) != threading.get_ident()


async def test_a_worker_that_gets_no_work_ends_after_a_while() -> None:
    async with workers() as (files, _):
        first = await files.run("a", threading.current_thread, within_seconds=LONG_SECONDS)
        assert await files.run("b", threading.current_thread, within_seconds=LONG_SECONDS) is first
        assert files._ending is not None
        assert 0 < files._ending.when() - asyncio.get_running_loop().time() <= IDLE_SECONDS
        files._end_idle()
        first.join(LONG_SECONDS)
        assert not first.is_alive()
        assert await files.run("a", threading.current_thread, within_seconds=LONG_SECONDS) is not first
