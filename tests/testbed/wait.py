"""Poll a condition until it holds or a timeout passes; finish a clean-up in spite of a cancellation."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from tests.testbed.errors import TryoutError

T = TypeVar("T")
FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.2


async def until(claim: str, check: Callable[[], Awaitable[T | None]], *, seconds: float) -> T:
    """Return the result of ``check`` as soon as it is neither None nor False; the pause between calls grows.

    Raises TryoutError with the claim after ``seconds``, and whatever ``check`` raises.
    """
    deadline = time.monotonic() + seconds
    pause = FIRST_PAUSE_SECONDS
    while True:
        found = await check()
        if found is not None and found is not False:
            return found
        if time.monotonic() >= deadline:
            raise TryoutError(claim, f"not so after {seconds:g} seconds; last seen: {found!r}")
        await asyncio.sleep(pause)
        pause = min(pause * 1.5, LONGEST_PAUSE_SECONDS)


async def finish(work: Coroutine[object, object, T]) -> T:
    """Return the result of ``work``. A cancellation is raised only when it has ended."""
    # The signal that ends a program, and so fails the caller, also cancels it: its clean-up must go on.
    task = asyncio.get_running_loop().create_task(work)
    cancelled = False
    while not task.done():
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            cancelled = True
    if cancelled:
        raise asyncio.CancelledError
    return task.result()
