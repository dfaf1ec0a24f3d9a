"""Values: how the GPUs and NICs of a node reach each other, and the points of these links.

The points are those of go-gpuallocator; KEP-690 scores nodes with them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import combinations
from typing import Final

from policies.errors import PolicyBaseError
from sysfs.cpuset import NodeSet

SELF = "X"
XGMI = "XGMI"
UNKNOWN = "-"
# The words of the legends of nvidia-smi and dcgmi, from the nearest path over PCIe to the farthest.
PCI_WORDS = ("PSB", "PIX", "PXB", "PHB", "NODE", "SYS")
# A host has 16 GPUs today and as many NICs; virtual functions are not in the matrix.
MAX_DEVICES = 256
# More than 18 is no product yet; more than 999 is a typing error.
MAX_NVLINKS = 999
# A pair has 4 today, and the way from one GPU to another 2 hops.
MAX_XGMI_LINKS, MAX_XGMI_HOPS = 99, 9


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
    """The connection of two devices: NVLinks or XGMI, and the path over PCIe, which ``UNKNOWN`` leaves open.

    A text has one of the two: links hide the path. Given as matrices, both are known. ``xgmi`` is the number of XGMI
    links between the two, and 1 where ``xgmi_hops`` is more than 1: other GPUs are on the way.
    """

    nvlinks: int = 0
    pcie: str = UNKNOWN
    xgmi: int = 0
    xgmi_hops: int = 1

    @property
    def word(self) -> str:
        """The word of the matrix.

        >>> Link(2, "PIX").word, Link(pcie="SYS").word
        ('NV2', 'SYS')
        >>> Link(xgmi=1).word, Link(xgmi=4).word, Link(xgmi=1, xgmi_hops=2).word
        ('XGMI', 'XGMI4', 'XGMI/2')
        """
        if self.xgmi_hops > 1:
            return f"{XGMI}/{self.xgmi_hops}"
        if self.xgmi:
            return XGMI if self.xgmi == 1 else f"{XGMI}{self.xgmi}"
        return f"NV{self.nvlinks}" if self.nvlinks else self.pcie

    @property
    def is_linked(self) -> bool:
        """Whether the two have links of their vendor, beside PCIe."""
        return bool(self.nvlinks or self.xgmi)


@dataclass(frozen=True, slots=True)
class MatrixGpu:
    """A GPU of a matrix; ``cpus`` is the CPU list as printed, which the tool may have cut off. Empty: not known.

    ``address`` is its PCI address, where the tool names GPUs by it.
    """

    index: int
    nodes: NodeSet = NodeSet()
    cpus: str = ""
    address: str = ""

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
    """The devices in the order of the matrix, and the link of each two of them by name, in both directions.

    ``vendor`` is that of the GPUs, where the tool is of another one than NVIDIA.
    """

    gpus: tuple[MatrixGpu, ...]
    nics: tuple[MatrixNic, ...]
    links: Mapping[tuple[str, str], Link]
    vendor: str = ""

    def link(self, one: int, other: int) -> Link:
        """Return the link of two GPUs; an unknown one where the matrix has no such GPU."""
        return self.links.get((f"GPU{one}", f"GPU{other}"), Link())

    @property
    def indices(self) -> frozenset[int]:
        """The numbers of the GPUs."""
        return frozenset(gpu.index for gpu in self.gpus)


def renumbered(matrix: LinkMatrix, numbers: Mapping[int, int]) -> LinkMatrix:
    """Return the matrix with these numbers in place of those of its GPUs; without the GPUs that have none.

    >>> found = renumbered(matrix_of([[0, 2, 1], [2, 0, 3], [1, 3, 0]], []), {0: 5, 1: 4})
    >>> sorted(found.indices), found.link(4, 5).word
    ([4, 5], 'NV2')
    """
    gpus = sorted((replace(gpu, index=numbers[gpu.index]) for gpu in matrix.gpus if gpu.index in numbers), key=_index)
    names = {nic.name: nic.name for nic in matrix.nics}
    names |= {f"GPU{before}": f"GPU{now}" for before, now in numbers.items()}
    links = {(names[a], names[b]): link for (a, b), link in matrix.links.items() if a in names and b in names}
    return replace(matrix, gpus=tuple(gpus), links=links)


def _index(gpu: MatrixGpu) -> int:
    return gpu.index


_XGMI_WORD: Final = re.compile(rf"{XGMI}(?:([1-9]\d?)|/([2-{MAX_XGMI_HOPS}]))?", re.ASCII)


def xgmi_of(word: str) -> Link | None:
    """Return the XGMI link that a word of the matrix stands for, ``-`` for none; None for another word.

    >>> xgmi_of("XGMI4"), xgmi_of("XGMI/2") == Link(xgmi=1, xgmi_hops=2), xgmi_of("PIX")
    (Link(nvlinks=0, pcie='-', xgmi=4, xgmi_hops=1), True, None)
    """
    if word == UNKNOWN:
        return Link()
    found = _XGMI_WORD.fullmatch(word)
    return None if found is None else Link(xgmi=int(found[1] or 1), xgmi_hops=int(found[2] or 1))


def unlinked(matrix: LinkMatrix) -> tuple[int, ...]:
    """Return the GPUs without any NVLink or XGMI, where others have it.

    >>> unlinked(matrix_of([[0, 2, 0], [2, 0, 0], [0, 0, 0]], []))
    (2,)
    """
    partners = _partners(matrix)
    return tuple(gpu for gpu, count in partners.items() if not count) if any(partners.values()) else ()


def cut_off(matrix: LinkMatrix) -> frozenset[int]:
    """Return the GPUs without NVLink or XGMI where each of the others has it to several: most likely theirs are down.

    Where cards are bridged in pairs, one beside them is no fault.

    >>> cut_off(matrix_of([[0, 2, 2, 0], [2, 0, 2, 0], [2, 2, 0, 0], [0, 0, 0, 0]], []))
    frozenset({3})
    """
    partners = _partners(matrix)
    is_mesh = min((count for count in partners.values() if count), default=0) > 1
    return frozenset(unlinked(matrix)) if is_mesh else frozenset()


def _partners(matrix: LinkMatrix) -> dict[int, int]:
    """Return to how many others each GPU has NVLinks or XGMI."""
    found = {gpu.name: 0 for gpu in matrix.gpus}
    for (one, other), link in matrix.links.items():
        if link.is_linked and one in found and other in found:
            found[one] += 1
    return {gpu.index: found[gpu.name] for gpu in matrix.gpus}


def matrix_of(
    nvlinks: Sequence[Sequence[int]], pcie: Sequence[Sequence[str]], xgmi: Sequence[Sequence[Link]] = ()
) -> LinkMatrix:
    """Return the matrix of GPUs that have these NVLinks, paths and XGMI links; each is square, or empty.

    Raises LinkError for two directions that differ: a link has two ends.
    """
    given = {"nvlink": nvlinks, "pcie": pcie, "xgmi": xgmi}
    counts = {name: len(rows) for name, rows in given.items() if rows}
    count = max(counts.values(), default=0)
    if fewer := [name for name in counts if counts[name] != count]:
        most = next(name for name in counts if counts[name] == count)
        problem = f"{counts[fewer[0]]} rows, and {most} has {count}; give both the same GPUs"
        raise LinkError(0, 0, fewer[0], problem)
    if count > MAX_DEVICES:
        raise LinkError(0, 0, f"GPU{count - 1}", f"{count} devices; at most {MAX_DEVICES} are read")

    def link(one: int, other: int) -> Link:
        linked = xgmi[one][other] if xgmi else Link()
        return replace(
            linked,
            nvlinks=nvlinks[one][other] if nvlinks else 0,
            pcie=pcie[one][other] if pcie else UNKNOWN,
        )

    links: dict[tuple[str, str], Link] = {}
    for i, j in combinations(range(count), 2):
        there, back = link(i, j), link(j, i)
        if there != back:
            shown = [link.word if there.word != back.word else link.pcie for link in (there, back)]
            raise LinkError(0, 0, shown[1], f"GPU{j} to GPU{i}, and {shown[0]} back; expected the same word")
        links[f"GPU{i}", f"GPU{j}"] = links[f"GPU{j}", f"GPU{i}"] = there
    return LinkMatrix(tuple(MatrixGpu(i) for i in range(count)), (), links)


POINTS_OF_NVLINK: Final = 100
# An XGMI link of one hop is worth an NVLink; each further hop costs, and the last is still ahead of every path of PCIe.
# Source of the order: the weights of the kernel's KFD topology, 15 for each hop of XGMI, and from 40 for PCIe.
POINTS_OF_XGMI, POINTS_LOST_BY_HOP, FEWEST_OF_XGMI = 100, 10, 70
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
    """Return the points of a pair; each link counts, however many a newer generation has.

    >>> both = Link(2, "PIX")
    >>> pair_points(both), pair_points(both, LinkMode.MATRIX), pair_points(Link(pcie="SYS")), pair_points(Link())
    (250, 200, 10, 0)
    >>> [pair_points(Link(xgmi=links, xgmi_hops=hops)) for links, hops in ((4, 1), (1, 1), (1, 2), (1, 9))]
    [400, 100, 90, 70]
    """
    of_links = POINTS_OF_NVLINK * link.nvlinks
    if link.xgmi:
        lost = POINTS_LOST_BY_HOP * (link.xgmi_hops - 1)
        of_links += max(FEWEST_OF_XGMI, POINTS_OF_XGMI * link.xgmi - lost)
    if of_links and mode is LinkMode.MATRIX:
        return of_links
    return of_links + POINTS_OF_PATH.get(link.pcie, 0)


def points_between(matrix: LinkMatrix, gpus: Sequence[int], mode: LinkMode = LinkMode.SUM) -> PairPoints:
    """Return the points of each two of these GPUs, by their positions in ``gpus``."""
    return [[0 if one == other else pair_points(matrix.link(one, other), mode) for other in gpus] for one in gpus]


def set_points(points: PairPoints, members: Sequence[int]) -> int:
    """Return the score of a set: the points of all its pairs. ``members`` are positions.

    >>> set_points([[0, 200, 10], [200, 0, 100], [10, 100, 0]], (0, 1, 2))
    310
    """
    return sum(points[one][other] for i, one in enumerate(members) for other in members[:i])
