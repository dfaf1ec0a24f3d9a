"""Waiting for something to become true, with a bound, and for cleaning up to end: the only ways that we wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import TypeVar

from cri_proxy.cri_client.errors import TryoutError

T = TypeVar("T")
FIRST_PAUSE_SECONDS = 0.01
LONGEST_PAUSE_SECONDS = 0.2


async def until(claim: str, check: Callable[[], Awaitable[T | None]], *, seconds: float) -> T:
    """What ``check`` gives as soon as it is neither None nor False; asked ever more slowly.

    Raises TryoutError naming the claim after ``seconds``. What ``check`` raises goes through: it decides itself
    which failures mean "not yet".
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
    """What ``work`` gives, which goes on although we are cancelled; the cancellation is raised when it has ended.

    For cleaning up: a program that fails because of the very signal that cancels us would otherwise have its
    clean-up cancelled at the first await.
    """
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
