import pytest

from cri_proxy.runtime.embedded.state import Image, NodeState, RefusedCall, Sandbox, full_reference, matches_labels
from tests.fakes.machines import small_machine


def node_with(*ids: str) -> NodeState:
    node = NodeState(small_machine(), lambda: 1)
    node.sandboxes = {i: Sandbox(i, config=None, name=i, runtime_handler="", created_at_ns=1) for i in ids}  # type: ignore[arg-type]  # not looked at
    return node


@pytest.mark.parametrize(
    ("wanted", "found"), [("abc1", "abc1"), ("abd", "abd2"), ("abc", None), ("x", None), ("", None)]
)
def test_a_thing_is_found_by_its_id_or_an_unambiguous_prefix(wanted: str, found: str | None) -> None:
    node = node_with("abc1", "abc2", "abd2")
    if found:
        assert node.sandbox(wanted, "words").id == found
    else:
        with pytest.raises(RefusedCall, match=r"^words: "):
            node.sandbox(wanted, "words")


def test_an_id_that_is_a_prefix_of_another_is_found_exactly() -> None:
    assert node_with("ab", "abc").sandbox("ab", "words").id == "ab"


def test_ids_are_new_each_time_and_the_same_in_every_run() -> None:
    first, second = (NodeState(small_machine(), lambda: 1) for _ in range(2))
    ids = [first.new_id() for _ in range(3)]
    assert len(set(ids)) == 3
    assert [second.new_id() for _ in range(3)] == ids
    assert {len(i) for i in ids} == {64}


def test_an_id_that_stands_here_already_is_not_given_again() -> None:
    """As of a captured node, whose runtime may have been an embedded one too."""
    first, second = (NodeState(small_machine(), lambda: 1).new_id() for _ in range(2))
    assert first == second
    assert node_with(first).new_id() != first


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("busybox", "docker.io/library/busybox:latest"),
        ("team/app:2", "docker.io/team/app:2"),
        ("localhost/app", "localhost/app:latest"),
        ("reg.example:5000/app", "reg.example:5000/app:latest"),
        ("reg.example/app@sha256:12", "reg.example/app@sha256:12"),
    ],
)
def test_image_names_are_completed_as_image_tools_do(short: str, full: str) -> None:
    assert full_reference(short) == full


def test_an_image_is_found_by_name_id_and_digest() -> None:
    node, image = node_with(), Image.named("busybox")
    node.images[image.reference] = image
    assert [node.image(r) for r in ("busybox:latest", image.id, image.repo_digest)] == [image] * 3
    assert (node.image("other"), node.image("")) == (None, None)


def test_a_selector_needs_every_label() -> None:
    assert matches_labels({"a": "1", "b": "2"}, {"a": "1"})
    assert not matches_labels({"a": "1"}, {"a": "1", "b": "2"})
    assert matches_labels({}, {})
