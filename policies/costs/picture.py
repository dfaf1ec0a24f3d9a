"""Draw the cost graph of a request with the set that was chosen, as SVG or as text for Graphviz. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from html import escape

from policies.costs.graph import CostGraph
from policies.costs.model import CostError, CostValue
from policies.costs.select import Selection
from policies.costs.text import ranges_of

BOX_WIDTH, BOX_HEIGHT, GAP, ROW, MARGIN, TOP, TITLES = 150, 40, 34, 150, 20, 110, 200
BEND = (BOX_WIDTH + GAP) // 2
LONGEST_LABEL = 18
FONT = "font-family='DejaVu Sans, Verdana, sans-serif'"
INK, CHOSEN_FILL, FILL, EDGE = "#1f2933", "#8fb8de", "#ffffff", "#7d8a99"
# Between neighbouring layers, inside a layer, between other layers: the colours of the proposal's figure.
RED, GREEN, BLACK = "#b3423a", "#3f8f4f", "#1f2933"
# A line for each pair of vertices cannot be followed beyond that; then only those of the chosen set are drawn.
MOST_LINES = 400


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
        names = _ranges(vertex.members)
        text = ", ".join(name.removeprefix(f"{kind}/") for name in names)
        return text if len(text) <= LONGEST_LABEL else f"{text[: LONGEST_LABEL - 3]}..."

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
    widest = max(len(layer.vertices) for layer in graph.layers)
    width = max(2 * MARGIN + TITLES + widest * (BOX_WIDTH + GAP) + BEND, 560)
    height = TOP + (len(graph.layers) - 1) * ROW + BOX_HEIGHT + MARGIN
    places = {
        # Every second row is moved by half a box, so that lines past it do not run through its boxes.
        v: (MARGIN + TITLES + at * (BOX_WIDTH + GAP) + k % 2 * BEND, TOP + k * ROW)
        for k, layer in enumerate(graph.layers)
        for at, v in enumerate(layer.vertices)
    }
    parts = [_text(drawing.title, MARGIN, 26, 16, "bold"), _legend()]
    parts += [_line(link, places) for link in sorted(drawing.links, key=lambda link: link.pairs > 0)]
    for k, layer in enumerate(graph.layers):
        parts.append(_text(f"{layer.kind}: {layer.count}", MARGIN, TOP + k * ROW + 24, 13, "bold"))
    parts += [_box(drawing, v, place) for v, place in places.items()]
    parts += [_label(link, places) for link in drawing.links if link.pairs]
    body = "\n".join(parts)
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>\n"
        f"<rect width='{width}' height='{height}' fill='white'/>\n{body}\n</svg>\n"
    )


Places = dict[int, tuple[int, int]]


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


def _line(link: _Link, places: Places) -> str:
    path, _, _ = _curve(link, places)
    form = "stroke-width='2.5'" if link.pairs else "stroke-width='1' stroke-opacity='0.3' stroke-dasharray='4 3'"
    return f"<path d='{path}' fill='none' stroke='{link.colour}' {form}><title>cost {link.cost}</title></path>"


def _label(link: _Link, places: Places) -> str:
    _, x, y = _curve(link, places)
    text = link.cost if link.pairs == 1 else f"{link.pairs} x {link.cost}"
    halo = "text-anchor='middle' stroke='white' stroke-width='4' paint-order='stroke'"
    return _text(text, x, y, 11, "bold", halo)
