"""Waiting for something to become true, with a bound: the only way that tests and the try-out wait."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cri_proxy.tryout.errors import TryoutError

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
