"""Threads that take no time."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class AtOnce(ThreadPoolExecutor):
    """A loop's default executor that does in the loop's own thread, at once, what ``asyncio.to_thread`` hands over.

    So the loop hears of it after a few turns, whatever else the machine does. For work that waits for nobody.
    """

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever awaits
            future.set_exception(error)
        return future
