"""Each two GPUs of AMD's tools as a link: XGMI as its number of links and hops, PCIe as its path.

The rule for a pair, from the tables of ``rocm-smi --showtopo`` or ``amd-smi topology``:

- ``XGMI`` of one hop: as many links as its bandwidth has of the least one (maximum by minimum), one where no bandwidth
  is printed; of more hops: one link over so many.
- ``PCIE`` of up to two hops, GPU to CPU to GPU: ``NODE``; of more, over another socket: ``SYS``.
- Hops that are not printed follow from the weight: 15 for each of XGMI; 20 for each way between a GPU and its CPU.
- Another type is an unknown path.

Source: rsmi_topo_get_link_type of rocm_smi_lib, and the weights and bandwidths of kfd_crat.c of the kernel.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Final

from policies.devices.links.matrix import MAX_XGMI_HOPS, MAX_XGMI_LINKS, XGMI, Link, LinkError, LinkMatrix, MatrixGpu

AMD: Final = "amd"
SAVE_AMD: Final = "save what rocm-smi --showtopo or amd-smi topology prints to a file"
PCI_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z", re.IGNORECASE)
_PCIE: Final = "PCIE"
_UNTOLD: Final = frozenset(("N/A", "UNKNOWN", "XXXX", "NOT_SUPPORTED"))
FAILED: Final = re.compile(r"AMDSMI_STATUS_\w+ - .*?(?=AMDSMI_STATUS_|N/A|\d+-\d+|$)", re.ASCII | re.MULTILINE)
"""The word of amd-smi for a bandwidth that it could not read, without a space before the next one."""
_OF_ITSELF: Final = frozenset(("SELF", "0", "N/A"))
_NUMBER: Final = re.compile(r"\d{1,6}", re.ASCII)
_BANDWIDTH: Final = re.compile(r"(\d{1,9})-(\d{1,9})", re.ASCII)
# KFD_CRAT_XGMI_WEIGHT, and twice the weight of a GPU's way to its CPU.
_WEIGHT_OF_HOP, _WEIGHT_OF_NODE = 15, 40
_HOPS_OF_NODE: Final = 2


class AmdTable(StrEnum):
    """A table with a word for each pair."""

    TYPES = "link type"
    HOPS = "hops"
    WEIGHTS = "weight"
    BANDWIDTHS = "bandwidth"


@dataclass(frozen=True, slots=True)
class AmdCell:
    """A word of a table with its line and column, from 1; 0 = unknown."""

    text: str
    line: int = 0
    column: int = 0

    def error(self, problem: str) -> LinkError:
        """Return the error of this word."""
        return LinkError(self.line, self.column, self.text[:20] or "nothing", problem)


Pair = tuple[str, str]
Cells = Mapping[Pair, AmdCell]


@dataclass(frozen=True, slots=True)
class AmdTopology:
    """The GPUs, and the word of each table for each two of them in both directions, and of each to itself."""

    gpus: Sequence[MatrixGpu]
    tables: Mapping[AmdTable, Cells]

    def matrix(self) -> LinkMatrix:
        """Return the matrix. Raises LinkError for a word that no tool prints, and for directions that differ."""
        links = dict(self._links())
        return LinkMatrix(tuple(self.gpus), (), links, AMD)

    def _links(self) -> Iterator[tuple[Pair, Link]]:
        known: dict[Pair, Link] = {}
        for one, other in product([gpu.name for gpu in self.gpus], repeat=2):
            if one == other:
                self._check_itself(one)
                continue
            link = self._link((one, other))
            back = known.get((other, one), link)
            if back != link:
                problem = f"{one} to {other} is {link.word}, and {back.word} back; expected the same; {SAVE_AMD}"
                raise self.tables[AmdTable.TYPES][one, other].error(problem)
            known[one, other] = link
            yield (one, other), link

    def _check_itself(self, gpu: str) -> None:
        for table, cells in self.tables.items():
            cell = cells.get((gpu, gpu), AmdCell("0"))
            if cell.text not in _OF_ITSELF:
                raise cell.error(f"{table} of {gpu} to itself: expected {' or '.join(sorted(_OF_ITSELF))}; {SAVE_AMD}")

    def _link(self, pair: Pair) -> Link:
        kind = self.tables[AmdTable.TYPES][pair]
        hops, weight = (self._number(table, pair) for table in (AmdTable.HOPS, AmdTable.WEIGHTS))
        links = self._xgmi_links(pair)
        if kind.text == XGMI:
            over = min(hops or -(-weight // _WEIGHT_OF_HOP) or 1, MAX_XGMI_HOPS)
            return Link(xgmi=links) if over == 1 else Link(xgmi=1, xgmi_hops=over)
        if kind.text == _PCIE:
            is_near = hops <= _HOPS_OF_NODE if hops else 0 < weight <= _WEIGHT_OF_NODE
            return Link(pcie="NODE" if is_near else "SYS")
        if kind.text not in _UNTOLD:
            expected = f"expected {XGMI}, {_PCIE} or N/A"
            raise kind.error(f"{AmdTable.TYPES} of {pair[0]} to {pair[1]}: {expected}; {SAVE_AMD}")
        return Link()

    def _number(self, table: AmdTable, pair: Pair) -> int:
        """Return the number in a table, 0 where there is none."""
        cell = self.tables[table][pair]
        if _NUMBER.fullmatch(cell.text):
            return int(cell.text)
        if cell.text in _UNTOLD:
            return 0
        raise cell.error(f"{table} of {pair[0]} to {pair[1]}: expected a number or N/A; {SAVE_AMD}")

    def _xgmi_links(self, pair: Pair) -> int:
        """Return the number of links: the bandwidth is that of one of them to that of all."""
        if AmdTable.BANDWIDTHS not in self.tables:
            return 1
        cell = self.tables[AmdTable.BANDWIDTHS][pair]
        found = _BANDWIDTH.fullmatch(cell.text)
        if found is None and cell.text not in _UNTOLD and not FAILED.fullmatch(cell.text):
            expected = "expected least and most like 50000-200000, or N/A"
            raise cell.error(f"{AmdTable.BANDWIDTHS} of {pair[0]} to {pair[1]}: {expected}; {SAVE_AMD}")
        least, most = (int(found[1]), int(found[2])) if found else (0, 0)
        return max(1, min(most // least, MAX_XGMI_LINKS)) if least else 1
