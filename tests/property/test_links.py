"""GPU links: the exact search against every cut of small machines, and what another order of the GPUs may change."""

from itertools import product
from random import Random

import pytest

from policies.devices.links import (
    ChosenSet,
    GpuRequest,
    LinkMatrix,
    LinkMode,
    LinkOptions,
    LinkPolicy,
    allocate,
    best_set,
    matrix_of,
)
from tests.unit.policies.devices.links.machines import best_by_enumeration, random_points, score

CASES = 150
MOST_GPUS = 8
# A few values make ties and GPUs that can stand for each other; many make none.
VALUES = ((0, 1), (10, 100), (10, 20, 50, 100, 200), tuple(range(1000)))


def random_points_with_alike(random: Random) -> list[list[int]]:
    """Points of up to eight GPUs, of which some have the same to all others."""
    count = random.randint(1, MOST_GPUS)
    groups = [random.randrange(random.randint(1, count)) for _ in range(count)]
    between = random_points(random, count, random.choice(VALUES))
    inside = [random.choice(random.choice(VALUES)) for _ in range(count)]
    return [
        [0 if i == j else inside[a] if a == b else between[a][b] for j, b in enumerate(groups)]
        for i, a in enumerate(groups)
    ]


@pytest.mark.parametrize(("seed", "from_all_cuts"), list(product(range(6), (False, True))))
def test_the_search_finds_what_enumeration_finds(seed: int, from_all_cuts: bool) -> None:
    random = Random(seed)
    for _ in range(CASES):
        alike = random_points_with_alike(random)
        plain = random_points(random, random.randint(1, MOST_GPUS), random.choice(VALUES))
        for points in (alike, plain):
            size = random.randint(1, len(points))
            required = frozenset(random.sample(range(len(points)), random.choice((0, 0, random.randint(0, size)))))
            found = best_set(points, size, required, from_all_cuts=from_all_cuts)
            expected = best_by_enumeration(points, size, required, from_all_cuts=from_all_cuts)
            assert found == ChosenSet(*expected), (points, size, required)


def random_matrix(random: Random) -> LinkMatrix:
    count = random.randint(1, 10)
    nvlinks = [[0] * count for _ in range(count)]
    paths = [["X"] * count for _ in range(count)]
    for i, j in product(range(count), repeat=2):
        if i < j:
            nvlinks[i][j] = nvlinks[j][i] = random.choice((0, 0, 1, 2, 18))
            paths[i][j] = paths[j][i] = random.choice(("SYS", "NODE", "PHB", "PXB", "PIX", "-"))
    return matrix_of(nvlinks, paths)


def reordered(matrix: LinkMatrix, new: list[int]) -> LinkMatrix:
    """The same machine with GPU i as GPU new[i]."""
    old = {number: i for i, number in enumerate(new)}
    links = [[matrix.link(old[a], old[b]) for b in range(len(new))] for a in range(len(new))]
    return matrix_of(
        [[link.nvlinks for link in row] for row in links],
        [["X" if a == b else link.pcie for b, link in enumerate(row)] for a, row in enumerate(links)],
    )


@pytest.mark.parametrize("seed", range(4))
def test_another_order_of_the_gpus_changes_only_their_names(seed: int) -> None:
    """The total of every cut; with the best set of all cuts, its score too."""
    random = Random(seed)
    for _ in range(CASES):
        matrix = random_matrix(random)
        count = len(matrix.gpus)
        new = random.sample(range(count), count)
        size, mode = random.randint(1, count), random.choice(list(LinkMode))
        free = frozenset(random.sample(range(count), random.randint(size, count)))
        required = frozenset(random.sample(sorted(free), random.randint(0, size)))
        for from_all_cuts in (False, True):
            options = LinkOptions(mode=mode, from_all_cuts=from_all_cuts)
            one = allocate(matrix, GpuRequest(size, free, required), options)
            renamed = GpuRequest(size, frozenset(new[i] for i in free), frozenset(new[i] for i in required))
            other = allocate(reordered(matrix, new), renamed, options)
            assert one.total == other.total
            if from_all_cuts:
                assert one.score == other.score


@pytest.mark.parametrize("policy", LinkPolicy)
def test_every_answer_keeps_to_the_request(policy: LinkPolicy) -> None:
    random = Random(str(policy))
    for _ in range(CASES):
        matrix = random_matrix(random)
        indices = sorted(matrix.indices)
        free = frozenset(random.sample(indices, random.randint(0, len(indices))))
        required = frozenset(random.sample(indices, random.choice((0, 0, 1, min(2, len(indices))))))
        size = random.randint(-1, len(indices) + 1)
        options = LinkOptions(policy, spares_links=random.choice((False, True)))
        found = allocate(matrix, GpuRequest(size, free, required), options)
        assert bool(found.devices) != bool(found.rejected)
        if found.devices:
            assert len(set(found.devices)) == len(found.devices) == size
            assert required <= set(found.devices) <= free
            assert found.devices == tuple(sorted(found.devices))
            points = [[matrix.link(i, j).nvlinks * 100 for j in indices] for i in indices]
            assert found.score >= score(points, found.devices)
        elif policy in (LinkPolicy.BEST_EFFORT, LinkPolicy.SIMPLE):
            assert size < 1 or size > len(free) or not required <= free or len(required) > size
