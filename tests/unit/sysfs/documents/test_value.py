import pytest

from sysfs.documents.forms import TEXT, each, truth
from sysfs.documents.value import DocumentValue


class Wrong(Exception):
    """The error of these values."""


def value(plain: object) -> DocumentValue:
    return DocumentValue(plain, Wrong)


def test_plain_values_are_read_as_their_texts() -> None:
    assert [item.text("it") for item in value(["a", 1, 2.5, True]).items("it")] == ["a", "1", "2.5", "true"]
    assert value({"a": False}).entries("it")["a"].parsed("it", truth) is False
    assert value(None).is_null
    assert value(None).items("it") == []


@pytest.mark.parametrize(
    ("plain", "is_scalar", "is_list", "is_mapping"), [("a", 1, 0, 0), ((1,), 0, 1, 0), ({}, 0, 0, 1)]
)
def test_a_value_is_a_scalar_a_list_or_a_mapping(plain: object, is_scalar: int, is_list: int, is_mapping: int) -> None:
    found = value(plain)
    assert (found.is_scalar, found.is_list, found.is_mapping) == (is_scalar, is_list, is_mapping)


def test_an_item_of_a_list_is_named_by_its_place_where_no_line_is_known() -> None:
    with pytest.raises(Wrong, match=r"it\[1\]: expected a text or number, got a list"):
        each(TEXT).read(value(["a", []]), "it", None)


def test_errors_are_those_of_the_document() -> None:
    with pytest.raises(Wrong, match="it: unknown key 'alpa'; did you mean alpha"):
        value({"alpa": 1}).mapping(("alpha",), "it")
    with pytest.raises(Wrong, match="it: expected a list, got 'x'"):
        value("x").items("it")
