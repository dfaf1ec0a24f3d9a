"""Values: how the GPUs and NICs of a node reach each other, and the points of these links.

The points are those of go-gpuallocator; KEP-690 scores nodes with them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Final

from policies.errors import PolicyBaseError
from sysfs.cpuset import NodeSet

SELF = "X"
UNKNOWN = "-"
# The words of the legends of nvidia-smi and dcgmi, from the nearest path over PCIe to the farthest.
PCI_WORDS = ("PSB", "PIX", "PXB", "PHB", "NODE", "SYS")
# A host has 16 GPUs today and as many NICs; virtual functions are not in the matrix.
MAX_DEVICES = 256
# More than 18 is no product yet; more than 999 is a typing error.
MAX_NVLINKS = 999


@dataclass(eq=False)
class LinkError(PolicyBaseError):
    """A matrix that cannot be used: line and column (from 1; 0 = unknown), the word there, what is wrong."""

    line: int
    column: int
    token: str
    problem: str

    def __str__(self) -> str:
        place = f"line {self.line}, column {self.column}: " if self.column else f"line {self.line}: "
        return f"{place if self.line else ''}{self.sentence}"

    @property
    def sentence(self) -> str:
        """The error without its place."""
        return f"{self.token}: {self.problem}"


@dataclass(frozen=True, slots=True)
class Link:
    """The connection of two devices: NVLinks, and the path over PCIe, which ``UNKNOWN`` leaves open.

    A text has one of the two: NVLinks hide the path. Given as matrices, both are known.
    """

    nvlinks: int = 0
    pcie: str = UNKNOWN

    @property
    def word(self) -> str:
        """The word of the matrix.

        >>> Link(2, "PIX").word, Link(pcie="SYS").word
        ('NV2', 'SYS')
        """
        return f"NV{self.nvlinks}" if self.nvlinks else self.pcie


@dataclass(frozen=True, slots=True)
class MatrixGpu:
    """A GPU of a matrix; ``cpus`` is the CPU list as printed, which the tool may have cut off. Empty: not known."""

    index: int
    nodes: NodeSet = NodeSet()
    cpus: str = ""

    @property
    def name(self) -> str:
        """Its name in the matrix."""
        return f"GPU{self.index}"


@dataclass(frozen=True, slots=True)
class MatrixNic:
    """A NIC of a matrix; ``device`` is its name in the legend, empty where there is none."""

    name: str
    device: str = ""


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """The devices in the order of the matrix, and the link of each two of them by name, in both directions."""

    gpus: tuple[MatrixGpu, ...]
    nics: tuple[MatrixNic, ...]
    links: Mapping[tuple[str, str], Link]

    def link(self, one: int, other: int) -> Link:
        """Return the link of two GPUs; an unknown one where the matrix has no such GPU."""
        return self.links.get((f"GPU{one}", f"GPU{other}"), Link())

    @property
    def indices(self) -> frozenset[int]:
        """The numbers of the GPUs."""
        return frozenset(gpu.index for gpu in self.gpus)


def unlinked(matrix: LinkMatrix) -> tuple[int, ...]:
    """Return the GPUs without any NVLink, where others have it.

    >>> unlinked(matrix_of([[0, 2, 0], [2, 0, 0], [0, 0, 0]], []))
    (2,)
    """
    partners = _partners(matrix)
    return tuple(gpu for gpu, count in partners.items() if not count) if any(partners.values()) else ()


def cut_off(matrix: LinkMatrix) -> frozenset[int]:
    """Return the GPUs without any NVLink where each of the others has it to several: most likely theirs are down.

    Where cards are bridged in pairs, one beside them is no fault.

    >>> cut_off(matrix_of([[0, 2, 2, 0], [2, 0, 2, 0], [2, 2, 0, 0], [0, 0, 0, 0]], []))
    frozenset({3})
    """
    partners = _partners(matrix)
    is_mesh = min((count for count in partners.values() if count), default=0) > 1
    return frozenset(unlinked(matrix)) if is_mesh else frozenset()


def _partners(matrix: LinkMatrix) -> dict[int, int]:
    """Return to how many others each GPU has NVLinks."""
    gpus = [gpu.index for gpu in matrix.gpus]
    return {one: sum(one != other and matrix.link(one, other).nvlinks > 0 for other in gpus) for one in gpus}


def matrix_of(nvlinks: Sequence[Sequence[int]], pcie: Sequence[Sequence[str]]) -> LinkMatrix:
    """Return the matrix of GPUs that have these NVLinks and paths; of two square matrices, one may be empty.

    Raises LinkError for two directions that differ: a link has two ends.
    """
    count = max(len(nvlinks), len(pcie))
    if nvlinks and pcie and len(nvlinks) != len(pcie):
        raise LinkError(0, 0, "nvlink", f"{len(nvlinks)} rows, and pcie has {len(pcie)}; give both the same GPUs")
    if count > MAX_DEVICES:
        raise LinkError(0, 0, f"GPU{count - 1}", f"{count} devices; at most {MAX_DEVICES} are read")
    links: dict[tuple[str, str], Link] = {}
    for i, j in combinations(range(count), 2):
        there, back = (
            Link(nvlinks[a][b] if nvlinks else 0, pcie[a][b] if pcie else UNKNOWN) for a, b in ((i, j), (j, i))
        )
        if there != back:
            shown = [link.word if there.word != back.word else link.pcie for link in (there, back)]
            raise LinkError(0, 0, shown[1], f"GPU{j} to GPU{i}, and {shown[0]} back; expected the same word")
        links[f"GPU{i}", f"GPU{j}"] = links[f"GPU{j}", f"GPU{i}"] = there
    return LinkMatrix(tuple(MatrixGpu(i) for i in range(count)), (), links)


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
