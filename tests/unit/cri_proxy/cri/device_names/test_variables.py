import json

import pytest

from cri_proxy.cri.device_names.names import MAX_NAMES, DeviceName
from cri_proxy.cri.device_names.variables import MAX_CHARS, named_addresses, named_in_variables

UUID = "83b8f4f2-509f-382f-3c1e-e6bfe0fa1001"


def named(variable: str, value: str) -> list[tuple[str, str]]:
    return [(name.kind, name.text) for name in named_in_variables({variable: value}).names]


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("PCIDEVICE_VENDOR_COM_NIC", "0000:3B:02.1,0000:3b:02.2", [("pci", "0000:3b:02.1"), ("pci", "0000:3b:02.2")]),
        ("PCIDEVICE_VENDOR_COM_SF", "mlx5_core.sf.4", [("auxiliary", "mlx5_core.sf.4")]),
        ("PCIDEVICE_X_INFO", json.dumps({"0000:3b:02.1": {"generic": {"deviceID": "x"}}}), [("pci", "0000:3b:02.1")]),
        ("PCI_RESOURCE_NVIDIA_COM_T4", "0000:65:00.0", [("pci", "0000:65:00.0")]),
        ("MDEV_PCI_RESOURCE_NVIDIA_COM_GRID", f"{UUID},x", [("mediated", UUID)]),
        ("NVIDIA_VISIBLE_DEVICES", "0, GPU-8f,0:1,MIG-aa", [("gpu", t) for t in ("0", "GPU-8f", "0:1", "MIG-aa")]),
    ],
    ids=lambda value: value if isinstance(value, str) and len(value) < 40 else None,
)
def test_a_device_plugins_variable_names_its_devices(
    variable: str, value: str, expected: list[tuple[str, str]]
) -> None:
    assert named(variable, value) == expected


@pytest.mark.parametrize("value", ["", "all", "0,All", "none", "void", ","])
def test_every_gpu_or_none_says_nothing_of_a_place(value: str) -> None:
    assert named("NVIDIA_VISIBLE_DEVICES", value) == []


@pytest.mark.parametrize("value", ["", "eth0", "../../etc", "{", "{}", "[" * 9000, '{"a": 1', "{" * 9000])
def test_what_is_no_device_is_left_out(value: str) -> None:
    assert named("PCIDEVICE_X", value) == []


@pytest.mark.parametrize("variable", ["PATH", "NVIDIA_VISIBLE_DEVICES_OF", "MY_PCIDEVICE_X"])
def test_other_variables_name_none(variable: str) -> None:
    assert named(variable, "0000:3b:02.1") == []


def test_a_device_of_two_variables_is_named_by_the_first() -> None:
    found = named_in_variables({"PCIDEVICE_X": "0000:3b:02.1", "PCIDEVICE_X_INFO": '{"0000:3b:02.1": {}}'})
    assert found.names == (DeviceName("pci", "0000:3b:02.1", "PCIDEVICE_X"),)


def test_no_more_count_than_there_may_be_and_that_is_told() -> None:
    found = named_in_variables({"PCIDEVICE_X": ",".join(f"{number:04x}:00:00.0" for number in range(MAX_NAMES + 1))})
    assert len(found.names) == MAX_NAMES
    assert [problem.partition(":")[0] for problem in found.problems] == ["no locality of all devices of PCIDEVICE_X"]


def test_as_many_as_there_may_be_need_no_word() -> None:
    listed = ",".join(f"{number:04x}:00:00.0" for number in range(MAX_NAMES))
    found = named_in_variables({"PCIDEVICE_X": listed.ljust(MAX_CHARS)})
    assert (len(found.names), found.problems) == (MAX_NAMES, ())


def test_beyond_a_variable_that_is_too_long_none_is_read() -> None:
    found = named_in_variables({"PCIDEVICE_A": " " * (MAX_CHARS + 1), "PCIDEVICE_B": "0000:01:00.0"})
    assert found.names == ()
    assert [problem.partition(":")[0] for problem in found.problems] == ["no locality of all devices of PCIDEVICE_A"]


def test_variables_that_are_too_long_are_not_read() -> None:
    found = named_in_variables({"PCIDEVICE_A": "0000:00:00.0", "PCIDEVICE_B": "0000:01:00.0" + " " * MAX_CHARS})
    assert [name.text for name in found.names] == ["0000:00:00.0"]
    assert len(found.problems) == 1


def test_any_text_of_pci_addresses_is_a_list_of_them_only_as_a_whole() -> None:
    assert [name.text for name in named_addresses("0000:3B:00.0, 0000:3b:00.1", "")] == ["0000:3b:00.0", "0000:3b:00.1"]
    assert named_addresses("0000:3b:00.0,eth0", "") == ()
