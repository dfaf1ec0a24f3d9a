from collections.abc import Callable

import pytest

from policies.devices.fields import AnnotationError, FieldError, list_of, mapping_of, object_of, text_of, word_of


def test_a_null_field_is_absent() -> None:
    assert object_of({"a": None}, "hint", ("a",)) == {}


@pytest.mark.parametrize(
    ("read", "problem"),
    [
        (lambda: object_of({"selekt": 1}, "rdma", ("select",)), "rdma: unknown field 'selekt'; did you mean select?"),
        (lambda: object_of({"z": 1}, "rdma", ("selector",)), "rdma: unknown field 'z'; known: selector"),
        (lambda: mapping_of([], "rdma"), "rdma: expected an object in braces, got []"),
        (lambda: list_of("gpu", "deviceTypes"), "deviceTypes: expected a list in brackets, got 'gpu'"),
        (lambda: text_of(1, "key"), "key: expected a text in quotes, got 1"),
        (lambda: word_of("x", "scope", ("PCIe", "Node")), "scope: expected one of PCIe, Node, got 'x'"),
        (lambda: word_of("Nodes", "scope", ("Node",)), "scope: expected one of Node, got 'Nodes'; did you mean Node?"),
    ],
)
def test_an_error_names_the_field_the_value_and_the_remedy(read: Callable[[], object], problem: str) -> None:
    with pytest.raises(FieldError) as caught:
        read()
    assert str(caught.value) == problem


def test_an_error_of_an_annotation_names_it() -> None:
    assert str(AnnotationError("example.com/hint", "not JSON")) == "example.com/hint: not JSON"
