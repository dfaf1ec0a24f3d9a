"""Every named point is killed at in at least 20 histories, and nothing is lost.

Here each point is killed at in the first 20 histories that come to it; ``python -m tests.faults.kill --histories 40``
kills at every point of each, and ``--from 100 --histories 200`` goes on with others.
"""

from collections.abc import Mapping
from concurrent.futures import Future

import pytest

from tests.faults.kill import ENOUGH, Tally
from tests.kill.planned import SEEDS

# The first test may have to wait for all that was begun with the stage.
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def tallies(histories: Future[Mapping[int, Future[Tally]]]) -> Mapping[int, Future[Tally]]:
    return histories.result()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_kill_in_this_history_loses_anything(tallies: Mapping[int, Future[Tally]], seed: int) -> None:
    assert tallies[seed].result().losses == []


def test_every_named_point_was_killed_at_in_20_histories(tallies: Mapping[int, Future[Tally]]) -> None:
    total = Tally()
    for tally in tallies.values():
        total.add(tally.result())
    print(f"{total.kills} kills")
    assert total.too_few(ENOUGH) == ()
    assert total.kills > 2 * ENOUGH * len(tallies)
