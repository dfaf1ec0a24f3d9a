"""The histories of ``test_every_point`` are killed while the other tests of the stage wait for their daemons."""

import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import pytest

from tests.faults.kill import Tally
from tests.kill.planned import all_killed, step_back

LAST = "test_every_point.py"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Those that look at what became of the histories come last: until then there are some minutes to play them."""
    items.sort(key=lambda item: item.path.name == LAST)


@pytest.fixture(scope="session", autouse=True)
def histories(request: pytest.FixtureRequest) -> Iterator[Future[Mapping[int, Future[Tally]]] | None]:
    """What becomes of each history, once it is known what each comes to; None where nobody asks.

    They are played on all processors, in order, from the stage's first test on: a history takes processor time alone,
    and the other tests mostly wait.
    """
    if all(item.path.name != LAST for item in request.session.items):
        yield None
        return
    pool = ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"), initializer=step_back)
    with ThreadPoolExecutor(1) as planner:
        try:
            yield planner.submit(all_killed, pool)
        finally:
            pool.shutdown(cancel_futures=True)
