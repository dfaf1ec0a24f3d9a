"""Every named point is killed at in at least 20 histories, and nothing is lost.

Here each point is killed at in the first histories that come to it; ``python -m tests.faults.kill --histories 40``
kills at every point of each, and ``--from 100 --histories 200`` goes on with others.
"""

import multiprocessing
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor

import pytest

from tests.faults.kill import ENOUGH, Tally
from tests.kill.planned import killed, plan, reached

SEEDS = range(1, 41)
# The first test waits for all histories to be looked through, and a history is killed at more than a hundred points.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture(scope="module")
def tallies() -> Iterator[Mapping[int, Future[Tally]]]:
    """What became of each history: they are played on all processors, in order."""
    pool = ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn"))
    try:
        points = plan(dict(zip(SEEDS, pool.map(reached, SEEDS), strict=True)), ENOUGH + 2)
        yield {seed: pool.submit(killed, seed, points[seed]) for seed in SEEDS}
    finally:
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_kill_in_this_history_loses_anything(tallies: Mapping[int, Future[Tally]], seed: int) -> None:
    assert tallies[seed].result().losses == []


def test_every_named_point_was_killed_at_in_20_histories(tallies: Mapping[int, Future[Tally]]) -> None:
    total = Tally()
    for tally in tallies.values():
        total.add(tally.result())
    assert total.too_few(ENOUGH) == ()
    assert total.kills > 2 * ENOUGH * len(tallies)
