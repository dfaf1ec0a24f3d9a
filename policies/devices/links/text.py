r"""Read the matrix that ``nvidia-smi topo -m`` prints, in every form it has had; AMD's tables are read elsewhere.

Columns are apart by tabs or spaces; escape codes, ``\r`` and any text around the matrix are passed over. Behind the
devices may stand CPU Affinity, NUMA Affinity and GPU NUMA ID. NICs are named in the columns (old) or in a legend. A MIG
device has no row of its own: the matrix has whole GPUs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from policies.devices.links.amd import SAVE_AMD
from policies.devices.links.amd_json import read_amd_json
from policies.devices.links.amd_text import read_amd_text
from policies.devices.links.matrix import (
    MAX_DEVICES,
    PCI_WORDS,
    SELF,
    UNKNOWN,
    Link,
    LinkError,
    LinkMatrix,
    MatrixGpu,
    MatrixNic,
)
from policies.devices.links.rows import TextRow, rows_of
from sysfs.cpuset import CpuSetError, NodeSet

_OLD_WORDS = {"SOC": "SYS", "N/A": UNKNOWN}
_GPU = re.compile(r"GPU(?:0|[1-9]\d{0,3})\Z")
_NIC = re.compile(r"NIC\d+\Z")
_NVLINKS = re.compile(r"NV([1-9]\d{0,2})\Z")
_NO_GPU = re.compile(r"No devices were found", re.IGNORECASE)
_NIC_NAME = re.compile(r"\s*(NIC\d+):\s*(\S*)\s*\Z")
_AMD_TEXT = re.compile(r"ROCm System Management|rocm-smi|amd-smi|\bXGMI\b|^(?:ACCESS|WEIGHT|HOPS) TABLE", re.MULTILINE)
# The columns behind the devices, in the tool's order; only the names of the first two hold what is read.
_PLACES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
_FIRST_WORDS = tuple(name.split()[0] for name in _PLACES)
_NONE = ("", "N/A")
_WHOLE_TEXT = "where the line with the columns is cut or broken, save what nvidia-smi topo -m prints to a file"


def link_of(word: str) -> Link | None:
    """Return the link that a word of the matrix stands for; None for a word that the legends do not have.

    >>> [(link.nvlinks, link.pcie) if (link := link_of(word)) else None for word in ("NV12", "SOC", "NV0")]
    [(12, '-'), (0, 'SYS'), None]
    """
    word = _OLD_WORDS.get(word, word)
    found = _NVLINKS.match(word)
    if found:
        return Link(int(found[1]))
    return Link(pcie=word) if word in PCI_WORDS or word == UNKNOWN else None


def read_links(text: str) -> LinkMatrix:
    """Return the matrix of a text, of NVIDIA's tools or AMD's; an empty one where the tool found no GPU.

    Raises LinkError.
    """
    for read in (read_amd_json, read_amd_text):
        matrix = read(text)
        if matrix is not None:
            return matrix
    try:
        return _matrix(text)
    except LinkError:
        if found := _AMD_TEXT.search(text):
            before = text[: found.start()]
            line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
            problem = f"this is of AMD's tools, and has no whole table of links; {SAVE_AMD}"
            raise LinkError(line, column, found[0], problem) from None
        raise


def _matrix(text: str) -> LinkMatrix:
    rows = rows_of(text)
    at = _header(rows)
    if at is None:
        if _NO_GPU.search(text):
            return LinkMatrix((), (), {})
        raise LinkError(0, 0, "GPU0", "no such column; expected the text that nvidia-smi topo -m prints")
    names, below = _names(rows[at]), rows[at + 1 :]
    found, legend = _rows(below, frozenset(names)), _legend(below)
    links = dict(_links(names, found, rows[at]))
    places = _places(rows[at], names)
    gpus = tuple(_gpu(name, found[name], len(names), places) for name in names if _GPU.match(name))
    # A NIC that a column names has no other name, whereas NIC0 alone is no name of the host.
    others = [name for name in names if not _GPU.match(name)]
    nics = tuple(MatrixNic(name, legend.get(name, "" if _NIC.match(name) else name)) for name in others)
    shown = [nic.device or nic.name for nic in nics]
    if twice := [nic for i, nic in enumerate(nics) if shown[i] in (*shown[:i], *names) and shown[i] != nic.name]:
        raise LinkError(0, 0, twice[0].name, f"the legend calls it {twice[0].device}, which is taken; correct one")
    return LinkMatrix(gpus, nics, links)


def _header(rows: Sequence[TextRow]) -> int | None:
    """Return the index of the line with the columns."""
    for i, row in enumerate(rows):
        # Each row of a device has the X of its own column; the line with the columns has none.
        if row.cells and SELF not in row.words:
            first = row.cells[0][1]
            if _GPU.match(first) or _NIC.match(first):
                return i
    return None


def _names(header: TextRow) -> tuple[str, ...]:
    """Return the devices on the line with the columns."""
    words = header.words
    end = next((at for at, word in enumerate(words) if word in _FIRST_WORDS), len(words))
    if end > MAX_DEVICES:
        raise header.error(end - 1, f"more than {MAX_DEVICES} devices; at most {MAX_DEVICES} are read")
    for i, word in enumerate(words[:end]):
        if word in words[:i]:
            raise header.error(i, "a device stands twice in the columns; keep one matrix")
    return tuple(words[:end])


def _rows(rows: Sequence[TextRow], names: frozenset[str]) -> Mapping[str, TextRow]:
    found: dict[str, TextRow] = {}
    for row in rows:
        name = row.cells[0][1] if row.cells else ""
        if name in names:
            if name in found:
                raise row.error(0, f"it has a row on line {found[name].line} already; keep one matrix")
            found[name] = row
        elif len(row.cells) > 1 and (row.cells[1][1] == SELF or link_of(row.cells[1][1])):
            problem = "a row of no column; where the lines are broken, save what nvidia-smi topo -m prints to a file"
            raise row.error(0, problem)
    return found


def _links(
    names: Sequence[str], found: Mapping[str, TextRow], header: TextRow
) -> Iterator[tuple[tuple[str, str], Link]]:
    known: dict[tuple[str, str], Link] = {}
    for at, one in enumerate(names):
        if one not in found:
            raise header.error(at, "the matrix has a column and no row of this name; save the whole text")
        row = found[one]
        if len(row.cells) <= len(names):
            raise row.error(0, f"{len(row.cells) - 1} words, expected one for each of {len(names)} columns")
        for i, other in enumerate(names, 1):
            word = row.cells[i][1]
            link = link_of(word)
            if (word == SELF) != (one == other) or (link is None and word != SELF):
                expected = SELF if one == other else f"one of {', '.join(PCI_WORDS)}, or NV and a number"
                raise row.error(i, f"{one} to {other}: expected {expected}")
            if link is None:
                continue
            back = known.get((other, one), link)
            if back != link:
                raise row.error(i, f"{one} to {other}, and {back.word} back; expected the same word")
            known[one, other] = link
            yield (one, other), link


def _places(header: TextRow, names: Sequence[str]) -> Sequence[str]:
    """Return the columns behind the devices. Raises LinkError for a line of columns that has lost some."""
    rest = header.words[len(names) :]
    found = []
    for place in _PLACES:
        words = place.split()
        if rest[: len(words)] == words:
            found.append(place)
            rest = rest[len(words) :]
    if rest:
        raise header.error(len(header.cells) - len(rest), f"expected the columns {', '.join(_PLACES)}; {_WHOLE_TEXT}")
    # Tools that number NICs have that column; older ones name NICs in the columns.
    if any(map(_NIC.match, names)) and any(map(_GPU.match, names)) and _PLACES[1] not in found:
        raise header.error(len(header.cells) - 1, f"the last column, and none is {_PLACES[1]}; {_WHOLE_TEXT}")
    return found


def _gpu(name: str, row: TextRow, devices: int, columns: Sequence[str]) -> MatrixGpu:
    """Return a GPU with what the columns behind the devices tell."""
    cells = row.cells[devices + 1 :]
    if len(cells) > len(columns):
        problem = f"a word of no column; the columns behind the devices are {', '.join(columns) or 'none'}"
        raise row.error(devices + 1 + len(columns), f"{problem}; {_WHOLE_TEXT}")
    if len(cells) < len(columns):
        column, last = row.cells[devices]
        # A place may be left blank; only tabs tell which, and the tool writes two before the last.
        cells = _between_tabs(row.text[column - 1 + len(last) :], column + len(last)) or cells
    by_place = dict(zip(columns, cells, strict=False))
    _, cpus = by_place.get(_PLACES[0], (0, ""))
    column, text = by_place.get(_PLACES[1], (0, ""))
    if text in _NONE:
        nodes = NodeSet()
    else:
        try:
            nodes = NodeSet.parse(text)
        except CpuSetError:
            raise LinkError(row.line, column, text[:20], "expected NUMA nodes like 0 or 0-1, or N/A") from None
    return MatrixGpu(int(name.removeprefix("GPU")), nodes, "" if cpus in _NONE else cpus)


def _between_tabs(rest: str, start: int) -> list[tuple[int, str]]:
    """Return the cells of the rest of a row, blank ones too, with their columns; ``start`` is that of the rest."""
    found = []
    for part in rest.split("\t"):
        found.append((start + len(part) - len(part.lstrip()), part.strip()))
        start += len(part) + 1
    return found[1:]


def _legend(rows: Sequence[TextRow]) -> Mapping[str, str]:
    """Return the names of the NIC legend. Raises LinkError for a line of it that names nothing."""
    names: dict[str, str] = {}
    for i, row in enumerate(rows):
        found = _NIC_NAME.match(row.text)
        if found is None:
            continue
        # A narrow terminal breaks the line before a long name.
        name = found[2] or (rows[i + 1].text.strip() if i + 1 < len(rows) else "")
        if not name or " " in name:
            problem = f"expected its name in the legend, got {name[:40]!r}; correct the legend"
            raise LinkError(row.line, row.cells[0][0], found[1], problem)
        names[found[1]] = name
    return names
