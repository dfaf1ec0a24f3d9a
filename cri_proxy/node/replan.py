"""Run a computation on a thread, again if the ledger changed meanwhile; after a few tries run it on the event loop."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

# A node decides a few times a second at most and a re-plan takes milliseconds. After so many lost races it is made on
# the loop, where no decision can come in between.
RACES = 5


async def off_loop(version: Callable[[], object], prepare: Callable[[], Callable[[], T]]) -> T:
    """Run the work that ``prepare`` returns on a thread, again where ``version`` has changed meanwhile.

    No ``await`` lies between the last check and the return, so the caller may apply the result.
    """
    for _ in range(RACES):
        before = version()
        result = await asyncio.to_thread(prepare())
        if version() == before:
            return result
    return prepare()()
