import pytest

from sysfs.cpuset import CpuSet, NodeSet
from sysfs.model import Device
from sysfs.pci import is_address, parse_address, read_devices
from sysfs.reader import TreeReader
from tests.fakes.sysfs_tree import memory_tree

PORT = "sys/devices/pci0000:10/0000:10:01.0"
CARD = f"{PORT}/0000:11:00.0"
BUS = {
    "sys/bus/pci/devices/0000:10:01.0": "../../../devices/pci0000:10/0000:10:01.0",
    "sys/bus/pci/devices/0000:11:00.0": "../../../devices/pci0000:10/0000:10:01.0/0000:11:00.0",
}


def files(path: str, **changes: str) -> dict[str, str]:
    plain = {"class": "0x060400", "vendor": "0x8086", "device": "0x1234", "numa_node": "0", "local_cpulist": "0-3"}
    return {f"{path}/{name}": content for name, content in {**plain, **changes}.items()}


def read(contents: dict[str, str], links: dict[str, str]) -> tuple[list[Device], tuple[str, ...]]:
    reader = TreeReader(memory_tree(contents, links))
    return read_devices(reader, CpuSet.parse("0-2"), NodeSet.of([0])), reader.notes


def test_a_device_knows_its_way_from_the_host_bridge_and_its_online_cpus() -> None:
    devices, _ = read({**files(PORT), **files(CARD, **{"class": "0x030200"})}, BUS)
    assert [d.bridges for d in devices] == [("pci0000:10",), ("pci0000:10", "0000:10:01.0")]
    assert (devices[1].class_code, devices[1].vendor, str(devices[1].local_cpus)) == (0x030200, 0x8086, "0-2")


def test_without_the_bus_the_device_tree_is_walked() -> None:
    devices, _ = read({**files(PORT), **files(CARD)}, {})
    assert [d.address for d in devices] == ["0000:10:01.0", "0000:11:00.0"]


def test_a_virtual_function_names_its_physical_one() -> None:
    devices, _ = read({**files(PORT), **files(CARD)}, {**BUS, f"{CARD}/physfn": "../0000:11:00.1"})
    assert [d.physical_function for d in devices] == ["", "0000:11:00.1"]


@pytest.mark.parametrize(("node", "taken", "notes"), [("-1", -1, 0), ("0", 0, 0), ("5", -1, 1)])
def test_a_node_that_is_not_online_is_unknown(node: str, taken: int, notes: int) -> None:
    devices, found = read(files(PORT, numa_node=node), {})
    assert (devices[0].node, len(found)) == (taken, notes)


@pytest.mark.parametrize("name", ["class", "vendor", "device", "numa_node", "local_cpulist"])
def test_a_device_that_cannot_be_read_is_left_out_and_noted(name: str) -> None:
    devices, notes = read({**files(PORT, **{name: "?"}), **files(CARD)}, BUS)
    assert [d.address for d in devices] == ["0000:11:00.0"]
    assert f"{PORT}/{name}" in notes[0]


@pytest.mark.parametrize(
    ("text", "is_one"), [("0000:3b:00.0", True), ("10000:3b:00.0", True), ("3b:00.0", False), ("0000:3b:00.8", False)]
)
def test_addresses_are_in_full(text: str, is_one: bool) -> None:
    assert is_address(text) == is_one


@pytest.mark.parametrize("text", ["3b:00.0", "0000:3B:00.0", "00000000:3b:00.0"])
def test_an_address_may_be_written_as_people_and_tools_do(text: str) -> None:
    assert parse_address(text) == "0000:3b:00.0"


@pytest.mark.parametrize("text", ["", ":3b:00.0", "0:3b:00.0", "0000:3b:00", "0000:3b:00.8", "000000000:3b:00.0", "x"])
def test_what_is_no_address_is_shown(text: str) -> None:
    with pytest.raises(ValueError, match=f"expected a PCI address like 0000:3b:00.0, got '{text}'"):
        parse_address(text)
