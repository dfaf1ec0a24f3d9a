"""The group of a node, as a label in any of the forms in which a file has it."""

import json

import pytest

from cri_proxy.bounded_yaml import Dialect, Tree, parse_tree
from cri_proxy.config.node_group import GROUP_LABELS, group_in, group_of_node

LABELS = {"kubernetes.io/os": "linux", "config.nri/group": "rt"}
NODE = {"kind": "Node", "metadata": {"name": "w1", "labels": LABELS}, "status": {"images": [{"sizeBytes": 5}]}}


def tree(value: object) -> Tree:
    found = parse_tree(json.dumps(value), Dialect(1 << 16, 16, 1000))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "group"),
    [
        ("", ""),
        ("rt\n", "rt"),
        ("7", "7"),
        ('app="agent"\nconfig.nri/group="rt"', "rt"),
        ('cri-resource-manager.intel.com/group="b"\ncri-proxy.io/group="a"\n', "a"),
        ('app="agent"\n', ""),
        ('config.nri/group=""\n', ""),
        (json.dumps(NODE), "rt"),
        ("apiVersion: v1\nkind: Node\nmetadata:\n  labels: {resource-policy.nri.io/group: rt}\n", "rt"),
        ("kind: Node\nmetadata: {name: w1}\n", ""),
    ],
)
def test_a_group_is_read_from_a_word_labels_and_a_node(text: str, group: str) -> None:
    assert group_in(text) == group


@pytest.mark.parametrize(
    "text",
    [
        "../../etc",
        "two words",
        'config.nri/group="../x"',
        "kind: Pod\nmetadata: {labels: {config.nri/group: rt}}",
        "kind: Node\nmetadata: {labels: {config.nri/group: a/b}}",
        "kind: [",
        f"kind: Node\nx: {'[' * 40}",
    ],
)
def test_any_other_text_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(ValueError, match=r"^expected a group's name \(letters, .* or a Node$"):
        group_in(text)


def test_the_label_of_ours_counts_before_those_of_peers() -> None:
    for count in range(1, len(GROUP_LABELS) + 1):
        labels = {key: str(place) for place, key in enumerate(GROUP_LABELS[-count:])}
        assert group_of_node([tree({"kind": "Node", "metadata": {"name": "w1", "labels": labels}})], "w1") == "0"


def test_only_the_node_of_this_name_counts_and_a_wrong_label_is_none() -> None:
    named = [tree({"kind": kind, "metadata": NODE["metadata"]}) for kind in ("Pod", "Node")]
    assert [group_of_node(named, name) for name in ("w1", "w2", "")] == ["rt", "", ""]
    wrong = tree({"kind": "Node", "metadata": {"name": "w1", "labels": {"config.nri/group": "a/b"}}})
    assert group_of_node([wrong, tree([1])], "w1") == ""
