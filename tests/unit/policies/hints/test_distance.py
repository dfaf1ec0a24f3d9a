import random
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations
from operator import ne

from policies.hints.distance import MAX_CLOSEST_STEPS, ClosestSearch
from policies.hints.model import Amount
from policies.hints.search import distance_within, reaches

ALL = 0b1111
# Nodes 0 and 2 are near each other, as are 1 and 3.
DISTANCES = ((10, 30, 12, 30), (30, 10, 30, 12), (12, 30, 10, 30), (30, 12, 30, 10))


def closest(known: int, accept: Callable[[int], bool] = lambda mask: True, required: int = 0) -> int:
    return ClosestSearch(DISTANCES, ALL, required).best(known, accept)


def test_the_closest_set_is_that_of_the_least_distance() -> None:
    assert closest(0b0011) == 0b0101
    assert closest(0b0011, lambda mask: mask != 0b0101) == 0b1010
    assert closest(0b0011, required=0b0010) == 0b1010
    assert ClosestSearch(DISTANCES, ALL).best(0b1001, lambda mask: True, (Amount((0, 0, 0, 1), 1),)) == 0b1010


def random_distances(rng: random.Random, nodes: int) -> Sequence[Sequence[int]]:
    return [[10 if a == b else rng.randint(11, 20) for b in range(nodes)] for a in range(nodes)]


def test_the_closest_set_is_that_of_trying_all() -> None:
    """Few nodes are picked, or few left out; some are required, some sets will not do, some lack an amount."""
    rng = random.Random(3)
    for _ in range(200):
        nodes = rng.randint(2, 8)
        distances, size = random_distances(rng, nodes), rng.randint(1, nodes)
        required = 1 << rng.randrange(nodes) if rng.random() < 0.3 else 0
        amount = Amount(tuple(rng.randint(0, 3) for _ in range(nodes)), rng.randint(0, size))
        bad = rng.randrange(1 << nodes)
        sets = (sum(1 << node for node in chosen) for chosen in combinations(range(nodes), size))
        fitting = [mask for mask in sets if mask & required == required and reaches(amount, mask) and mask != bad]
        if fitting:
            best = min(fitting, key=lambda mask: (distance_within(mask, distances), mask))
            search = ClosestSearch(distances, (1 << nodes) - 1, required)
            for most in (MAX_CLOSEST_STEPS, 1):
                found = search.best(min(fitting), partial(ne, bad), (amount,), most)
                assert found == best if most > 1 else found in fitting


def test_three_of_64_nodes_with_random_distances_are_the_closest() -> None:
    rng = random.Random(5)
    for _ in range(3):
        distances = random_distances(rng, 64)
        sets = (1 << a | 1 << b | 1 << c for a, b, c in combinations(range(64), 3))
        best = min((distance_within(mask, distances), mask) for mask in sets)
        assert ClosestSearch(distances, (1 << 64) - 1).best(0b111, lambda mask: True) == best[1]


def test_a_search_that_takes_too_long_ends_with_the_best_until_then() -> None:
    assert ClosestSearch(DISTANCES, ALL).best(0b1001, lambda mask: True, most=3) == 0b1001
