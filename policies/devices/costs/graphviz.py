"""Write the cost graph of a request, with the set that was chosen, as text for Graphviz. Pure."""

from collections.abc import Iterator
from fractions import Fraction

from policies.devices.costs.choice import Selection
from policies.devices.costs.graph import CostGraph
from policies.devices.costs.model import CostError
from policies.devices.costs.text import ranges_of

LONGEST_LABEL = 18
CHOSEN_FILL = "#8fb8de"
# Between neighbouring layers, inside a layer, between other layers: the colours of the proposal's figure.
RED, GREEN, BLACK = "#b3423a", "#3f8f4f", "#1f2933"
# A line for each pair of vertices cannot be followed beyond that; then only those of the chosen set are drawn.
MOST_LINES = 150


def dot(graph: CostGraph, selection: Selection) -> str:
    """Return the graph as text for ``dot -Tsvg``: a row for each type, chosen instances filled."""
    chosen = frozenset(selection.names)
    counts = [sum(member in chosen for member in vertex.members) for vertex in graph.vertices]
    proof = "the lowest" if selection.is_optimal else "not proved to be the lowest"
    title = _quoted(f"cost {float(selection.cost):.6g}, {proof}")
    lines = [
        "graph costs {",
        f"  graph [label={title}, labelloc=t, rankdir=TB, nodesep=0.4, ranksep=1.0];",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontsize=11];',
        "  edge [fontsize=10];",
    ]
    for layer in graph.layers:
        lines += ["  { rank=same;", f'    {_quoted(layer.kind)} [shape=plaintext, style=""];']
        for v in layer.vertices:
            members = graph.vertices[v].members
            fill = f', fillcolor="{CHOSEN_FILL}"' if counts[v] else ""
            label = _quoted(f"{_label(layer.kind, members)} / {counts[v]} of {len(members)}")
            lines.append(f"    v{v} [label={label}{fill}];")
        lines.append("  }")
    for above, below in zip(graph.layers, graph.layers[1:], strict=False):
        lines.append(f"  {_quoted(above.kind)} -- {_quoted(below.kind)} [style=invis];")
    links = list(_links(graph, counts))
    lines += [line for line, is_chosen in links if is_chosen or len(links) <= MOST_LINES]
    return "\n".join([*lines, "}"]) + "\n"


def _links(graph: CostGraph, counts: list[int]) -> Iterator[tuple[str, bool]]:
    """Yield a line for each pair of vertices that cost each other something, and whether the set has such a pair."""
    for v, row in enumerate(graph.pair):
        for w in range(v, len(row)):
            if not row[w]:
                continue
            apart = graph.vertices[w].layer - graph.vertices[v].layer
            colour = GREEN if not apart else RED if apart == 1 else BLACK
            is_chosen = counts[v] > 1 if v == w else counts[v] > 0 and counts[w] > 0
            cost = f"{float(Fraction(row[w], graph.scale)):.6g}"
            form = f'penwidth=2.5, label="{cost}"' if is_chosen else "penwidth=0.5, style=dashed"
            yield f'  v{v} -- v{w} [color="{colour}", {form}];', is_chosen


def _label(kind: str, members: tuple[str, ...]) -> str:
    """Return the instances of a vertex without their type, shortened."""
    try:
        ranges = ranges_of(members)
    except CostError:  # a name that the cost format would read as another one
        ranges = list(members)
    names = [name.removeprefix(f"{kind}/") for name in ranges]
    text = ", ".join(names)
    if len(text) <= LONGEST_LABEL:
        return text
    more = f" +{len(names) - 1}" if len(names) > 1 else ""
    most = LONGEST_LABEL - len(more)
    # Of a long name the end is shown, in which names differ.
    return (names[0] if len(names[0]) <= most else f"...{names[0][3 - most :]}") + more


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
