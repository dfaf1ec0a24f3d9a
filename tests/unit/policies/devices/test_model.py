from policies.devices import DEVICE_TYPES, RESOURCE_OF, VENDOR_OF, InventoryDevice, natural_order, pcie_groups
from policies.devices.device_types import TYPES
from tests.unit.policies.devices.build import gpu, inventory, nic


def test_groups_are_in_the_order_of_numa_node_and_pcie_with_unknown_ones_last() -> None:
    found = pcie_groups([gpu(0, None), gpu(1, 1, "p2"), gpu(2, 0, "p10"), gpu(3, 0, "p2"), gpu(4, 0)])
    assert [(group.numa, group.pcie) for group in found] == [(0, "p2"), (0, "p10"), (0, None), (1, "p2"), (None, None)]


def test_a_device_without_a_pcie_is_in_a_group_of_its_own() -> None:
    found = pcie_groups([gpu(0), gpu(1), nic(0)])
    assert [len(group.devices) for group in found] == [1, 1, 1]
    assert str(found[0]) == "the unknown PCIe of gpu 0"


def test_a_device_of_unknown_node_is_on_the_node_of_its_pcie() -> None:
    (group,) = pcie_groups([nic(0, None, "p0"), gpu(0, 1, "p0")])
    assert (group.numa, [device.kind for device in group.devices], str(group)) == (1, ["gpu", "rdma"], "PCIe p0")


def test_the_same_name_on_two_nodes_is_two_pcie_and_an_unknown_node_joins_neither() -> None:
    found = pcie_groups([gpu(0, 0, "p0"), gpu(1, 1, "p0"), nic(0, None, "p0")])
    assert [group.numa for group in found] == [0, 1, None]


def test_devices_of_a_type_are_listed_by_minor() -> None:
    assert [device.minor for device in inventory(gpu(10), nic(1), gpu(2)).of("gpu")] == [2, 10]


def test_names_sort_by_their_numbers_and_addresses_by_their_buses() -> None:
    names = ["pcie-10", "pcie-2", "10", "9", "0000:9a:00.0", "pci0000:10", "0000:B0"]
    found = ["pci0000:10", "0000:9a:00.0", "0000:B0", "9", "10", "pcie-2", "pcie-10"]
    assert sorted(names, key=natural_order) == found


def test_no_two_types_have_a_name_and_no_two_vendors_a_resource_in_common() -> None:
    assert len(set(DEVICE_TYPES)) == len(TYPES)
    assert {VENDOR_OF[resource]: resource for resource in RESOURCE_OF.values()} == RESOURCE_OF


def test_a_device_that_is_stated_to_be_at_no_node_is_not_at_that_of_its_pcie() -> None:
    known, stated = InventoryDevice("gpu", 0, 1, "a"), InventoryDevice("rdma", 0, None, "a", is_nowhere=True)
    assert [group.numa for group in pcie_groups((known, stated))] == [1, None]


def test_no_two_types_have_a_word_of_their_resources_in_common() -> None:
    words = [word for each in TYPES for word in each.words]
    assert len(set(words)) == len(words)
