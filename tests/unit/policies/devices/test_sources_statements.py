import pytest

from policies.devices import DeviceInventory, InventoryDevice, JoinedDevices, PciePath, Statement
from sysfs.cpuset import NodeSet

BUS = "0000:3b:00.0"
SCAN = Statement("the scan", NodeSet.of([1]), "0000:3a:00.0", PciePath("pci0000:3a", ("0000:3a:00.0",), BUS))
FILE = "devices.yaml line 2"


def apart(*statements: Statement) -> list[str]:
    return [*JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0, statements=statements),))).disagreements]


def test_two_nodes_are_a_finding_with_both_sources_and_which_counts() -> None:
    (found,) = apart(Statement(FILE, NodeSet.of([0])), SCAN)
    assert found == "gpu 0: devices.yaml line 2 puts it at NUMA node 0, the scan at NUMA node 1; the former counts"
    assert apart(Statement(FILE, NodeSet.of([0, 1])), SCAN) == []


def test_another_path_is_a_finding() -> None:
    (found,) = apart(Statement(FILE, path=PciePath("pci0000:80", bus=BUS)), SCAN)
    assert found == (
        "gpu 0: devices.yaml line 2 puts it below pci0000:80, the scan below pci0000:3a 0000:3a:00.0; the former counts"
    )
    assert apart(Statement(FILE, pcie="0000:80:01.0"), SCAN)
    assert apart(Statement(FILE, path=PciePath("pci0000:3a", ("0000:80:01.0",), BUS)), SCAN)


@pytest.mark.parametrize("pcie", ["", "switch0", "pci0000:3a", "PCI0000:3A", "0000:3A:00.0", "3a:00.0", BUS])
def test_a_name_of_its_own_or_a_part_of_the_path_is_none(pcie: str) -> None:
    assert apart(Statement(FILE, pcie=pcie), SCAN) == []
    assert apart(Statement(FILE, path=PciePath(pcie, ("plx-1",))), SCAN) == []
    assert apart(Statement(FILE, pcie="0000:80:01.0"), Statement("the scan", path=PciePath(bus=BUS))) == []


def test_another_identifier_is_a_finding_and_a_shorter_one_is_none() -> None:
    driver = Statement("the NVIDIA driver", uuid="GPU-5a12b7cd-0011-2233-4455-66778899aabb")
    (found,) = apart(Statement(FILE, uuid="GPU-6b"), driver)
    assert (
        found == f"gpu 0: devices.yaml line 2 lists it as GPU-6b, the NVIDIA driver as {driver.uuid}; the former counts"
    )
    for uuid in ("", "GPU-5A12", driver.uuid.lower(), driver.uuid.removeprefix("GPU-"), "MIG-77", "serial-1", BUS):
        assert apart(Statement(FILE, uuid=uuid), driver) == apart(driver, Statement(FILE, uuid=uuid)) == []


def test_what_is_not_stated_contradicts_none() -> None:
    assert apart(SCAN, Statement("the NVIDIA driver", uuid="GPU-5a")) == []
    assert apart(Statement("devices.yaml line 2"), SCAN) == []
    assert apart(SCAN) == []


def test_a_device_without_a_source_is_stated_by_the_inventory() -> None:
    (statement,) = InventoryDevice("gpu", 0, 1, uuid="GPU-5a").stated
    assert statement == Statement("the inventory", NodeSet.of([1]), uuid="GPU-5a")
    (statement,) = InventoryDevice("gpu", 0).stated_by("the scan").stated
    assert statement == Statement("the scan")
