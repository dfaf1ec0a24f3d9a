import json

import pytest

from policies.devices import ALLOCATE_HINT, AnnotationError, read_annotations

LABELS = {"speed": "100G", "vendor": "mellanox"}


@pytest.mark.parametrize(
    ("selector", "is_matched"),
    [
        ({}, True),
        ({"matchLabels": {"speed": "100G"}}, True),
        ({"matchLabels": {"speed": "100G", "vendor": "intel"}}, False),
        ({"matchLabels": {"model": "cx7"}}, False),
        ({"matchExpressions": [{"key": "speed", "operator": "In", "values": ["200G", "100G"]}]}, True),
        ({"matchExpressions": [{"key": "speed", "operator": "NotIn", "values": ["100G"]}]}, False),
        ({"matchExpressions": [{"key": "model", "operator": "NotIn", "values": ["cx7"]}]}, True),
        ({"matchExpressions": [{"key": "speed", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "speed", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "model", "operator": "DoesNotExist"}]}, True),
        ({"matchLabels": {"speed": "100G"}, "matchExpressions": [{"key": "model", "operator": "Exists"}]}, False),
    ],
)
def test_a_selector_matches_as_in_kubernetes(selector: object, is_matched: bool) -> None:
    found = read_annotations({ALLOCATE_HINT: json.dumps({"rdma": {"selector": selector}})})
    assert found.hints["rdma"].selector.matches(LABELS) is is_matched


@pytest.mark.parametrize(
    ("selector", "problem"),
    [
        ({"matchlabels": {}}, "selector: unknown key 'matchlabels'; did you mean matchLabels?"),
        ({"matchLabels": {"speed": 100}}, "selector.matchLabels.speed: expected a text in quotes, got 100"),
        ({"matchExpressions": [{"key": "a"}]}, "selector.matchExpressions[0]: operator is missing"),
        (
            {"matchExpressions": [{"key": "a", "operator": "Is"}]},
            "selector.matchExpressions[0].operator: expected one of In, NotIn, Exists, DoesNotExist, got 'Is'",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "In"}]},
            "selector.matchExpressions[0]: In of 'a': give at least one value",
        ),
        (
            {"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            "selector.matchExpressions[0]: Exists of 'a': leave values out",
        ),
    ],
)
def test_what_kubernetes_would_not_accept_is_an_error(selector: object, problem: str) -> None:
    with pytest.raises(AnnotationError) as caught:
        read_annotations({ALLOCATE_HINT: json.dumps({"rdma": {"selector": selector}})})
    assert str(caught.value) == f"{ALLOCATE_HINT}: rdma.{problem}"
