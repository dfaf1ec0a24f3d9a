"""Matrices of machines that the tests speak of, and the slow way to the answer: every cut, one by one."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random

from policies.devices.links import LinkMatrix, matrix_of, read_links

# The matrix of KEP-690.
KEP_690 = """\
        GPU0   GPU1   GPU2   GPU3   GPU4   GPU5   GPU6   GPU7
GPU0     X     NV1    NV1    NV2    NV2    SYS    SYS    SYS
GPU1    NV1     X     NV2    NV1    SYS    NV2    SYS    SYS
GPU2    NV1    NV2     X     NV2    SYS    SYS    NV1    SYS
GPU3    NV2    NV1    NV2     X     SYS    SYS    SYS    NV1
GPU4    NV2    SYS    SYS    SYS     X     NV1    NV1    NV2
GPU5    SYS    NV2    SYS    SYS    NV1     X     NV2    NV1
GPU6    SYS    SYS    NV1    SYS    NV1    NV2     X     NV2
GPU7    SYS    SYS    SYS    NV1    NV2    NV1    NV2     X
"""

Cut = tuple[tuple[int, ...], ...]


def kep_690() -> LinkMatrix:
    return read_links(KEP_690)


def of_nvlinks(rows: Sequence[Sequence[int]]) -> LinkMatrix:
    return matrix_of(rows, ())


def alike(count: int, links: int) -> LinkMatrix:
    """All GPUs behind one NVSwitch."""
    return of_nvlinks([[links * (i != j) for j in range(count)] for i in range(count)])


def random_points(random: Random, count: int, values: Sequence[int]) -> list[list[int]]:
    points = [[0] * count for _ in range(count)]
    for i, j in combinations(range(count), 2):
        points[i][j] = points[j][i] = random.choice(values)
    return points


def score(points: Sequence[Sequence[int]], members: Sequence[int]) -> int:
    return sum(points[i][j] for i, j in combinations(members, 2))


def every_cut(gpus: tuple[int, ...], size: int) -> Iterator[Cut]:
    """Every cut into sets of a size and one smaller remainder, in lexicographic order; a missing member comes last."""
    if not gpus:
        yield ()
        return
    first, *others = gpus
    remainder = len(gpus) % size
    sets = [(first, *chosen) for chosen in combinations(others, size - 1)] if len(gpus) >= size else []
    if remainder:
        sets += [(first, *chosen) for chosen in combinations(others, remainder - 1)]
    last = max(gpus) + 1
    for members in sorted(set(sets), key=lambda found: found + (last,) * (size - len(found))):
        for rest in every_cut(tuple(gpu for gpu in gpus if gpu not in members), size):
            yield (members, *rest)


def best_by_enumeration(
    points: Sequence[Sequence[int]], size: int, required: frozenset[int], *, from_all_cuts: bool
) -> tuple[tuple[int, ...], int, int]:
    """The members, their score and the total of the cut."""

    def eligible(cut: Cut) -> list[tuple[int, ...]]:
        return [members for members in cut if len(members) == size and required <= set(members)]

    cuts = [cut for cut in every_cut(tuple(range(len(points))), size) if eligible(cut)]
    total = max(sum(score(points, members) for members in cut) for cut in cuts)
    best = [cut for cut in cuts if sum(score(points, members) for members in cut) == total]
    sets = [members for cut in (best if from_all_cuts else best[:1]) for members in eligible(cut)]
    found = min(sets, key=lambda members: (-score(points, members), members))
    return found, score(points, found), total
