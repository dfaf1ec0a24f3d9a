"""Waiting for a condition that needs no call to be looked at."""

import time
from collections.abc import Callable

from tests.testbed.wait import until


async def holds(claim: str, condition: Callable[[], bool], *, seconds: float = 20) -> None:
    """Wait until the condition holds. Raises TryoutError naming the claim after ``seconds``."""

    async def check() -> bool:
        return condition()

    await until(claim, check, seconds=seconds)


def busy_for(seconds: float) -> None:
    """Take this much time, as work that keeps the event loop does."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        pass
