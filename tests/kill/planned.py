"""Who is killed where: each point in the first 20 histories that come to it, so none is too rare and none too dear.

A history is told by its seed alone, so it is played once without a kill to see what it comes to. Everything here runs
in a process of a pool: a kill takes processor time and nothing else.
"""

import gc
import os
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress

from tests.fakes.lone_loop import run_alone
from tests.faults.kill import ENOUGH, Tally, kill_one_history
from tests.faults.living import a_life

SEEDS = range(1, 41)
NICE = 3  # half of what others get, who have deadlines; enough beside anything that never rests


def step_back() -> None:
    """Let others go first; what is imported is not garbage, ever."""
    os.nice(NICE)
    gc.freeze()


def all_killed(pool: Executor) -> dict[int, Future[Tally]]:
    """What becomes of each history, in order. They are looked through first, which takes some seconds."""
    points = plan(dict(zip(SEEDS, pool.map(reached, SEEDS), strict=True)), ENOUGH)
    return {seed: pool.submit(killed, seed, points[seed]) for seed in SEEDS}


def reached(seed: int) -> frozenset[str]:
    life = a_life(seed)
    with suppress(Exception):
        run_alone(life.whole_life())
    return frozenset(life.reached)


def plan(reached_in: Mapping[int, frozenset[str]], enough: int) -> dict[int, tuple[str, ...]]:
    """For each history the points to kill at: so many histories for a point, the first that come to it.

    >>> plan({1: frozenset("ab"), 2: frozenset("a"), 3: frozenset("ab")}, 2)
    {1: ('a', 'b'), 2: ('a',), 3: ('b',)}
    """
    found: Counter[str] = Counter()
    chosen: dict[int, tuple[str, ...]] = {}
    for seed, points in reached_in.items():
        chosen[seed] = tuple(sorted(point for point in points if found[point] < enough))
        found.update(chosen[seed])
    return chosen


def killed(seed: int, points: tuple[str, ...]) -> Tally:
    tally = Tally()
    if points:
        kill_one_history(seed, tally, only=points)
    return tally
