"""Draw a machine as SVG: nested boxes down to the threads of each core, a table of distances, a legend. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from sysfs.model import Core, CoreKind, Machine
from sysfs.show.outline import Branch, branches, irregularities, shown_bytes

GAP, TITLE, LINE = 10, 24, 16
CPU_WIDTH, CPU_HEIGHT = 30, 22
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
FILLS = {"package": "#eef2f7", "die": "#e3e9f1", "NUMA": "#ffffff", "L3": "#f3f7ee"}
CPU_FILL, EFFICIENT_FILL, ISOLATED_FILL = "#8fb8de", "#a9d18e", "#e6a3a3"
MEMORY_FILL = "#fdf3dc"
EDGE, INK, FAINT = "#7d8a99", "#1f2933", "#5c6b7a"

# Styles of text, as SVG attributes.
HEADING = f"font-size='16' font-weight='bold' fill='{INK}'"
BOX_TITLE = f"font-size='13' font-weight='bold' fill='{INK}'"
SMALL = f"font-size='11' fill='{FAINT}'"
CELL = f"font-size='11' fill='{INK}' text-anchor='middle'"
AXIS = f"{CELL} font-weight='bold'"


@dataclass(frozen=True, slots=True)
class Box:
    """A drawn part: its size in pixels, and its SVG text with the top left corner at 0,0."""

    width: int
    height: int
    svg: str


def picture(machine: Machine) -> str:
    """Return the picture as a complete SVG document."""
    colours = _colours(machine)
    parts = [_branch(branch, colours) for branch in branches(machine)]
    head = (
        f"{len(machine.packages)} packages, {len(machine.nodes)} NUMA nodes, {len(machine.cores)} cores, "
        f"{len(machine.cpus)} CPUs, {shown_bytes(sum(n.memory_bytes for n in machine.nodes))}"
    )
    title = Box(_text_width(head, 16), 26, _text(head, 0, 18, HEADING))
    tree = _rows(parts, at_least=title.width)
    below = _rows([_distances(machine), _legend(machine)], 3 * GAP, at_least=max(title.width, tree.width))
    body = _column([title, tree, below])
    width, height = body.width + 2 * GAP, body.height + 2 * GAP
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>\n"
        f"<rect width='{width}' height='{height}' fill='white'/>\n{_at(body, GAP, GAP)}</svg>\n"
    )


def _colours(machine: Machine) -> dict[int, str]:
    colours = {cpu.id: EFFICIENT_FILL if cpu.kind is CoreKind.EFFICIENCY else CPU_FILL for cpu in machine.cpus}
    return colours | dict.fromkeys(machine.isolated, ISOLATED_FILL)


def _branch(branch: Branch, colours: Mapping[int, str]) -> Box:
    """Return a titled box that holds the branch's cores and children."""
    lines = [f"CPUs {branch.cpus}"] * bool(branch.cpus) + list(branch.facts)
    title = " = ".join(branch.names)
    lines = [line if len(line) < 44 else line[:41] + "..." for line in lines]
    text_width = max(_text_width(title, 13), *(_text_width(line, 11) for line in lines))
    cores = [_core(core, colours) for core in branch.cores]
    children = [_branch(child, colours) for child in branch.children]
    inner = [_rows(boxes, gap, at_least=text_width) for boxes, gap in ((cores, 6), (children, GAP)) if boxes]
    content = _column(inner)
    top = TITLE + LINE * len(lines) + 4
    width = max(content.width, text_width) + 2 * GAP
    height = top + (content.height + GAP if inner else 4)
    fill = FILLS.get(branch.names[0].split()[0], "#ffffff") if branch.cpus else MEMORY_FILL
    svg = f"<rect width='{width}' height='{height}' rx='6' fill='{fill}' stroke='{EDGE}'/>\n"
    svg += _text(title, GAP, 18, BOX_TITLE)
    for i, line in enumerate(lines):
        svg += _text(line, GAP, TITLE + 10 + LINE * i, SMALL)
    return Box(width, height, svg + (_at(content, GAP, top) if inner else ""))


def _core(core: Core, colours: Mapping[int, str]) -> Box:
    """Return a core: its threads side by side."""
    width = CPU_WIDTH * len(core.cpus) + 4
    svg = f"<rect width='{width}' height='{CPU_HEIGHT + 4}' rx='4' fill='#dde4ec' stroke='{EDGE}'/>\n"
    for i, cpu in enumerate(core.cpus):
        x = 2 + CPU_WIDTH * i
        svg += f"<rect x='{x}' y='2' width='{CPU_WIDTH - 1}' height='{CPU_HEIGHT}' rx='3' fill='{colours[cpu]}'/>\n"
        svg += _text(str(cpu), x + CPU_WIDTH // 2, 17, CELL)
    return Box(width, CPU_HEIGHT + 4, svg)


def _distances(machine: Machine) -> Box:
    """Return the distance table; larger distances are darker."""
    ids = [node.id for node in machine.nodes]
    farthest = max(distance for node in machine.nodes for _, distance in node.distances)
    svg = _text("distance between NUMA nodes", 0, 12, SMALL)
    for row, node in enumerate(machine.nodes):
        y = 40 + CPU_HEIGHT * row
        svg += _text(str(node.id), 12, y + 15, AXIS)
        svg += _text(str(node.id), 26 + CPU_WIDTH * row + CPU_WIDTH // 2, 34, AXIS)
        for column, other in enumerate(ids):
            x, distance = 26 + CPU_WIDTH * column, node.distance_to(other)
            # A single node has no distance above 10.
            shade = 250 - 110 * (distance - 10) // max(farthest - 10, 1)
            fill = f"rgb({shade},{shade},250)"
            svg += f"<rect x='{x}' y='{y}' width='{CPU_WIDTH - 1}' height='{CPU_HEIGHT - 1}' fill='{fill}'/>\n"
            svg += _text(str(distance), x + CPU_WIDTH // 2, y + 15, CELL)
    return Box(max(26 + CPU_WIDTH * len(ids), 190), 44 + CPU_HEIGHT * len(ids), svg)


def _legend(machine: Machine) -> Box:
    """Return the meaning of the colours that occur, and the machine's notes."""
    rows = [(CPU_FILL, "CPU (threads of a core side by side)")]
    if any(cpu.kind is CoreKind.EFFICIENCY for cpu in machine.cpus):
        rows.append((EFFICIENT_FILL, "CPU of an efficiency core"))
    if machine.isolated:
        rows.append((ISOLATED_FILL, "isolated by the kernel"))
    if any(not node.cpus for node in machine.nodes):
        rows.append((MEMORY_FILL, "NUMA node with memory only"))
    svg = ""
    for i, (fill, words) in enumerate(rows):
        svg += f"<rect y='{20 * i}' width='16' height='14' rx='3' fill='{fill}' stroke='{EDGE}'/>\n"
        svg += _text(words, 24, 20 * i + 11, SMALL)
    lines = [f"offline CPUs: {machine.offline}"] if machine.offline else []
    lines += [*irregularities(machine), *machine.notes]
    for i, line in enumerate(lines, len(rows)):
        svg += _text(line, 0, 20 * i + 11, SMALL)
    width = max(_text_width(words, 11) + 24 for words in [*lines, *(words for _, words in rows)])
    return Box(width, 20 * (len(rows) + len(lines)), svg)


def _text(words: str, x: int, y: int, style: str) -> str:
    return f"<text x='{x}' y='{y}' {FONT} {style}>{escape(words)}</text>\n"


def _text_width(words: str, size: int) -> int:
    """Return an upper estimate of the width in pixels."""
    # The widest common fonts need 0.65 of the size per letter, bold included.
    return int(len(words) * size * 0.65) + 4


def _at(box: Box, x: int, y: int) -> str:
    return f"<g transform='translate({x},{y})'>\n{box.svg}</g>\n"


def _column(boxes: Sequence[Box], gap: int = GAP) -> Box:
    svg, y = "", 0
    for box in boxes:
        svg += _at(box, 0, y)
        y += box.height + gap
    return Box(max((box.width for box in boxes), default=0), max(y - gap, 0), svg)


def _rows(boxes: Sequence[Box], gap: int = GAP, *, at_least: int = 0) -> Box:
    """Return the boxes in rows, wrapped so that the width is about one and a half times the height."""
    area = sum((box.width + gap) * (box.height + gap) for box in boxes)
    limit = max(int((1.6 * area) ** 0.5), at_least, *(box.width + gap for box in boxes))
    rows: list[list[Box]] = [[]]
    for box in boxes:
        if rows[-1] and sum(b.width + gap for b in rows[-1]) + box.width > limit * 1.05:
            rows.append([])
        rows[-1].append(box)
    return _column([_row(row, gap) for row in rows], gap)


def _row(boxes: Sequence[Box], gap: int) -> Box:
    svg, x = "", 0
    for box in boxes:
        svg += _at(box, x, 0)
        x += box.width + gap
    return Box(max(x - gap, 0), max(box.height for box in boxes), svg)
