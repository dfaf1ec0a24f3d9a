"""The daemon is killed at each of its named points, and the next one goes on as if nothing had been.

What goes in: seeds, each of which tells a machine, a history, and at which occurrence of each point the kill falls.
What is durable, what the runtime has and was sent survives; nothing is mocked. ``tests/kill`` kills in 20 histories at
each point; ``python -m tests.faults.kill`` in as many as you like.
"""

import pytest

from tests.faults.kill import OneOfEach, Tally, kill_one_history
from tests.faults.living import Living, a_life
from tests.faults.points import POINTS

SEEDS = (6,)
SAMPLE = POINTS[::5]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_kill_loses_anything(seed: int) -> None:
    tally = Tally()
    kill_one_history(seed, tally, only=SAMPLE)
    assert tally.losses == []
    assert len(tally.histories) > len(SAMPLE) // 2


def test_a_point_is_chosen_once_a_history() -> None:
    life: Living = a_life(1)
    chosen = OneOfEach(life, 1)
    assert chosen.wants("save reserved: asked")
    assert sum(chosen.wants("save reserved: asked") for _ in range(50)) < 50


def test_every_named_point_has_its_own_name() -> None:
    assert len(set(POINTS)) == len(POINTS)
