import json
from typing import Any

import pytest

from cri_proxy.extender.demand import QuestionError
from cri_proxy.extender.messages import (
    Candidate,
    error_answer,
    filter_answer,
    priority_answer,
    read_question,
)
from tests.fakes.scheduler import arguments, named_arguments, node, pod

WORD = "v1.0t1.n0x2.v12"
LONG = {"gpu-links.cri-proxy.io/0": "v1.0t1.n0", "gpu-links.cri-proxy.io/1": "x2.v12"}


def encoded(plain: object) -> bytes:
    return json.dumps(plain).encode()


def test_whole_nodes_are_read_with_what_they_publish_and_count() -> None:
    nodes = [node("a", WORD), node("b", gpus=None), node("c", labels=LONG, gpus=2)]
    found = read_question(encoded(arguments(pod(2), nodes)))
    assert (found.pod, found.demand.sizes) == ("ml/train-0", (2,))
    assert found.candidates == (Candidate("a", WORD, 8), Candidate("b"), Candidate("c", WORD, 2))


def test_an_annotation_stands_above_labels() -> None:
    found = read_question(encoded(arguments(pod(2), [node("a", "v1.none", labels=LONG)])))
    assert found.candidates[0].published == "v1.none"


def test_names_alone_are_read_too() -> None:
    found = read_question(encoded(named_arguments(pod(2), ["a", "b"])))
    assert found.candidates == (Candidate("a"), Candidate("b"))
    assert found.whole is None


def test_the_case_of_the_outer_keys_does_not_matter() -> None:
    """Older schedulers write them in lower case; Go reads any."""
    older = {key.lower(): value for key, value in arguments(pod(2), [node("a", WORD)]).items() if value is not None}
    assert read_question(encoded(older)).candidates == (Candidate("a", WORD, 8),)


def test_a_pod_of_a_controller_may_have_no_name_yet() -> None:
    a_pod = {"metadata": {"generateName": "web-"}, "spec": {}}
    assert read_question(encoded(named_arguments(a_pod, []))).pod == "default/web-"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"", "body: Expecting value"),
        (b"[]", "body: expected an object, got list"),
        (b"{}", "Pod: missing; expected ExtenderArgs"),
        (b'{"Pod": {"spec": 1}}', "Pod.spec: expected an object, got int"),
        (b'{"Pod": {"spec": {}}}', "Nodes: neither they nor NodeNames are there"),
        (b'{"Pod": {"spec": {}}, "NodeNames": [1]}', "NodeNames: expected the name of a node, got '1'"),
        (b'{"Pod": {"spec": {}}, "Nodes": {"items": [{}]}}', "Nodes.items[0].metadata.name: expected the name of a"),
        (b'{"Pod": {"spec": {}}, "Nodes": {"items": {}}}', "Nodes.items: expected an array, got dict"),
        (b'{"Pod": {"spec": {}}, "x": NaN}', "body: NaN is no JSON"),
        (b'{"Pod": {"spec": {}}, "x": 1e999}', "body: 1e999 is out of range"),
        (b'{"Pod": {"spec": {}}, "x": 1' + b"0" * 5000 + b"}", "body: Exceeds the limit"),
        (b"[" * 100_000, "body: hardly anything but brackets"),
        (b"[" + b"[]," * 100_000 + b"[]]", "body: hardly anything but brackets"),
        (b"[       " * 5_000, "body: nested too deeply"),
        (b"\xff\xfe\x00", "body: "),
        (encoded(named_arguments(pod(1), ["n"] * 20_001)), "NodeNames: 20001 nodes; at most 20000 are read"),
    ],
)
def test_anything_else_is_an_error_with_its_place(body: bytes, problem: str) -> None:
    with pytest.raises(QuestionError) as raised:
        read_question(body)
    assert str(raised.value).startswith(problem)


def test_a_filter_gives_the_nodes_back_as_they_came() -> None:
    nodes = [node(name, WORD) for name in ("a", "b", "c")]
    question = read_question(encoded(arguments(pod(4), nodes)))
    answer = json.loads(filter_answer(question, {"b": "why"}))
    assert answer == {
        "Nodes": {"metadata": {}, "items": [nodes[0], nodes[2]]},
        "NodeNames": None,
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"b": "why"},
        "Error": "",
    }
    assert json.loads(filter_answer(question, {}))["Nodes"]["items"] == nodes


def test_a_filter_gives_names_back_where_names_came() -> None:
    question = read_question(encoded(named_arguments(pod(4), ["a", "b"])))
    answer = json.loads(filter_answer(question, {"b": "why"}))
    assert (answer["Nodes"], answer["NodeNames"]) == (None, ["a"])


def test_the_answers_have_the_keys_of_the_schedulers_types() -> None:
    rows: list[dict[str, Any]] = [{"Host": "a", "Score": 3}]
    assert json.loads(priority_answer(rows)) == rows
    assert json.loads(error_answer(QuestionError("Pod", "missing"))) == {"Error": "Pod: missing"}
