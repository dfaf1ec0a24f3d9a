import pytest

from policies.device_grants import DeviceGrant
from policies.devices import (
    PluginVariableError,
    allocated_annotations,
    allocated_variables,
    read_annotated,
)
from tests.unit.policies.devices.build import plugin_given

VF = plugin_given("rdma", 1, 1, "0000:51:00.1")
SHARE = plugin_given("rdma", 2, 25)
SETS = (
    (),
    (plugin_given("gpu", 0),),
    (plugin_given("gpu", 10), plugin_given("gpu", 2)),
    (VF, SHARE),
    (plugin_given("gpu", 3), plugin_given("rdma", 1), plugin_given("fpga", 0)),
)


@pytest.mark.parametrize("devices", SETS)
def test_what_is_written_is_read_again(devices: tuple[DeviceGrant, ...]) -> None:
    assert read_annotated(allocated_annotations(devices)) == devices


def test_the_texts_are_those_of_the_contract() -> None:
    devices = (plugin_given("gpu", 0), plugin_given("gpu", 1), VF, SHARE)
    assert allocated_variables(devices) == {
        "CRI_PROXY_ALLOCATED_GPU": "0,1",
        "CRI_PROXY_ALLOCATED_RDMA": "1@0000:51:00.1,2:25",
    }
    assert allocated_annotations(devices)["allocated.cri-proxy.io/rdma"] == "1@0000:51:00.1,2:25"


def test_other_annotations_and_empty_ones_name_no_device() -> None:
    assert read_annotated({"a/b": "1", "allocated.cri-proxy.io/gpu": "", "allocated.cri-proxy.io/tpu": "0"}) == ()


def test_addresses_are_compared_in_lower_case() -> None:
    assert read_annotated({"allocated.cri-proxy.io/rdma": "0@0000:5A:00.1"})[0].vf == "0000:5a:00.1"


def test_the_same_device_of_two_types_is_two_devices() -> None:
    texts = {"allocated.cri-proxy.io/gpu": "1", "allocated.cri-proxy.io/fpga": "1"}
    assert [device.kind for device in read_annotated(texts)] == ["gpu", "fpga"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a", "expected MINOR, MINOR@VF or MINOR:UNITS"),
        ("0, 1", "expected MINOR"),
        ("0,", "expected MINOR"),
        ("-1", "expected MINOR"),
        ("١", "expected MINOR"),
        ("1@a@b", "expected MINOR"),
        ("1@a/b", "expected MINOR"),
        ("1:0", "1:0: a device has 1 to 100 units"),
        ("1:101", "1:101: a device has 1 to 100 units"),
        ("0,1,0", "rdma 0 stands twice"),
        ("1:25,1:50", "rdma 1 stands twice"),
        ("1@A,1@a", "rdma 1 a stands twice"),
        (",".join(map(str, range(1025))), "more than 1024 devices"),
    ],
)
def test_a_text_that_the_plugin_never_writes_is_an_error_with_name_and_value(text: str, problem: str) -> None:
    with pytest.raises(PluginVariableError, match="cannot use") as caught:
        read_annotated({"allocated.cri-proxy.io/rdma": text})
    assert str(caught.value).startswith(f"allocated.cri-proxy.io/rdma: cannot use {text[:80]!r}: {problem}")


def test_as_many_devices_as_are_read_can_be_given() -> None:
    assert len(read_annotated({"allocated.cri-proxy.io/gpu": ",".join(map(str, range(1024)))})) == 1024
