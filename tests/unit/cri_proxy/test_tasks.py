import asyncio
import gc
import os
import signal
import socket
import threading
import weakref
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.tasks import Tasks, each_of, hear_signals, readable, stop_event


async def wait_for(event: asyncio.Event, seen: list[str]) -> None:
    await event.wait()
    seen.append("done")


async def fail() -> None:
    raise LookupError("broken")


async def wait_for_nobody() -> None:
    """Waits on what only this task knows: nothing but Tasks keeps the two from the garbage collector."""
    await asyncio.get_running_loop().create_future()


async def test_a_task_lives_although_nobody_else_holds_it() -> None:
    tasks = Tasks()
    task = weakref.ref(tasks.start(wait_for_nobody()))
    await asyncio.sleep(0)
    gc.collect()
    is_alive = task() is not None
    await tasks.cancel()
    assert is_alive


async def test_an_escaped_exception_goes_to_whom_it_concerns() -> None:
    heard: list[BaseException] = []
    tasks = Tasks(heard.append)
    tasks.start(fail())
    await tasks.join()
    assert [str(e) for e in heard] == ["broken"]


async def test_without_anybody_concerned_the_loop_hears_of_it() -> None:
    heard: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["message"]))
    tasks = Tasks()
    tasks.start(fail(), name="chore")
    await tasks.join()
    assert heard == ["task chore failed"]


async def test_joining_waits_for_tasks_that_tasks_start() -> None:
    seen: list[str] = []
    tasks, go = Tasks(), asyncio.Event()

    async def first() -> None:
        tasks.start(wait_for(go, seen))
        go.set()

    tasks.start(first())
    await tasks.join()
    assert seen == ["done"]


async def test_cancelling_leaves_none_and_is_no_error() -> None:
    heard: list[BaseException] = []
    tasks = Tasks(heard.append)
    tasks.start(wait_for(asyncio.Event(), []))
    await tasks.cancel()
    assert len(tasks) == 0
    assert heard == []


@pytest.mark.parametrize("started", [0, 1, 3])
async def test_the_length_is_the_number_of_running_tasks(started: int) -> None:
    tasks = Tasks()
    for _ in range(started):
        tasks.start(wait_for(asyncio.Event(), []))
    count = len(tasks)
    await tasks.cancel()
    assert count == started


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_stop_sets_the_event(number: signal.Signals) -> None:
    stopping = stop_event()
    os.kill(os.getpid(), number)
    async with asyncio.timeout(20):
        await stopping.wait()
    for each in (signal.SIGTERM, signal.SIGINT):
        assert asyncio.get_running_loop().remove_signal_handler(each)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Has the handlers of these signals again after the test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGUSR1, signal.SIGUSR2)}
    yield
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
async def test_each_signal_has_its_act_on_the_loop_also_while_that_sleeps() -> None:
    seen: asyncio.Queue[str] = asyncio.Queue()
    hear_signals({number: partial(seen.put_nowait, number.name) for number in (signal.SIGUSR1, signal.SIGUSR2)})
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR2)).start()
    async with asyncio.timeout(20):
        assert await seen.get() == "SIGUSR2"
        signal.raise_signal(signal.SIGUSR1)
        assert await seen.get() == "SIGUSR1"


@given(st.lists(st.integers(0, 3), max_size=20), st.integers(1, 5))
def test_each_is_done_once_so_many_at_a_time_and_the_results_keep_their_order(turns: list[int], at_once: int) -> None:
    """Each item is the number of turns of the loop that it takes."""
    running, most = 0, 0

    async def act(item: tuple[int, int]) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        for _ in range(item[1]):
            await asyncio.sleep(0)
        running -= 1
        return item[0]

    found = asyncio.run(each_of(list(enumerate(turns)), act, at_once=at_once))
    assert found == list(range(len(turns)))
    assert (running, most <= at_once) == (0, True)
    assert most == min(at_once, len(turns)) or 0 in turns


async def test_the_error_of_one_is_raised_once_the_others_have_ended() -> None:
    ended: list[int] = []

    async def act(item: int) -> None:
        if item == 0:
            await fail()
        await asyncio.sleep(0)
        ended.append(item)

    with pytest.raises(LookupError, match="broken"):
        await each_of(range(5), act, at_once=2)
    assert ended == [1, 2, 3, 4]


async def test_being_cancelled_cancels_those_under_way() -> None:
    ended: list[int] = []

    async def act(item: int) -> None:
        try:
            await wait_for_nobody()
        finally:
            ended.append(item)

    waiting = asyncio.get_running_loop().create_task(each_of(range(5), act, at_once=2))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert ended == [0, 1]


async def test_a_descriptor_is_readable_once_its_other_end_is_closed() -> None:
    ours, theirs = socket.socketpair()
    waiting = asyncio.get_running_loop().create_task(readable(ours))
    await asyncio.sleep(0)
    assert not waiting.done()
    theirs.close()
    await asyncio.wait_for(waiting, 20)
    ours.close()
