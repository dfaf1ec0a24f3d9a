import pytest

from cri_proxy.bounded_yaml import Dialect
from cri_proxy.yaml_fields import DocumentError, YamlField
from sysfs.documents.forms import (
    NODES,
    TEXT,
    by_key,
    by_name,
    cpu_list,
    each,
    integer,
    matching,
    node_number,
    one_of,
    scalar,
    whole,
)
from sysfs.documents.table import plain


def field(text: str) -> YamlField:
    (root,) = YamlField.documents(text, "f", Dialect(max_bytes=1000, max_depth=9, max_nodes=99))
    return root


def test_lists_and_mappings_are_read_and_written_value_by_value() -> None:
    counts = by_name(each(scalar(whole, lambda number: f"{number}")))
    assert counts.read(field("{a: [1, 2], b: null}"), "it", None) == {"a": (1, 2), "b": ()}
    assert counts.write({"a": (1, 2)}) == {"a": ["1", "2"]}


def test_an_error_in_a_mapping_names_its_key() -> None:
    with pytest.raises(DocumentError, match=r"it\.a: expected a text or number, got a list"):
        by_name(TEXT).read(field("{a: []}"), "it", None)


def test_sets_and_tuples_have_lists_in_json() -> None:
    assert plain({"a": ((1,), "b", None)}) == {"a": [[1], "b", None]}


def test_a_word_is_one_of_a_few() -> None:
    with pytest.raises(ValueError, match=r"expected one of zero, mirror, got 'miror'; did you mean mirror\?"):
        one_of(("zero", "mirror"))("miror")


def test_an_empty_word_is_taken_where_it_is_the_default_and_not_offered() -> None:
    assert one_of(("", "PCIe"))("") == ""
    with pytest.raises(ValueError, match="expected one of PCIe, got 'x'"):
        one_of(("", "PCIe"))("x")


@pytest.mark.parametrize("text", ["-1", "1.5", "", "²"])
def test_a_number_that_is_none_is_shown_as_it_is_written(text: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number from 0, got"):
        whole(text)


@pytest.mark.parametrize("text", ["010", "00", "08"])
def test_a_number_with_leading_zeros_is_refused_since_yaml_has_two_readings_of_it(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' may be meant as an octal number: write it without leading zeros"):
        whole(text)


def test_a_number_has_as_many_digits_as_fit_into_64_bits() -> None:
    assert whole("9" * 18) == 10**18 - 1
    with pytest.raises(ValueError, match="at most 18 digits"):
        whole("9" * 19)


def test_a_kernel_has_1024_nodes() -> None:
    assert node_number("1023") == 1023
    with pytest.raises(ValueError, match="expected a node from 0 to 1023, got '1024'"):
        node_number("1024")


def test_a_key_that_reads_the_same_twice_is_refused() -> None:
    with pytest.raises(DocumentError, match="it: 'A' stands twice"):
        by_key(field("{a: 1, A: 2}"), "it", str.casefold)
    with pytest.raises(DocumentError, match="it: expected a whole number"):
        by_key(field("{a: 1}"), "it", whole)


def test_a_node_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    assert NODES.read(field("[0, 2]"), "it", 0b101) == 0b101
    assert NODES.write(0b101) == [0, 2]
    with pytest.raises(DocumentError, match="it: there is no node 1; the nodes are 0,2"):
        NODES.read(field("[0, 1]"), "it", 0b101)


def test_a_cpu_list_is_a_text_a_number_or_a_list() -> None:
    texts = ("'0-1,3'", "[0, 1, 3]", "[0, '1,3']", "3", "''", "[]")
    assert [str(cpu_list(field(text), "it")) for text in texts] == ["0-1,3"] * 3 + ["3", "", ""]
    with pytest.raises(DocumentError, match="it: expected a text or number, got a list"):
        cpu_list(field("[[1]]"), "it")


@pytest.mark.parametrize("text", ["0", "11", "true", "'3'", "2.0", "[1]"])
def test_an_integer_is_written_as_a_number_within_bounds(text: str) -> None:
    assert integer(1, 10).read(field("10"), "it", None) == 10
    with pytest.raises(DocumentError, match="it: expected a whole number from 1 to 10, got"):
        integer(1, 10).read(field(text), "it", None)


def test_a_text_matches_as_a_whole() -> None:
    assert matching("/.*", "a path")("/a") == "/a"
    with pytest.raises(ValueError, match="expected a path, got 'a/'"):
        matching("/.*", "a path")("a/")
