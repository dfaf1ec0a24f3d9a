"""Keep background asyncio tasks until they end, report their errors, join or cancel them all; hear signals to stop.

Or do something with each of many items, a few at the same time.
"""

import asyncio
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def stop_event() -> asyncio.Event:
    """Return an event of the running loop that SIGTERM and SIGINT set from now on."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    return stopping


def hear_signals(acts: Mapping[int, Callable[[], None]]) -> None:
    """Call these on the running loop when their signals arrive, from now until the process ends.

    As the loop's ``add_signal_handler``, beside which it must not be used: that loads a megabyte to see whether these
    are coroutine functions.
    """
    # set_wakeup_fd takes no descriptor that may block.
    arrived, numbers = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def read() -> None:
        for number in os.read(arrived, 1024):
            if number in acts:
                acts[number]()

    asyncio.get_running_loop().add_reader(arrived, read)
    signal.set_wakeup_fd(numbers, warn_on_full_buffer=False)
    for number in acts:
        signal.signal(number, lambda number, frame: None)  # without one, the interpreter would send no number
        signal.siginterrupt(number, False)  # signal.signal has set it: system calls would end with EINTR


async def each_of(items: Sequence[T], act: Callable[[T], Awaitable[R]], *, at_once: int) -> list[R]:
    """Return the results of ``act`` for all items, in their order; so many are under way at the same time.

    Raises the first error, after all calls have ended; being cancelled cancels those under way.
    """
    results: dict[int, R] = {}
    left = iter(enumerate(items))

    async def work() -> None:
        for number, item in left:
            results[number] = await act(item)

    # A task for each item, and what it is about, is 10 KB: for all containers of a node megabytes, which stay.
    ended = await asyncio.gather(*(work() for _ in range(min(at_once, len(items)))), return_exceptions=True)
    for error in filter(None, ended):
        raise error
    return [results[number] for number in range(len(items))]


async def readable(file: int | socket.socket) -> None:
    """Wait until this descriptor can be read, as one is whose other end, or whose process, has ended."""
    can_be_read, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_reader(file, can_be_read.set)
    try:
        await can_be_read.wait()
    finally:
        loop.remove_reader(file)


class Tasks:
    """A set of running tasks. An exception that escapes one goes to ``on_error``, without it to the loop's handler."""

    def __init__(self, on_error: Callable[[BaseException], None] | None = None) -> None:
        self._running: set[asyncio.Task[None]] = set()
        self._on_error = on_error

    def __len__(self) -> int:
        return len(self._running)

    def start(self, work: Coroutine[object, object, None], *, name: str = "") -> asyncio.Task[None]:
        """Run this coroutine in the background."""
        task = asyncio.get_running_loop().create_task(work, name=name or None)
        self._running.add(task)  # the event loop itself holds tasks by weak references only
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._on_error is not None:
            self._on_error(error)
        else:
            task.get_loop().call_exception_handler({"message": f"task {task.get_name()} failed", "exception": error})

    async def join(self) -> None:
        """Wait until none is running, those started meanwhile included."""
        while self._running:
            await asyncio.wait(self._running)

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        for task in tuple(self._running):
            task.cancel()
        await self.join()
