"""Work on many items in processes of their own, as many as there are CPUs to run on."""

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

MOST_PROCESSES: Final = 8


def in_processes(work: Callable[[T], R], items: Sequence[T]) -> Iterator[R]:
    """Yield what ``work`` makes of each item, in their order; function, items and results are sent as pickles."""
    processes = min(len(items), len(os.sched_getaffinity(0)), MOST_PROCESSES)
    if processes <= 1:
        yield from map(work, items)
        return
    # Forked: the modules are there already, and no thread runs.
    with ProcessPoolExecutor(processes, mp_context=multiprocessing.get_context("fork")) as pool:
        yield from pool.map(work, items)
