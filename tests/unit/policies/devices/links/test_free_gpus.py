import pytest

from policies.devices.links import FREE_ANNOTATION, FREE_LABEL, free_text, read_free_gpus


@pytest.mark.parametrize("gpus", [frozenset(), frozenset({0}), frozenset({0, 1, 2, 5, 7}), frozenset(range(16))])
def test_what_is_published_is_read_back_from_a_label_or_an_annotation(gpus: frozenset[int]) -> None:
    text = free_text(gpus)
    assert read_free_gpus({FREE_LABEL: text}) == read_free_gpus({FREE_ANNOTATION: text, FREE_LABEL: "0"}) == gpus


@pytest.mark.parametrize("text", ["", "0,1", "3-1", "0-999999", "all", 7, None, "0.1.", "-"])
def test_what_is_no_list_says_nothing(text: object) -> None:
    assert read_free_gpus({FREE_LABEL: text}) is None
