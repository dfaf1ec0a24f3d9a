import pytest

from cri_proxy.cli.hint_requests.values import amounts_of_memory, by_key, cpu_mask, given, names, node_mask, whole
from cri_proxy.yaml_fields import DocumentError
from tests.unit.cri_proxy.cli.hint_requests.build import field


def test_null_is_as_good_as_absent() -> None:
    assert list(given(field("{a: 1, b: null, c: {}}").entries("it"))) == ["a", "c"]


def test_a_cpu_list_is_a_text_or_a_list() -> None:
    assert [cpu_mask(field(text), "it") for text in ("'0-1,3'", "[0, 1, 3]", "''", "[]")] == [0b1011, 0b1011, 0, 0]


@pytest.mark.parametrize("text", ["-1", "1.5", "", "1" * 19, "²"])
def test_a_number_that_is_none_is_shown_as_it_is_written(text: str) -> None:
    with pytest.raises(ValueError, match="expected a whole number from 0, got"):
        whole(text)


def test_a_key_that_reads_the_same_twice_is_refused() -> None:
    with pytest.raises(DocumentError, match="it: 'A' stands twice"):
        by_key(field("{a: 1, A: 2}"), "it", str.casefold)


@pytest.mark.parametrize("text", ["010", "00", "08"])
def test_a_number_with_leading_zeros_is_refused_since_yaml_has_two_readings_of_it(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' may be meant as an octal number: write it without leading zeros"):
        whole(text)


def test_a_node_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    assert node_mask(field("[0, 2]"), "it", 0b101) == 0b101
    with pytest.raises(DocumentError, match="it: there is no node 1; the nodes are 0,2"):
        node_mask(field("[0, 1]"), "it", 0b101)


def test_a_name_stands_once() -> None:
    assert names(field("[a, 1]"), "it") == ("a", "1")
    assert names(None, "it") == ()
    with pytest.raises(DocumentError, match="it: 'a' stands twice"):
        names(field("[a, b, a]"), "it")


def test_memory_is_in_quantities_by_resource() -> None:
    assert amounts_of_memory(field("{memory: 1Ki, hugepages-2Mi: 2}"), "it") == {"memory": 1024, "hugepages-2Mi": 2}
    for text in ("{hugepages-: 1}", "{Memory: 1}"):
        with pytest.raises(DocumentError, match="it: unknown resource"):
            amounts_of_memory(field(text), "it")
