import pytest

from sysfs.descriptions.machine import describe
from sysfs.errors import MachineSourceError
from sysfs.model import Device

PORT = {"address": "10:01.0", "class": 0x060400, "node": 1}


def devices(*items: object) -> tuple[Device, ...]:
    return describe({"packages": 2, "cores": 2, "pci": list(items)}).devices


def test_a_device_hangs_below_its_parents_and_has_their_node() -> None:
    card, port = sorted(devices(PORT, {"address": "11:00.0", "parent": "0000:10:01.0", "class": "0x030200"}), key=str)
    port, card = (port, card) if port.address == "0000:10:01.0" else (card, port)
    assert (port.bridges, card.bridges) == (("pci0000:10",), ("pci0000:10", "0000:10:01.0"))
    assert (card.node, str(card.local_cpus), card.class_code) == (1, "2-3", 0x030200)


def test_a_parent_need_not_be_listed() -> None:
    (card,) = devices({"address": "11:00.0", "parent": "10:01.0"})
    assert card.bridges == ("pci0000:10", "0000:10:01.0")


def test_without_a_node_a_device_is_local_to_all() -> None:
    (card,) = devices({"address": "10000:AB:00.0"})
    assert (card.address, card.node, str(card.local_cpus)) == ("10000:ab:00.0", -1, "0-3")


def test_ids_and_the_physical_function_can_be_told() -> None:
    (card,) = devices({"address": "11:00.1", "vendor": "10de", "device": 7, "physical_function": "11:00.0"})
    assert (card.vendor, card.device, card.physical_function) == (0x10DE, 7, "0000:11:00.0")


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({}, "pci[0]: address is missing"),
        ({"address": "11:00"}, "pci[0].address: expected a PCI address like 0000:3b:00.0, got '11:00'"),
        ({"address": "11:00.0", "node": 2}, "pci: 0000:11:00.0: there is no node 2; the nodes are 0 to 1"),
        ({"address": "11:00.0", "class": "gpu"}, "pci[0].class: expected a hexadecimal code like 0x030200, got 'gpu'"),
        ({"address": "11:00.0", "class": 1 << 24}, "pci[0].class"),
        ({"address": "11:00.0", "parent": "11:00.0"}, "cannot be its own ancestor"),
        ({"address": "11:00.0", "slot": 1}, "pci[0]: unknown key 'slot'"),
    ],
)
def test_an_invalid_value_is_refused_by_its_place(item: object, message: str) -> None:
    with pytest.raises(MachineSourceError) as caught:
        devices(item)
    assert message in str(caught.value)


def test_an_address_is_given_once() -> None:
    with pytest.raises(MachineSourceError, match="unique address"):
        devices(PORT, PORT)
