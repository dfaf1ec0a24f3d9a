"""Read the matrix of links that ``nvidia-smi topo -m`` prints: GPUs, NICs, and how each reaches each."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from policies.costs.model import CostError
from policies.costs.text import is_plain_name
from sysfs.cpuset import CpuSetError, NodeSet

SELF = "X"
# A host has 16 GPUs today and as many NICs; virtual functions are not in the matrix.
MAX_DEVICES = 256
# The words of the tool's legend, from the nearest path over PCIe to the farthest; NV1 and so on are NVLinks.
PCI_WORDS = ("PIX", "PXB", "PHB", "NODE", "SYS")

_OLD_WORDS = {"SOC": "SYS"}
# Codes of terminals, also where a log or a clipboard has lost their first character.
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-Z\\^-~])|\[[0-9;]*m")
_GPU = re.compile(r"GPU\d+\Z")
_NVLINKS = re.compile(r"NV(\d{1,3})\Z")
_COLUMNS_OF_PLACE = ("CPU", "NUMA", "GPU")
_NIC_NAME = re.compile(r"\s*(NIC\d+):\s*(\S*)\s*\Z")
_NONE = ("", "N/A")
# A list of CPUs with spaces is one word.
_LIST_GAP = re.compile(r"(?<=\d),[^\S\n]+(?=\d)")
_AMD_TEXT = re.compile(r"ROCm System Management|rocm-smi|amd-smi|\bXGMI\b|^(?:ACCESS|WEIGHT|HOPS) TABLE", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """The devices in the order of the matrix, the words between each two, and the NUMA nodes of a GPU that has them.

    A NIC has its name of the legend, where there is one.
    """

    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    words: Mapping[tuple[str, str], str]
    nodes: Mapping[str, NodeSet] = field(default_factory=dict)


def nvlinks(word: str) -> int:
    """Return the number of NVLinks that a word stands for; 0 for a path over PCIe.

    >>> nvlinks("NV12"), nvlinks("PIX")
    (12, 0)
    """
    found = _NVLINKS.match(word)
    return int(found[1]) if found else 0


def read_links(text: str) -> LinkMatrix:
    """Return the matrix of a text with anything around it. Raises CostError for one that cannot be used."""
    try:
        return _matrix(text)
    except CostError:
        if found := _AMD_TEXT.search(text):
            problem = (
                "this is of AMD's tools; expected the text of nvidia-smi topo -m. The nodes of AMD's GPUs can be given"
            )
            raise CostError(text.count("\n", 0, found.start()) + 1, found[0], f"{problem} with --numa") from None
        raise


def _matrix(text: str) -> LinkMatrix:
    rows = [(number, _ESCAPE.sub("", row).replace("\r", "")) for number, row in enumerate(text.split("\n"), 1)]
    at, names = _header(rows)
    known = frozenset(names)
    found: dict[str, tuple[int, Sequence[str]]] = {}
    for number, row in rows[at:]:
        cells = _cells(row, len(names))
        if cells and cells[0] in known:
            if cells[0] in found:
                raise CostError(number, cells[0], f"it has a row on line {found[cells[0]][0]} already; keep one matrix")
            found[cells[0]] = (number, cells[1:])
    label = _labels(rows[at:])
    shown = {name: label.get(name, name) for name in names}
    if twice := [name for name in names if list(shown.values()).count(shown[name]) > 1]:
        raise CostError(0, twice[-1], f"the legend calls {twice[0]} {shown[twice[0]]}, too; correct one")
    words = {(shown[one], shown[other]): word for one, other, word in _words(names, found)}
    gpus = tuple(name for name in names if _GPU.match(name))
    nodes = {name: nodes for name in gpus if (nodes := _nodes(found[name], len(names), rows[at - 1][1]))}
    return LinkMatrix(gpus, tuple(shown[name] for name in names if name not in gpus), words, nodes)


def _header(rows: Sequence[tuple[int, str]]) -> tuple[int, Sequence[str]]:
    """Return the index below the line with the columns, and the devices on it."""
    for i, (number, row) in enumerate(rows):
        cells = row.split()
        if cells and _GPU.match(cells[0]) and SELF not in cells:
            end = next((at for at, cell in enumerate(cells) if cell in _COLUMNS_OF_PLACE), len(cells))
            names = cells[:end]
            if end > MAX_DEVICES:
                raise CostError(number, names[-1][:20], f"{end} devices; at most {MAX_DEVICES} are read")
            if len(set(names)) < end:
                raise CostError(number, row.split()[0], "a device stands twice in the columns; keep one matrix")
            return i + 1, names
    raise CostError(0, "GPU0", "no such column; expected the text that nvidia-smi topo -m prints")


def _cells(row: str, devices: int) -> Sequence[str]:
    """Return the cells of a row, empty ones too where the tool's tabs are left; a text from a terminal has spaces."""
    cells = [cell.strip() for cell in row.split("\t", MAX_DEVICES + 4)]
    if len(cells) > devices and not any(" " in cell for cell in cells[: devices + 1]):
        return cells
    return _LIST_GAP.sub(",", row).split(maxsplit=MAX_DEVICES + 4)


def _words(names: Sequence[str], found: Mapping[str, tuple[int, Sequence[str]]]) -> Iterator[tuple[str, str, str]]:
    known: dict[tuple[str, str], str] = {}
    for one in names:
        if one not in found:
            raise CostError(0, one, "the matrix has a column and no row of this name; save the whole text")
        number, cells = found[one]
        if len(cells) < len(names):
            raise CostError(number, one, f"{len(cells)} words, expected one for each of {len(names)} columns")
        for other, cell in zip(names, cells, strict=False):
            word = _OLD_WORDS.get(cell, cell)
            if (word == SELF) != (one == other) or (word != SELF and word not in PCI_WORDS and not nvlinks(word)):
                expected = SELF if one == other else f"one of {', '.join(PCI_WORDS)}, or NV and a number"
                raise CostError(number, cell[:20], f"{one} to {other}: expected {expected}")
            if known.get((other, one), word) != word:
                raise CostError(number, cell, f"{one} to {other}, and {known[other, one]} back; expected the same word")
            known[one, other] = word
            if one != other:
                yield one, other, word


def _nodes(row: tuple[int, Sequence[str]], devices: int, header: str) -> NodeSet:
    """Return the nodes of the NUMA Affinity column; none where the text has none."""
    columns = [name for name in ("CPU Affinity", "NUMA Affinity") if name in " ".join(header.split())]
    number, cells = row
    place = cells[devices:]
    if "NUMA Affinity" not in columns or len(place) < len(columns) or place[len(columns) - 1] in _NONE:
        return NodeSet()
    text = place[len(columns) - 1]
    try:
        return NodeSet.parse(text)
    except CpuSetError:
        raise CostError(number, text[:20], "expected NUMA nodes like 0 or 0-1, or N/A") from None


def _labels(rows: Sequence[tuple[int, str]]) -> dict[str, str]:
    """Return the names of the NIC legend. Raises CostError for one that cannot be an instance's name."""
    labels: dict[str, str] = {}
    for i, (number, row) in enumerate(rows):
        found = _NIC_NAME.match(row)
        if found is None:
            continue
        # A narrow terminal breaks the line before a long name.
        name = found[2] or (rows[i + 1][1].strip() if i + 1 < len(rows) else "")
        if not is_plain_name(name):
            raise CostError(number, found[1], f"expected its name in the legend, got {name[:40]!r}; correct the legend")
        labels[found[1]] = name
    return labels
