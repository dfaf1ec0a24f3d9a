"""What the node does on threads, done at once: there is nobody to keep waiting, and every run is to be the same."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class InlineExecutor(ThreadPoolExecutor):
    """Set it as the event loop's default executor: ``asyncio.to_thread`` runs on the loop then. It has no threads."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run it now. What it raises goes to the caller at once, who waits for nothing else."""
        future: Future[T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future
