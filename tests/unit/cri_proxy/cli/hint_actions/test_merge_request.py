import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.cli.hint_actions.merge import MergeRequest, read_merge_request
from cri_proxy.yaml_fields import DocumentError, YamlField
from policies.hints import Hint, Nodes

DIALECT = Dialect(max_bytes=10_000, max_depth=10, max_nodes=500)


def read(text: str, nodes: int | None = None) -> MergeRequest:
    (document,) = YamlField.documents(text, "h.yaml", DIALECT)
    return read_merge_request(document, nodes)


def problem(text: str) -> str:
    with pytest.raises(DocumentError) as caught:
        read(text)
    return str(caught.value)


def test_providers_offer_lists_nothing_or_no_preference() -> None:
    request = read(
        "{nodes: 2, providers: [{cpu: [{nodes: [1, 0], preferred: true}, {nodes: null, preferred: false}]},"
        " {gpu: [], memory: null}, null, {}]}"
    )
    assert request.nodes == Nodes(0b11)
    assert request.offers == (
        {"cpu": (Hint(0b11, True), Hint(None, False))},
        {"gpu": (), "memory": None},
        None,
        {},
    )


PROVIDER = '{"cpu": [{"nodes": [0], "preferred": true}], "example.com/gpu": null}'


def test_the_answer_of_hints_generate_is_a_document_with_one_provider() -> None:
    request = read(PROVIDER, 2)
    assert (request.nodes, request.offers) == (Nodes(0b11), ({"cpu": (Hint(1, True),), "example.com/gpu": None},))


def test_a_provider_alone_needs_the_number_of_nodes() -> None:
    assert "how many NUMA nodes the machine has; give --nodes NUMBER" in problem(PROVIDER)


def test_the_number_of_nodes_of_the_command_line_beats_that_of_the_document() -> None:
    assert read("{nodes: 2, providers: []}", 4).nodes == read("{providers: []}", 4).nodes == Nodes(0b1111)


def test_distances_are_a_row_for_each_node() -> None:
    assert read("{nodes: 2, distances: [[10, 21], [20, 10]], providers: []}").nodes.distances == ((10, 21), (20, 10))
    assert read("{nodes: 2, distances: null, providers: []}").nodes.distances is None


def test_the_empty_set_and_nodes_beyond_the_machine_are_hints() -> None:
    (offers,) = read(
        "{nodes: 1, providers: [{a: [{nodes: [], preferred: true}, {nodes: [5], preferred: true}]}]}"
    ).offers
    assert offers == {"a": (Hint(0, True), Hint(1 << 5, True))}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "h.yaml:1: the document: expected a mapping, got a list"),
        ("{providers: []}", "h.yaml:1: the document: nodes is missing; give"),
        ("{nodes: 2}", "h.yaml:1: the document: providers is missing; give"),
        ("{node: 2}", "node: no key of a document (nodes, distances, options, providers), and no list of hints"),
        ("{nodes: 0, providers: []}", "nodes: expected a number from 1 to 1024, got '0'"),
        ("{nodes: -1, providers: []}", "nodes: expected a number from 1 to 1024, got '-1'"),
        ("{nodes: 1, provider: []}", "the document: unknown key 'provider'; did you mean providers?"),
        ("{nodes: 1, providers: {cpu: []}}", "providers: expected a list, got a mapping"),
        ("{nodes: 1, providers: [3]}", "providers: expected a mapping, got '3'"),
        ("{nodes: 1, providers: [{cpu: 3}]}", "cpu: expected a list, got '3'"),
        ("{nodes: 1, providers: [{cpu: {}}]}", "cpu: expected a list, got a mapping"),
        ("nodes: 1\nproviders:\n- cpu: []\n  cpu: []", "h.yaml:4: providers: 'cpu' stands twice"),
        (
            "nodes: 1\nproviders:\n- cpu:\n  - {nodes: [-1], preferred: true}",
            "h.yaml:4: cpu.nodes: expected a node from 0",
        ),
        ("{nodes: 1, providers: [{cpu: [{nodes: 0, preferred: true}]}]}", "cpu.nodes: expected a list, got '0'"),
        ("{nodes: 1, providers: [{cpu: [{nodes: [0]}]}]}", "cpu: a hint without preferred: give true or false"),
        ("{nodes: 1, providers: [{cpu: [{preferred: true}]}]}", "cpu: a hint without nodes: give a list, or null"),
        ("{nodes: 1, providers: [{cpu: [{nodes: [2000], preferred: true}]}]}", "from 0 to 1023, got '2000'"),
        ("{nodes: 1, providers: [{cpu: [{nodes: [0], preferred: maybe}]}]}", "expected true or false, got 'maybe'"),
        ("{nodes: 2, distances: [[10, 21]], providers: []}", "distances: expected 2 rows of 2 numbers"),
        ("{nodes: 2, distances: [[10], [10]], providers: []}", "distances: expected 2 rows of 2 numbers"),
        ("{nodes: 1, distances: [[256]], providers: []}", "distances: expected a number from 0 to 255"),
    ],
)
def test_bad_input_is_named_with_its_line(text: str, said: str) -> None:
    assert said in problem(text)
