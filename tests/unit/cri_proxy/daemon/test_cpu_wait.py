import time

import pytest

from cri_proxy.daemon.cpu_wait import is_starved, waited_seconds


@pytest.mark.parametrize(
    ("waited", "of_seconds", "expected"),
    [(0.0, 1.0, False), (0.4, 1.0, False), (0.5, 1.0, True), (3.0, 1.0, True), (0.0, 0.0, False)],
)
def test_a_thread_is_starved_if_it_waited_for_most_of_the_time(
    waited: float, of_seconds: float, expected: bool
) -> None:
    assert is_starved(waited, of_seconds) is expected


def test_waiting_is_no_more_than_the_time_that_goes_by_and_never_less_than_before() -> None:
    began, before = time.monotonic(), waited_seconds()
    sum(range(100_000))
    waited = waited_seconds() - before
    assert 0 <= waited <= time.monotonic() - began
