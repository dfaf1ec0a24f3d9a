from collections.abc import Callable

import pytest

from policies.devices import AnnotationError
from policies.devices.label_selector import JsonValue


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda: JsonValue({"selekt": 1}).mapping(("select",), "rdma"), "rdma: unknown key 'selekt'; did you mean sel"),
        (lambda: JsonValue([]).entries("rdma"), "rdma: expected an object in braces, got []"),
        (lambda: JsonValue("gpu").items("deviceTypes"), "deviceTypes: expected a list in brackets, got 'gpu'"),
        (lambda: JsonValue(1).text("key"), "key: expected a text in quotes, got 1"),
        (lambda: JsonValue({"a": "b"}).text("key"), "key: expected a text in quotes, got {'a': 'b'}"),
        (lambda: JsonValue(["x" * 99]).text("key"), f"key: expected a text in quotes, got ['{'x' * 57}…"),
    ],
)
def test_an_error_names_the_field_the_value_and_the_remedy(read: Callable[[], object], problem: str) -> None:
    with pytest.raises(ValueError) as caught:
        read()
    assert str(caught.value).startswith(problem)


def test_an_error_of_an_annotation_names_it() -> None:
    assert str(AnnotationError("example.com/hint", "not JSON")) == "example.com/hint: not JSON"
