import json

import pytest

from cri_proxy.cri.device_names.names import MAX_NAMES
from cri_proxy.cri.status_fields import (
    MAX_INFO_CHARACTERS,
    fields_at,
    has_variable,
    info_of,
    known_cdi_names,
    number_in,
    pod_figures,
    text_in,
)


def test_only_one_json_object_of_bounded_size_counts() -> None:
    assert info_of({"info": '{"pid": 1}'}) == {"pid": 1}
    assert [info_of({"info": text}) for text in ("", "[1]", "{", "[" * 100_000)] == [{}, {}, {}, {}]
    assert info_of({"info": json.dumps({"pad": " " * MAX_INFO_CHARACTERS})}) == {}
    assert info_of({}) == {}


def test_a_path_that_is_not_there_is_an_empty_object() -> None:
    assert fields_at({"a": {"b": {"c": 1}}}, "a", "b") == {"c": 1}
    others: list[object] = [None, {"a": []}, {"a": {"b": 3}}]
    assert [fields_at(value, "a", "b") for value in others] == [{}, {}, {}]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        (5, 5),
        ("200000", 200000),
        ("-1", -1),
        (True, 0),
        ("x", 0),
        (1 << 63, 0),
        ("9" * 19, 0),
        ("9" * 9999, 0),
        (1.5, 0),
    ],
)
def test_a_number_has_64_bits_and_may_be_written_as_text(value: object, number: int) -> None:
    assert number_in({"n": value}, "n") == number


def test_a_text_is_nothing_else() -> None:
    assert (text_in({"t": "a"}, "t"), text_in({"t": 1}, "t"), text_in({}, "t")) == ("a", "", "")


def test_cdi_names_are_those_of_the_field_and_of_the_annotations_of_older_kubelets() -> None:
    info = {"config": {"CDI_devices": [{"name": "v.com/c=b"}, {"name": 3}, "x", {}]}}
    annotations = {"cdi.k8s.io/claim": "v.com/c=a", "other": "v.com/c=z"}
    assert known_cdi_names(info, annotations) == ("v.com/c=a", "v.com/c=b")
    assert known_cdi_names({"config": {"CDI_devices": {"name": "v.com/c=b"}}}, {}) == ()


def test_a_bounded_number_of_names_counts() -> None:
    many = [{"name": f"v.com/c=d{number:04}"} for number in range(2 * MAX_NAMES)]
    assert len(known_cdi_names({"config": {"CDI_devices": many}}, {"cdi.k8s.io/x": "v.com/c=e"})) == MAX_NAMES


def test_a_variable_is_found_by_its_prefix() -> None:
    info = {"runtimeSpec": {"process": {"env": [1, "PATH=/bin", "DRA_CPUSET_a=1"]}}}
    assert (has_variable(info, "DRA_CPUSET_"), has_variable(info, "CUDA")) == (True, False)
    assert not has_variable({"runtimeSpec": {"process": {"env": "DRA_CPUSET_a"}}}, "DRA_CPUSET_")


def test_the_pods_cpu_figures_are_those_of_its_sandbox() -> None:
    kept = {"cpu_period": "100000", "cpu_quota": "300000", "cpu_shares": 3072}
    figures = pod_figures({"config": {"linux": {"resources": kept}}})
    assert (figures.cpu_period, figures.cpu_quota, figures.cpu_shares) == (100_000, 300_000, 3072)
    assert not pod_figures({"runtimeSpec": {}}).ByteSize()
