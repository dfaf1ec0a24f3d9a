"""The unit in which tests bound time: rounds of a loop in plain Python, measured where and when it is needed."""

import time


def reference_seconds(rounds: int = 1_000_000) -> float:
    """The CPU time of so many rounds in this thread. What other processes of a busy machine do does not count."""
    total, start = 0, time.thread_time()
    for number in range(rounds):
        total += number & 255
    spent = time.thread_time() - start
    assert total
    return spent
