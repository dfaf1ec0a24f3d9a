"""Draw the cost graph of a request with the set that was chosen, as SVG or as text for Graphviz. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from policies.costs.graph import CostGraph
from policies.costs.model import CostError, CostValue
from policies.costs.select import Selection
from policies.costs.text import ranges_of

BOX_WIDTH, BOX_HEIGHT, GAP, ROW, LINE, MARGIN, TOP = 150, 40, 34, 150, 90, 20, 110
BEND = (BOX_WIDTH + GAP) // 2
LONGEST_LABEL = 18
# The titles of the rows: the widest, and what a character of them takes.
LONGEST_TITLE, TITLE_CHARACTER = 42, 8
# Boxes of a layer beside each other. Where there are more, the chosen are drawn on further lines, and of the others as
# many as fit on the last one.
BOXES = 8
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
INK, CHOSEN_FILL, FILL, EDGE = "#1f2933", "#8fb8de", "#ffffff", "#7d8a99"
# Between neighbouring layers, inside a layer, between other layers: the colours of the proposal's figure.
RED, GREEN, BLACK = "#b3423a", "#3f8f4f", "#1f2933"
# A line for each pair of vertices cannot be followed beyond that; then only those of the chosen set are drawn.
MOST_LINES = 150
# So many lines of the chosen set have room for their costs; more are thin, and a browser tells the cost at a line.
MOST_LABELS = 60


# The upper left corner of each vertex.
Places = dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Link:
    """A pair of vertices that cost each other something; ``pairs`` of the chosen instances do."""

    v: int
    w: int
    cost: str
    colour: str
    pairs: int


@dataclass(frozen=True, slots=True)
class _Drawing:
    """What both forms show."""

    graph: CostGraph
    counts: tuple[int, ...]
    links: tuple[_Link, ...]
    title: str

    def label(self, v: int) -> str:
        """Return the instances of a vertex without their type, shortened."""
        vertex = self.graph.vertices[v]
        kind = self.graph.layers[vertex.layer].kind
        names = [name.removeprefix(f"{kind}/") for name in _ranges(vertex.members)]
        text = ", ".join(names)
        if len(text) <= LONGEST_LABEL:
            return text
        more = f" +{len(names) - 1}" if len(names) > 1 else ""
        return _cut(names[0], LONGEST_LABEL - len(more)) + more

    def chosen(self, v: int) -> str:
        """Return how many instances of a vertex are chosen."""
        return f"{self.counts[v]} of {len(self.graph.vertices[v].members)}"


def _drawing(graph: CostGraph, selection: Selection) -> _Drawing:
    names = frozenset(selection.names)
    counts = tuple(sum(member in names for member in vertex.members) for vertex in graph.vertices)
    links = tuple(_links(graph, counts))
    if len(links) > MOST_LINES:
        links = tuple(link for link in links if link.pairs)
    proof = "the lowest" if selection.is_optimal else "not proved to be the lowest"
    return _Drawing(graph, counts, links, f"cost {_number(selection.cost)}, {proof}")


def _links(graph: CostGraph, counts: tuple[int, ...]) -> Iterator[_Link]:
    for v, row in enumerate(graph.pair):
        for w in range(v, len(row)):
            if not row[w]:
                continue
            apart = graph.vertices[w].layer - graph.vertices[v].layer
            pairs = counts[v] * (counts[v] - 1) // 2 if v == w else counts[v] * counts[w]
            colour = GREEN if not apart else RED if apart == 1 else BLACK
            yield _Link(v, w, _number(Fraction(row[w], graph.scale)), colour, pairs)


def _cut(text: str, most: int) -> str:
    """Return a text of at most so many characters; of a long one the end, in which names differ."""
    return text if len(text) <= most else f"...{text[3 - most :]}"


def _number(cost: CostValue) -> str:
    return f"{float(cost):.6g}"


def _ranges(names: tuple[str, ...]) -> list[str]:
    try:
        return ranges_of(names)
    except CostError:  # a name that the cost format would read as another one
        return list(names)


def dot(graph: CostGraph, selection: Selection) -> str:
    """Return the graph as text for Graphviz (``dot -Tsvg``): a row for each type, chosen instances filled."""
    drawing = _drawing(graph, selection)
    lines = [
        "graph costs {",
        f"  graph [label={_quoted(drawing.title)}, labelloc=t, rankdir=TB, nodesep=0.4, ranksep=1.0];",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontsize=11];',
        "  edge [fontsize=10];",
    ]
    for layer in graph.layers:
        lines.append("  { rank=same;")
        lines.append(f"    {_quoted(layer.kind)} [shape=plaintext, style={_quoted('')}];")
        for v in layer.vertices:
            fill = f", fillcolor={_quoted(CHOSEN_FILL)}" if drawing.counts[v] else ""
            lines.append(f"    v{v} [label={_quoted(f'{drawing.label(v)} / {drawing.chosen(v)}')}{fill}];")
        lines.append("  }")
    lines += [
        f"  {_quoted(above.kind)} -- {_quoted(below.kind)} [style=invis];"
        for above, below in zip(graph.layers, graph.layers[1:], strict=False)
    ]
    for link in drawing.links:
        form = f"penwidth=2.5, label={_quoted(link.cost)}" if link.pairs else "penwidth=0.5, style=dashed"
        lines.append(f"  v{link.v} -- v{link.w} [color={_quoted(link.colour)}, {form}];")
    return "\n".join([*lines, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def svg(graph: CostGraph, selection: Selection) -> str:
    """Return the graph as a complete SVG document: a row for each type, the chosen filled and their costs written."""
    drawing = _drawing(graph, selection)
    titles = [_cut(layer.kind, LONGEST_TITLE) + f": {layer.count}" for layer in graph.layers]
    left = MARGIN + max(180, TITLE_CHARACTER * max(map(len, titles)) + GAP)
    rows = [_row(drawing, layer.vertices) for layer in graph.layers]
    places, tops = _places(rows, left)
    links = [link for link in drawing.links if link.v in places and link.w in places]
    parts = [_text(drawing.title, MARGIN, 26, 16, "bold"), _legend()]
    is_crowded = sum(link.pairs > 0 for link in links) > MOST_LABELS
    stroke = 1 if is_crowded else 2.5
    parts += [_line(link, places, stroke) for link in sorted(links, key=lambda link: link.pairs > 0)]
    for layer, title, top in zip(graph.layers, titles, tops, strict=True):
        parts.append(f"<g><title>{escape(layer.kind)}</title>{_text(title, MARGIN, top + 24, 13, 'bold')}</g>")
    parts += [_box(drawing, v, place) for v, place in places.items()]
    for layer, row in zip(graph.layers, rows, strict=True):
        if hidden := len(layer.vertices) - len(row):
            x, y = places[row[-1]]
            parts.append(_text(f"and {hidden} more", x + BOX_WIDTH + 32, y + 24, 11))
    parts += [_label(link, places) for link in links if link.pairs and not is_crowded]
    width = max(left + (min(BOXES, max(map(len, rows))) + 1) * (BOX_WIDTH + GAP), 560)
    height = max(y for _, y in places.values()) + BOX_HEIGHT + MARGIN
    body = "\n".join(parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>\n"
        f"<rect width='{width}' height='{height}' fill='white'/>\n{body}\n</svg>\n"
    )


def _row(drawing: _Drawing, vertices: range) -> list[int]:
    """Return the vertices of a layer that are drawn: the chosen, and others up to a whole line."""
    chosen = [v for v in vertices if drawing.counts[v]]
    room = -len(chosen) % BOXES if chosen else BOXES
    others = [v for v in vertices if not drawing.counts[v]][:room]
    return sorted((*chosen, *others))


def _places(rows: list[list[int]], left: int) -> tuple[Places, list[int]]:
    """Return where the box of each vertex is, and where each layer begins."""
    places: Places = {}
    tops = [TOP]
    for k, row in enumerate(rows):
        for at, v in enumerate(row):
            line, column = divmod(at, BOXES)
            # Every second row is moved by half a box, so that lines past it do not run through its boxes.
            places[v] = (left + column * (BOX_WIDTH + GAP) + (k + line) % 2 * BEND, tops[k] + line * LINE)
        tops.append(places[row[-1]][1] + ROW)
    return places, tops[:-1]


def _text(text: str, x: float, y: float, size: int, weight: str = "normal", more: str = "") -> str:
    style = f"font-size='{size}' font-weight='{weight}' {FONT} fill='{INK}'"
    return f"<text x='{x:g}' y='{y:g}' {style} {more}>{escape(text)}</text>"


def _legend() -> str:
    words = ((RED, "to the next layer"), (GREEN, "inside a layer"), (BLACK, "to other layers"))
    parts = []
    for i, (colour, word) in enumerate(words):
        x = MARGIN + 170 * i
        parts.append(f"<line x1='{x}' y1='46' x2='{x + 24}' y2='46' stroke='{colour}' stroke-width='2.5'/>")
        parts.append(_text(word, x + 30, 50, 11))
    return "\n".join(parts)


def _box(drawing: _Drawing, v: int, place: tuple[int, int]) -> str:
    x, y = place
    fill = CHOSEN_FILL if drawing.counts[v] else FILL
    names = escape(", ".join(_ranges(drawing.graph.vertices[v].members)))
    middle = "text-anchor='middle'"
    return (
        f"<g><title>{names}</title>"
        f"<rect x='{x}' y='{y}' width='{BOX_WIDTH}' height='{BOX_HEIGHT}' rx='6' fill='{fill}' stroke='{EDGE}'/>"
        f"{_text(drawing.label(v), x + BOX_WIDTH / 2, y + 17, 12, 'bold', middle)}"
        f"{_text(drawing.chosen(v), x + BOX_WIDTH / 2, y + 33, 11, 'normal', middle)}</g>"
    )


def _curve(link: _Link, places: Places) -> tuple[str, float, float]:
    """Return the path of a link and where its label stands."""
    (x1, y1), (x2, y2) = places[link.v], places[link.w]
    x1, x2 = x1 + BOX_WIDTH // 2, x2 + BOX_WIDTH // 2
    if link.v == link.w:
        right, middle = x1 + BOX_WIDTH // 2, y1 + BOX_HEIGHT // 2
        return (
            f"M {right} {middle - 10} C {right + 26} {middle - 16} {right + 26} {middle + 16} {right} {middle + 10}",
            right + 8,
            middle + 4,
        )
    if y1 == y2:
        rise = min(40, 14 + abs(x2 - x1) // 14)
        return f"M {x1} {y1} Q {(x1 + x2) / 2:g} {y1 - 2 * rise} {x2} {y1}", (x1 + x2) / 2, y1 - rise + 4
    top = y1 + BOX_HEIGHT
    return f"M {x1} {top} L {x2} {y2}", x1 + 0.35 * (x2 - x1), top + 0.35 * (y2 - top)


def _line(link: _Link, places: Places, stroke: float) -> str:
    path, _, _ = _curve(link, places)
    form = f"stroke-width='{stroke}'" if link.pairs else "stroke-width='1' stroke-opacity='0.3' stroke-dasharray='4 3'"
    return f"<path d='{path}' fill='none' stroke='{link.colour}' {form}><title>cost {link.cost}</title></path>"


def _label(link: _Link, places: Places) -> str:
    _, x, y = _curve(link, places)
    text = link.cost if link.pairs == 1 else f"{link.pairs} x {link.cost}"
    halo = "text-anchor='middle' stroke='white' stroke-width='4' paint-order='stroke'"
    return _text(text, x, y, 11, "bold", halo)
