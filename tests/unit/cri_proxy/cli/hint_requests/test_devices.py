import pytest

from cri_proxy.cli.hint_requests.devices import read_devices
from cri_proxy.yaml_fields import DocumentError
from policies.hints import DeviceRequest
from tests.unit.cri_proxy.cli.hint_requests.build import field

TWO_NODES = 0b11


def read(text: str, *, has_preferred_sets: bool = False) -> DeviceRequest:
    provider = read_devices(field(f"example.com/gpu: {text}"), TWO_NODES, has_preferred_sets=has_preferred_sets)
    return provider.requests["example.com/gpu"]


def test_devices_are_available_unless_unhealthy_used_or_reusable() -> None:
    devices = "{a: [0], b: [1], c: [0, 1], d: [0], e: [1]}"
    found = read(f"{{request: 1, devices: {devices}, unhealthy: [a], used: [b], reusable: [c], allocated: [d]}}")
    assert (found.available, found.reusable, found.allocated) == (frozenset("de"), frozenset("c"), frozenset("d"))
    assert found.nodes == {"a": 0b01, "b": 0b10, "c": 0b11, "d": 0b01, "e": 0b10}


def test_a_device_without_nodes_differs_from_one_on_other_nodes() -> None:
    found = read("{request: 1, devices: {a: [], b: null, c: [-1], d: [9, 1], e: [123456789]}}")
    assert found.nodes == {"a": None, "b": None, "c": 0, "d": 0b10, "e": 0}


def test_preferred_sets_are_read_only_where_they_are_used() -> None:
    text = "{request: 2, devices: {a: [0], b: [1]}, preferred: [[a, b]]}"
    assert read(text).preferred_sets is None
    assert read(text, has_preferred_sets=True).preferred_sets == (frozenset("ab"),)
    assert read("{request: 2, devices: {a: [0]}}", has_preferred_sets=True).preferred_sets is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{devices: {}}", "devices.example.com/gpu: give request: NUMBER and devices: {ID: [NODE]}"),
        ("{request: -1, devices: {}}", "devices.example.com/gpu.request: expected a whole number from 0, got '-1'"),
        (
            "{request: 1, devices: {a: [x]}}",
            "devices.example.com/gpu.devices.a: expected a whole number from 0, got 'x'",
        ),
        ("{request: 1, devices: {a: 0}}", "devices.example.com/gpu.devices.a: expected a list, got '0'"),
        (
            "{request: 1, devices: {a: [0]}, used: [b]}",
            "devices.example.com/gpu.used: 'b' is no device of this resource; they are a",
        ),
        ("{request: 1, devices: {a: [0]}, used: [a, a]}", "devices.example.com/gpu.used: 'a' stands twice"),
        ("{request: 1, devices: {a: [0], a: [1]}}", "devices.example.com/gpu.devices: 'a' stands twice"),
    ],
)
def test_a_request_that_cannot_be_is_refused(text: str, expected: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read(text)
    assert caught.value.problem == expected


@pytest.mark.parametrize("name", ["cpu", "memory", "hugepages-2Mi"])
def test_a_resource_of_another_provider_is_no_device(name: str) -> None:
    with pytest.raises(DocumentError, match=r"is no resource of devices; name it as example\.com/gpu"):
        read_devices(field(f"{name}: {{}}"), TWO_NODES, has_preferred_sets=False)
