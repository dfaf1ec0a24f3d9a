"""Every named point is killed at in at least 20 histories, and nothing is lost.

``python -m tests.faults.kill --from 100 --histories 200`` goes on with other seeds.
"""

import pytest

from tests.faults.kill import ENOUGH, Tally, kill_one_history

TALLY = Tally()


@pytest.mark.parametrize("seed", range(1, 41))
def test_no_kill_in_this_history_loses_anything(seed: int) -> None:
    known = len(TALLY.losses)
    kill_one_history(seed, TALLY)
    assert TALLY.losses[known:] == []


def test_every_named_point_was_killed_at_in_20_histories() -> None:
    """Of those above, so it means something only when they have run."""
    assert TALLY.too_few(ENOUGH) == ()
