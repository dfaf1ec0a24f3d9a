import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.costs.cost_file import has_known_line, read_costs, read_names
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.devices.costs import CostLine, CostListing, with_colons

DIALECT = Dialect(max_bytes=100_000, max_depth=20, max_nodes=10_000)


def field(text: str) -> YamlField:
    return next(YamlField.documents(with_colons(text), "costs.yaml", DIALECT))


@pytest.mark.parametrize(
    "text",
    [
        "a/x0-1:\n  - 10:\n    - b/y0\n  - 20\n    - b/y1\n",
        "a/x0-1:\n  - 10:\n      - b/y0\n  - 20: # far\n    - b/y1\n",
        "a/x0-1:\n  10:\n  - b/y0\n  20:\n  - b/y1\n",
        "a/x0-1:\n  10: b/y0\n  20: [b/y1]\n",
        '{"a/x0-1": {"10": ["b/y0"], "20": ["b/y1"]}}',
        '{"a/x0-1": [{"10": ["b/y0"], "20": ["b/y1"]}]}',
    ],
)
def test_a_source_has_a_list_of_costs_or_a_mapping_of_them(text: str) -> None:
    sources = ("a/x0", "a/x1")
    lines = read_costs(field(text)).lines
    assert [(line.sources, line.cost, line.targets) for line in lines] == [
        (sources, 10, ("b/y0",)),
        (sources, 20, ("b/y1",)),
    ]


def test_a_source_without_costs_is_present_and_says_nothing() -> None:
    assert read_costs(field("a/x0-1:\na/x2: []\n"), field("[b/y0-1]")) == CostListing(
        (), ("a/x0", "a/x1", "a/x2", "b/y0", "b/y1")
    )
    assert read_costs(None) == CostListing()


def test_a_line_knows_where_its_cost_stands() -> None:
    assert read_costs(field("a/x:\n\n  - 10:\n    - b/y\n")).lines == (CostLine(("a/x",), 10, ("b/y",), 3),)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[1]", "costs.yaml:1: costs: expected a mapping, got a list"),
        ("x: {}", "costs.yaml:1: 'x': expected one name"),
        ("card0:\n  - 1: [b/y]\n", "costs.yaml:1: 'card0': expected one name of the form TYPE/INSTANCE"),
        ("a/x:\n  - 1:\n    - b/y\n    - card0\n", "costs.yaml:4: 'card0': expected one name"),
        ("a/x:\n  - b/y\n", "costs.yaml:2: a/x: expected COST: [targets], got 'b/y'"),
        ("a/x: 5", "costs.yaml:1: a/x: expected COST: [targets], got '5'"),
        ("a/x:\n  - -5: [b/y]\n", "costs.yaml:2: -5: a cost cannot be negative"),
        ("a/x:\n  far: [b/y]\n", "costs.yaml:2: 'far': expected a cost, a number from 0 to 2147483647"),
        ("a/x:\n  2147483648: [b/y]\n", "costs.yaml:2: '2147483648': expected a cost of at most 2147483647"),
        ("a/x:\n  5:\n", "costs.yaml:2: 5: no targets stand under this cost"),
        ("a/x:\n  5: []\n", "costs.yaml:2: 5: no targets stand under this cost"),
        ("a/x:\n  5: {b/y: 1}\n", "costs.yaml:2: a/x: expected a text or number, got a mapping"),
        ("a/x: {5: [b/y]}\na/z: {5: [b/y]}\na/x: {6: [b/y]}\n", "costs.yaml:3: 'a/x' stands twice, first on line 1"),
        ("a/x3-1:\n", "costs.yaml:1: 'a/x3-1': the range must begin with the smaller number"),
    ],
)
def test_an_error_names_line_and_word(text: str, problem: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_costs(field(text))
    assert str(caught.value).startswith(problem)


def test_a_name_that_is_present_stands_there_once() -> None:
    with pytest.raises(DocumentError, match=r"costs\.yaml:2: present: a/x1: a/x1 is already named on line 1"):
        read_names(field("- a/x0-2\n- a/x1\n"), "present")


def test_names_of_all_lines_are_bounded() -> None:
    assert len(read_costs(field("a/x0-8: {1: [b/y0-8]}"), most_names=20).lines) == 1
    with pytest.raises(DocumentError, match=r"costs\.yaml:2: more than 20 names in all lines"):
        read_costs(field("a/x0-8: {1: [b/y0-8]}\na/z0-1: {1: [b/y0]}\n"), most_names=20)


def test_instances_that_say_nothing_count_as_names_too() -> None:
    with pytest.raises(DocumentError, match=r"costs\.yaml:2: more than 20 names in all lines"):
        read_costs(field("a/x0-9:\na/y0-10:\n"), most_names=20)


@pytest.mark.parametrize(
    ("text", "is_known"),
    [
        ("a/b: {1: [a/c]}", True),
        ("a: 7\na/b: [{x: [a/c]}, {1: [a/c]}, 7]", True),
        ("a/b:", False),
        ("a/b: {1: [c]}", False),
        ("a/b: {x: [a/c]}", False),
        ("b: {1: [a/c]}", False),
        ("[a/b]", False),
    ],
)
def test_a_line_is_understood_that_has_a_source_a_cost_and_targets(text: str, is_known: bool) -> None:
    (root,) = YamlField.documents(text, "f", DIALECT)
    assert has_known_line(root) is is_known
