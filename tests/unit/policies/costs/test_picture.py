from xml.etree import ElementTree as Xml

import pytest

from policies.costs import picture
from policies.costs.demand import SetRequest
from policies.costs.graph import CostGraph
from policies.costs.model import CostLine, CostListing
from policies.costs.picture import dot, svg
from policies.costs.select import Selection, select
from policies.costs.table import compile_costs
from tests.unit.policies.costs.build import graph_of

LISTING = CostListing(
    (
        CostLine(("a<b>/x0", "a<b>/x1"), 10, ("c/y0", "c/y1")),
        CostLine(("a<b>/x0",), 5, ("a<b>/x1",)),
        CostLine(("d/z",), 7, ("a<b>/x1",)),
    ),
    ('c/quo"te',),
)
WANTED = SetRequest({"a<b>": 2, "c": 3, "d": 1})


def drawn() -> tuple[CostGraph, Selection]:
    selection = select(compile_costs(LISTING), WANTED)
    assert isinstance(selection, Selection)
    return graph_of(LISTING, WANTED), selection


def test_a_drawing_is_well_formed_and_names_every_instance() -> None:
    root = Xml.fromstring(svg(*drawn()))
    words = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"a<b>: 2", "c: 3", "d: 1", "x0", "x1", "y0-1", 'quo"te', "z"} <= set(words)
    assert "cost 52, the lowest" in words
    assert {"2 x 10", "5", "7"} <= set(words)


def test_graphviz_gets_a_row_for_each_type_and_a_line_for_each_cost() -> None:
    text = dot(*drawn())
    assert text.count("rank=same") == 3
    assert text.count(" [color=") == 4
    assert r'label="quo\"te / 1 of 1"' in text


def test_of_many_lines_those_of_the_set_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = CostListing((CostLine(("a/x0", "a/x1"), 10, ("b/y0",)), CostLine(("a/x0",), 5, ("b/y1",))))
    wanted = SetRequest({"a": 1, "b": 1}, must=frozenset({"a/x0", "b/y1"}))
    selection = select(compile_costs(listing), wanted)
    assert isinstance(selection, Selection)
    graph = graph_of(listing, wanted)
    assert dot(graph, selection).count(" [color=") == 3
    monkeypatch.setattr(picture, "MOST_LINES", 2)
    assert dot(graph, selection).count(" [color=") == 1


def texts(listing: CostListing, wanted: SetRequest) -> list[str]:
    """The words of the drawing of a request, from its top to its bottom line."""
    selection = select(compile_costs(listing), wanted)
    assert isinstance(selection, Selection)
    root = Xml.fromstring(svg(graph_of(listing, wanted), selection))
    found = [(float(e.get("y", 0)), e.text or "") for e in root.iter("{http://www.w3.org/2000/svg}text")]
    return [word for _, word in sorted(found, key=lambda pair: pair[0])]


def unlike(count: int) -> CostListing:
    """As many instances of a type, no two of which are alike."""
    return CostListing(tuple(CostLine((f"a/x{i}",), i + 1, ("b/y",)) for i in range(count)))


def test_a_large_layer_is_drawn_with_its_chosen_and_as_many_others_as_fit() -> None:
    words = texts(unlike(30), SetRequest({"a": 2, "b": 1}, must=frozenset({"a/x29"})))
    assert [word for word in words if word.startswith("x")] == ["x0", "x1", "x2", "x3", "x4", "x5", "x6", "x29"]
    assert "and 22 more" in words


def test_many_chosen_ones_stand_on_several_lines_without_labels_where_they_are_too_many() -> None:
    words = texts(unlike(70), SetRequest({"a": 61, "b": 1}))
    assert [word for word in words if word.startswith("x")] == [f"x{i}" for i in range(64)]
    assert "61" not in words
    assert "and 6 more" in words


def test_a_long_name_shows_its_end_and_a_list_how_many_more_there_are() -> None:
    long = "v" * 300
    listing = CostListing((CostLine(("a/0000:3b:00.0", "a/0000:3c:00.0"), 1, (f"{long}/{long}7",)),))
    words = texts(listing, SetRequest({"a": 1, long: 1}))
    assert {"0000:3b:00.0 +1", "...vvvvvvvvvvvvvv7"} <= set(words)
    assert max(map(len, words)) < 50
