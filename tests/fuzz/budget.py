"""What an input may cost its parser: time in rounds of a reference loop, and memory, both by the input's length."""

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.fakes.reference import reference_seconds

CALIBRATION_ROUNDS = 10_000
MOST_CALIBRATION_ROUNDS = 4_000_000
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class Budget:
    """A constant part and one by the byte. A round is some 20 to 50 ns: 200 of them are a few microseconds.

    Several times what sound and mangled inputs take, and far below what a square of the length comes to.
    """

    rounds: int = 50_000
    rounds_a_byte: int = 200
    memory_bytes: int = 128 << 10
    memory_a_byte: int = 64

    def rounds_for(self, data: bytes) -> int:
        return self.rounds + self.rounds_a_byte * len(data)

    def memory_for(self, data: bytes) -> int:
        return self.memory_bytes + self.memory_a_byte * len(data)


def rounds_of(run: Callable[[bytes], None], data: bytes, *, enough: float = 0.0, attempts: int = ATTEMPTS) -> float:
    """What this input takes, in rounds of a reference loop that is measured right before.

    The least of some attempts, since a busy machine only adds; no further one once it is below ``enough``. The loop of
    a further one is as long as the run was: what slows the run down for a while shows in that loop as well.
    """
    least, rounds = float("inf"), CALIBRATION_ROUNDS
    for _ in range(attempts):
        with _collector_paused():
            a_round = reference_seconds(rounds) / rounds
            start = time.thread_time()
            run(data)
            found = (time.thread_time() - start) / a_round
        least = min(least, found)
        if least < enough:
            break
        rounds = min(max(CALIBRATION_ROUNDS, int(found)), MOST_CALIBRATION_ROUNDS)
    return least


@contextmanager
def _collector_paused() -> Iterator[None]:
    """Keep the collector away: it would also look at all that other tests have left in this process."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def memory_of(run: Callable[[bytes], object], data: bytes, *, enough: int = 0) -> int:
    """The most bytes that Python allocates for this input, without what is loaded at the first use of a way through.

    The least of some attempts, since all threads count: that of pytest's worker, which gets its tests meanwhile, only
    adds. No further one once it is below ``enough``.
    """
    run(data)
    least = _peak(run, data)
    for _ in range(ATTEMPTS - 1):
        if least < enough:
            break
        least = min(least, _peak(run, data))
    return least


def _peak(run: Callable[[bytes], object], data: bytes) -> int:
    tracemalloc.start()
    try:
        run(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
