from random import Random

import pytest

from policies.links.partition import best_set
from policies.links.swap import swapped_set
from tests.unit.policies.links.machines import random_points, score


@pytest.mark.parametrize("seed", range(20))
def test_a_set_is_full_and_has_what_is_required(seed: int) -> None:
    random = Random(seed)
    count, size = random.randint(2, 24), 1
    size = random.randint(1, count)
    required = frozenset(random.sample(range(count), random.randint(0, size)))
    points = random_points(random, count, (10, 20, 50, 100, 200))
    found = swapped_set(points, size, required)
    assert len(set(found.members)) == size
    assert required <= set(found.members)
    assert found.score == score(points, found.members)
    assert found.members == tuple(sorted(found.members))
    if count <= 12:
        assert found.total <= best_set(points, size, required).total


def test_swaps_mend_what_the_greedy_walk_gets_wrong() -> None:
    """The walk gives 0 its best partner, and 2 and 3 are left with nothing."""
    points = [[0, 8, 7, 0], [8, 0, 0, 7], [7, 0, 0, 0], [0, 7, 0, 0]]
    assert swapped_set(points, 2).total == 14


def test_switches_of_four_are_found() -> None:
    points = [[0 if i == j else 50 if i // 4 == j // 4 else 10 for j in range(64)] for i in range(64)]
    found = swapped_set(points, 4)
    assert (found.members, found.total) == ((0, 1, 2, 3), 16 * 300)
