"""Read the tables that ``rocm-smi --showtopo`` and ``amd-smi topology`` print, all of them or none.

Both print one table below the other, each with a title, a line with the GPUs as columns, and a row for each. rocm-smi
numbers GPUs, has NUMA nodes below its tables, and ends with a title of its own; amd-smi names them by PCI address. What
stands before the first title and behind a table that is complete is passed over.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from policies.devices.links.amd import FAILED, PCI_ADDRESS, SAVE_AMD, AmdCell, AmdTable, AmdTopology, Cells
from policies.devices.links.matrix import MAX_DEVICES, LinkError, LinkMatrix, MatrixGpu
from policies.devices.links.rows import TextRow, rows_of
from sysfs.cpuset import NodeSet

_NODES: Final = "Numa Nodes"
_DIGITS_OF_A_NODE: Final = 4
_END: Final = "End of ROCm SMI Log"


@dataclass(frozen=True, slots=True)
class _Tool:
    """The output of a tool: its titles, those of the tables that are read, and how it names GPUs.

    ``sections`` are titles without which its text is not whole, beside those of ``tables``.
    """

    title: re.Pattern[str]
    tables: Mapping[str, AmdTable]
    gpu: re.Pattern[str]
    command: str
    sections: tuple[str, ...] = ()


_ROCM_SMI: Final = _Tool(
    re.compile(r"\s*=+ (\S.*?) =+\s*\Z"),
    {
        "Link Type between two GPUs": AmdTable.TYPES,
        "Hops between two GPUs": AmdTable.HOPS,
        "Weight between two GPUs": AmdTable.WEIGHTS,
    },
    re.compile(r"GPU(?:0|[1-9]\d{0,3})\Z"),
    "rocm-smi --showtopo",
    (_NODES, _END),
)
_AMD_SMI: Final = _Tool(
    re.compile(r"\s*([A-Z][A-Z -]*) TABLE:\s*\Z"),
    {
        "LINK TYPE": AmdTable.TYPES,
        "HOPS": AmdTable.HOPS,
        "WEIGHT": AmdTable.WEIGHTS,
        "NUMA BW": AmdTable.BANDWIDTHS,
    },
    PCI_ADDRESS,
    "amd-smi topology",
)
_NODE_LINE: Final = re.compile(
    r"\s*GPU ?\[?(0|[1-9]\d{0,3})\]?\s*:\s*\(Topology\) Numa (Node|Affinity): (-?\d{1,10}|N/A)\s*\Z", re.ASCII
)


@dataclass(frozen=True, slots=True)
class _Section:
    """A title, and the lines below it up to the next."""

    title: TextRow
    rows: Sequence[TextRow]


@dataclass(frozen=True, slots=True)
class _Table:
    """A table as printed: its line of columns, and the word of each two."""

    header: TextRow
    cells: Cells


def read_amd_text(text: str) -> LinkMatrix | None:
    """Return the matrix of a text with tables of AMD's tools; None for one without. Raises LinkError."""
    rows = rows_of(FAILED.sub(" N/A ", text))
    for tool in (_ROCM_SMI, _AMD_SMI):
        sections = _sections(rows, tool)
        if not sections.keys().isdisjoint(tool.tables):
            return _topology(sections, tool).matrix()
    return None


def _sections(rows: Sequence[TextRow], tool: _Tool) -> Mapping[str, _Section]:
    """Return the sections by title. Raises LinkError for a table that stands twice."""
    starts = [(i, found[1].strip()) for i, row in enumerate(rows) if (found := tool.title.match(row.text))]
    found_here: dict[str, _Section] = {}
    for (start, title), (end, _) in pairwise([*starts, (len(rows), "")]):
        if title in found_here and (title in tool.tables or title in tool.sections):
            problem = f"it stands on line {found_here[title].title.line} already; keep one output of {tool.command}"
            raise LinkError(rows[start].line, 0, title, problem)
        found_here.setdefault(title, _Section(rows[start], rows[start + 1 : end]))
    return found_here


def _topology(sections: Mapping[str, _Section], tool: _Tool) -> AmdTopology:
    for title in (*tool.tables, *tool.sections):
        if title not in sections:
            problem = f"the text has no such title, and is not whole; save all that {tool.command} prints to a file"
            raise LinkError(0, 0, title, problem)
    tables = {kind: _table(sections[title], tool) for title, kind in tool.tables.items()}
    first = next(iter(tables.values())).header
    for table in tables.values():
        if table.header.words != first.words:
            raise table.header.error(0, f"other columns than on line {first.line}; save all that {tool.command} prints")
    return AmdTopology(_gpus(first, sections, tool), {kind: table.cells for kind, table in tables.items()})


def _table(section: _Section, tool: _Tool) -> _Table:
    """Return a table, with the names that GPUs have in a matrix. Raises LinkError."""
    rows = [row for row in section.rows if row.cells]
    if not rows:
        raise section.title.error(0, f"no table below it; {SAVE_AMD}")
    header = rows[0]
    names = _names(header, tool)
    cells: dict[tuple[str, str], AmdCell] = {}
    found: dict[str, TextRow] = {}
    for row in rows[1:]:
        one = names.get(row.cells[0][1])
        if one is not None and one not in found and len(row.cells) == len(names) + 1:
            found[one] = row
            for other, (column, word) in zip(names.values(), row.cells[1:], strict=True):
                cells[one, other] = AmdCell(word, row.line, column)
        elif one is not None and one in found:
            raise row.error(0, f"it has a row on line {found[one].line} already; {SAVE_AMD}")
        elif one is not None:
            raise row.error(0, f"{len(row.cells) - 1} words, expected one for each of {len(names)} columns; {SAVE_AMD}")
        elif len(found) < len(names) or tool.gpu.match(row.cells[0][1]):
            raise row.error(0, f"expected the row of a column; the table is cut or broken; {SAVE_AMD}")
    if missing := [name for name, gpu in names.items() if gpu not in found]:
        raise header.error(header.words.index(missing[0]), f"a column and no row of this name; {SAVE_AMD}")
    return _Table(header, cells)


def _names(header: TextRow, tool: _Tool) -> Mapping[str, str]:
    """Return the columns, each with the name that its GPU has in a matrix."""
    words = header.words
    for i, word in enumerate(words):
        if not tool.gpu.match(word):
            raise header.error(i, f"expected the GPUs as {tool.command} names them; {SAVE_AMD}")
        if word in words[:i]:
            raise header.error(i, f"a GPU stands twice in the columns; {SAVE_AMD}")
    if len(words) > MAX_DEVICES:
        raise header.error(MAX_DEVICES, f"more than {MAX_DEVICES} GPUs; at most {MAX_DEVICES} are read")
    return {word: word if tool is _ROCM_SMI else f"GPU{i}" for i, word in enumerate(words)}


def _gpus(header: TextRow, sections: Mapping[str, _Section], tool: _Tool) -> Sequence[MatrixGpu]:
    names = _names(header, tool)
    if tool is _AMD_SMI:
        return [MatrixGpu(i, address=address.lower()) for i, address in enumerate(names)]
    nodes = _nodes(sections[_NODES].rows)
    if other := sorted(nodes.keys() ^ names.keys()):
        has = "a NUMA node and no column" if other[0] in nodes else "a column and no NUMA node"
        raise LinkError(sections[_NODES].title.line, 0, other[0], f"{has}; {SAVE_AMD}")
    return [MatrixGpu(int(name.removeprefix("GPU")), nodes[name]) for name in names]


def _nodes(rows: Sequence[TextRow]) -> Mapping[str, NodeSet]:
    """Return the NUMA node of each GPU: the affinity, which is the kernel's numa_node, or else the node.

    -1 is unknown, also where rocm-smi prints it as 4294967295.
    """
    told: dict[tuple[str, str], str] = {}
    for row in rows:
        if not row.cells:
            continue
        found = _NODE_LINE.match(row.text)
        name = f"GPU{found[1]}" if found else ""
        if found is None or (name, found[2]) in told:
            raise row.error(0, f"expected the NUMA node of a GPU, each once; {SAVE_AMD}")
        told[name, found[2]] = found[3]
    nodes = {}
    for name in {name for name, _ in told}:
        texts = [told.get((name, what), "-1") for what in ("Affinity", "Node")]
        known = [int(text) for text in texts if text.isdecimal() and len(text) <= _DIGITS_OF_A_NODE]
        nodes[name] = NodeSet.of(known[:1])
    return nodes
