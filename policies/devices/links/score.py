"""Points for the links of a pair of GPUs, as in go-gpuallocator; KEP-690 scores nodes with them."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final

from policies.devices.links.matrix import Link, LinkMatrix

POINTS_OF_NVLINK: Final = 100
# From the farthest path to the nearest: across sockets, host bridges of a node, one host bridge, several PCIe switches,
# one switch, one board. Source: calculateGPUPairScore of go-gpuallocator, and the table that KEP-690 points to.
POINTS_OF_PATH: Final[Mapping[str, int]] = {"SYS": 10, "NODE": 20, "PHB": 30, "PXB": 40, "PIX": 50, "PSB": 60}
# What a pair with 18 NVLinks has, to which KEP-690 relates the score of a node.
BEST_PAIR_POINTS: Final = 1800

# Points of each pair, by position in both directions; the diagonal is 0.
PairPoints = Sequence[Sequence[int]]


class LinkMode(StrEnum):
    """How the links of a pair count: both kinds together, or only the word of the printed matrix."""

    SUM = "sum"
    MATRIX = "matrix"


def pair_points(link: Link, mode: LinkMode = LinkMode.SUM) -> int:
    """Return the points of a pair; each NVLink counts, however many a newer generation has.

    >>> both = Link(2, "PIX")
    >>> pair_points(both), pair_points(both, LinkMode.MATRIX), pair_points(Link(pcie="SYS")), pair_points(Link())
    (250, 200, 10, 0)
    """
    of_nvlinks = POINTS_OF_NVLINK * link.nvlinks
    if of_nvlinks and mode is LinkMode.MATRIX:
        return of_nvlinks
    return of_nvlinks + POINTS_OF_PATH.get(link.pcie, 0)


def points_between(matrix: LinkMatrix, gpus: Sequence[int], mode: LinkMode = LinkMode.SUM) -> PairPoints:
    """Return the points of each two of these GPUs, by their positions in ``gpus``."""
    return [[0 if one == other else pair_points(matrix.link(one, other), mode) for other in gpus] for one in gpus]


def set_points(points: PairPoints, members: Sequence[int]) -> int:
    """Return the score of a set: the points of all its pairs. ``members`` are positions.

    >>> set_points([[0, 200, 10], [200, 0, 100], [10, 100, 0]], (0, 1, 2))
    310
    """
    return sum(points[one][other] for i, one in enumerate(members) for other in members[:i])
