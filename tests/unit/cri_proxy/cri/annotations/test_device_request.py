import re

import pytest

from cri_proxy.cri.annotations.device_request import MAX_COUNT, MAX_TYPES, amounts_text, device_amounts
from cri_proxy.cri.annotations.values import parse_text
from policies.device_requests import DeviceAmount
from tests.fakes.annotations import parse_annotations

GPU, NIC = DeviceAmount("example.com/gpu", 2), DeviceAmount("example.com/nic", 1)


def asked(text: str, container: str = "c0", key: str = "cri-proxy.io/device-request") -> tuple[DeviceAmount, ...]:
    return parse_annotations({key: text}, container).preferences.devices.counts


def problem(text: str, container: str = "c0") -> str:
    parsed = parse_annotations({"cri-proxy.io/device-request": text}, container)
    assert parsed.preferences.devices.counts == ()
    return "; ".join(found.problem for found in parsed.problems)


@pytest.mark.parametrize(
    "text",
    [
        "example.com/gpu=2,example.com/nic=1",
        " example.com/nic = 1 , example.com/gpu = 2 ",
        '{"example.com/gpu": 2, "example.com/nic": 1}',
        "example.com/gpu: 2\nexample.com/nic: '1'",
        "c0: example.com/gpu=2,example.com/nic=1",
        '{c0: "example.com/gpu=2,example.com/nic=1", c1: none}',
        "{c0: {example.com/gpu: 2, example.com/nic: 1}}",
    ],
)
def test_every_form_gives_the_amounts_by_type(text: str) -> None:
    assert asked(text) == (GPU, NIC)


def test_the_narrower_value_counts_and_none_takes_the_wider_one_away() -> None:
    both = {"cri-proxy.io/device-request": "example.com/gpu=2", "device-request.cri-proxy.io/container.c1": "none"}
    assert [parse_annotations(both, name).preferences.devices.counts for name in ("c0", "c1")] == [(GPU,), ()]


def test_a_type_without_a_slash_is_told_from_a_container_by_standing_under_one() -> None:
    assert asked("{nic: nic=1}", "nic") == asked("{nic: {nic: 1}}", "nic") == (DeviceAmount("nic", 1),)
    assert asked("nic=1", key="device-request.cri-proxy.io/container.c0") == (DeviceAmount("nic", 1),)
    assert asked("{nic: nic=1}") == ()


def test_the_request_names_where_it_was_read() -> None:
    parsed = parse_annotations({"device-request.cri-proxy.io/pod": "example.com/gpu=2"}, "c0")
    assert parsed.origins == (("devices.counts", "device-request.cri-proxy.io/pod"),)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cpu=2", "CPUs are asked for in the resources"),
        ("{c0: memory=1}", "memory is asked for in the resources"),
        ("example.com/gpu=1,pci=1", "has a name of its own in a cost file"),
        ("example.com/gpu=0", "0 devices; ask for one or more, or leave the type out"),
        ("example.com/gpu=-1", "-1 devices; ask for one or more"),
        (f"example.com/gpu={MAX_COUNT + 1}", f"more than the {MAX_COUNT}"),
        ("example.com/gpu=99999999999999999999", f"more than the {MAX_COUNT}"),
        ("example.com/gpu=999999999999999999999999", "expected a number of devices"),
        ("example.com/gpu=1.5", "expected a number of devices, not '1.5'"),
        ("{example.com/gpu: true}", "expected a number of devices, not True"),
        ("{example.com/gpu: [1]}", "expected a number of devices"),
        ("example.com/gpu=1,example.com/gpu=2", "example.com/gpu is named twice"),
        ("example.com/gpu", "expected TYPE=COUNT pairs"),
        ("2", "expected TYPE=COUNT pairs"),
        ("[example.com/gpu=1]", "expected TYPE=COUNT pairs"),
        ("example.com/gpu/=1", "'example.com/gpu/' is no type of devices"),
        ("/gpu=1", "'/gpu' is no type of devices"),
        ("exämple.com/gpu=1", "is no type of devices"),
        (f"{'a' * 400}/gpu=1", "is no type of devices"),
        ("{c0: example.com/gpu=1, example.com/nic=1}", "put the pairs into quotes, before 'example.com/nic=1'"),
        ("{c0: example.com/gpu=1, example.com/nic: 1}", "c0: expected a number of devices"),
        (",".join(f"example.com/t{i}=1" for i in range(MAX_TYPES + 1)), f"may ask for {MAX_TYPES}"),
    ],
)
def test_a_wrong_request_is_a_problem_that_names_it(text: str, words: str) -> None:
    assert words in problem(text)


def test_an_empty_map_in_the_place_of_a_request_is_none() -> None:
    with pytest.raises(ValueError, match=re.escape("expected TYPE=COUNT")):
        device_amounts(parse_text("{}"))


def test_the_amounts_are_worded_as_they_are_written() -> None:
    assert amounts_text((GPU, NIC)) == "example.com/gpu=2,example.com/nic=1"
    assert amounts_text(()) == ""
