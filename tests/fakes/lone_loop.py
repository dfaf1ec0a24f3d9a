"""A loop without threads or a clock: a history is told by its seed alone, also where the daemon works beside its loop.

Its time is the number of its turns. A machine that stands still for seconds lets no bound of the daemon pass.
"""

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from functools import partial
from itertools import cycle
from selectors import SelectorKey, SelectSelector
from typing import TypeVar

T = TypeVar("T")
TURN_SECONDS = 0.0001
# For how many turns of the loop the others go on before what a thread would have found is there.
TURNS = (1, 4, 2, 9)


class _Turns(SelectSelector):
    """Counts the turns of a loop, which asks it once in each. Where nobody has anything to do it does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        self.seconds += max(TURN_SECONDS, timeout or 0.0)
        return super().select(None if timeout is None else 0)


class LoneLoop(asyncio.SelectorEventLoop):
    """What would run in a thread runs at once, and its result comes some turns later: the same ones each time."""

    def __init__(self) -> None:
        self._passed = _Turns()
        super().__init__(self._passed)
        self._turns = cycle(TURNS)

    def time(self) -> float:
        return self._passed.seconds

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: object) -> asyncio.Future[T]:
        found: asyncio.Future[T] = self.create_future()
        try:
            deliver = partial(found.set_result, func(*args))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is the caller's
            deliver = partial(found.set_exception, error)
        self.call_soon(self._later, found, deliver, next(self._turns))
        return found

    def _later(self, found: asyncio.Future[T], deliver: Callable[[], None], turns: int) -> None:
        if turns > 1:
            self.call_soon(self._later, found, deliver, turns - 1)
        elif not found.done():  # who waited has left
            deliver()


def run_alone(work: Coroutine[object, object, T]) -> T:
    """``asyncio.run`` on such a loop."""
    with asyncio.Runner(loop_factory=LoneLoop) as runner:
        return runner.run(work)
