import pytest

from policies.devices.costs import CostLine, CostListing, SetRequest, dot, graphviz
from tests.unit.policies.devices.costs.build import graph_of, selected

LISTING = CostListing(
    (
        CostLine(("a<b>/x0", "a<b>/x1"), 10, ("c/y0", "c/y1")),
        CostLine(("a<b>/x0",), 5, ("a<b>/x1",)),
        CostLine(("d/z",), 7, ("a<b>/x1",)),
        CostLine(("d/z",), 1, ("c/y0", "c/y1")),
    ),
    ('c/quo"te',),
)


def drawn(listing: CostListing, counts: dict[str, int], *must: str) -> str:
    wanted = SetRequest(counts, must=frozenset(must))
    return dot(graph_of(listing, wanted), selected(listing, wanted))


def test_the_whole_text_of_a_small_graph() -> None:
    assert drawn(LISTING, {"a<b>": 2, "c": 2, "d": 1}).split("\n") == [
        "graph costs {",
        '  graph [label="cost 33, the lowest", labelloc=t, rankdir=TB, nodesep=0.4, ranksep=1.0];',
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontsize=11];',
        "  edge [fontsize=10];",
        "  { rank=same;",
        '    "a<b>" [shape=plaintext, style=""];',
        '    v0 [label="x0 / 1 of 1", fillcolor="#8fb8de"];',
        '    v1 [label="x1 / 1 of 1", fillcolor="#8fb8de"];',
        "  }",
        "  { rank=same;",
        '    "d" [shape=plaintext, style=""];',
        '    v2 [label="z / 1 of 1", fillcolor="#8fb8de"];',
        "  }",
        "  { rank=same;",
        '    "c" [shape=plaintext, style=""];',
        r'    v3 [label="quo\"te / 1 of 1", fillcolor="#8fb8de"];',
        '    v4 [label="y0-1 / 1 of 2", fillcolor="#8fb8de"];',
        "  }",
        '  "a<b>" -- "d" [style=invis];',
        '  "d" -- "c" [style=invis];',
        '  v0 -- v1 [color="#3f8f4f", penwidth=2.5, label="5"];',
        '  v0 -- v4 [color="#1f2933", penwidth=2.5, label="10"];',
        '  v1 -- v2 [color="#b3423a", penwidth=2.5, label="7"];',
        '  v1 -- v4 [color="#1f2933", penwidth=2.5, label="10"];',
        '  v2 -- v4 [color="#b3423a", penwidth=2.5, label="1"];',
        "}",
        "",
    ]


def test_a_cost_inside_a_vertex_is_a_line_of_the_set_where_two_of_it_are_chosen() -> None:
    alike = CostListing((CostLine(("a/0", "a/1", "a/2"), 4, ("a/0", "a/1", "a/2")),))
    assert '  v0 -- v0 [color="#3f8f4f", penwidth=2.5, label="8"];' in drawn(alike, {"a": 2})
    assert '  v0 -- v0 [color="#3f8f4f", penwidth=0.5, style=dashed];' in drawn(alike, {"a": 1})


def test_of_many_lines_those_of_the_set_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        CostLine(("a/x0", "a/x1"), 10, ("b/y0",)),
        CostLine(("a/x0",), 5, ("b/y1",)),
        CostLine(("a/x1",), 7, ("b/y1",)),
    )
    wanted = (CostListing(lines), {"a": 1, "b": 1}, "a/x0", "b/y1")
    assert drawn(*wanted).count(" [color=") == 4
    monkeypatch.setattr(graphviz, "MOST_LINES", 4)
    assert drawn(*wanted).count(" [color=") == 4
    monkeypatch.setattr(graphviz, "MOST_LINES", 3)
    assert drawn(*wanted).count(" [color=") == 1


@pytest.mark.parametrize(
    ("names", "label"),
    [
        (("w" * 18,), "w" * 18),
        (("v" * 18 + "7",), "...vvvvvvvvvvvvvv7"),
        (("abcdefgh", "abcdefgi"), "abcdefgh, abcdefgi"),
        (("0000:3b:00.0", "0000:3c:00.0"), "0000:3b:00.0 +1"),
        (("a" * 14 + "b", "c" * 9), "a" * 14 + "b +1"),
        (("a" * 15 + "b", "c" * 9), "...aaaaaaaaaaab +1"),
    ],
)
def test_a_label_shows_the_end_of_a_long_name_and_how_many_more_there_are(names: tuple[str, ...], label: str) -> None:
    text = drawn(CostListing(present=tuple(f"a/{name}" for name in names)), {"a": 1})
    assert f'v0 [label="{label} / 1 of {len(names)}", ' in text


def test_a_name_that_the_cost_format_reads_as_another_one_stands_as_it_is() -> None:
    assert 'label="GPU-12, GPU-34 / 1 of 2"' in drawn(CostListing(present=("a/GPU-12", "a/GPU-34")), {"a": 1})
