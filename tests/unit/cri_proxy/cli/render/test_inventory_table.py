from cri_proxy.cli.render.inventory_table import inventory_table
from cri_proxy.node.status.inventory import HolderView, InventoryDeviceView

TRAIN, SERVE = "default/train/c", "default/serve/c"


def table(*devices: InventoryDeviceView, width: int = 80) -> str:
    return "\n".join(inventory_table(devices, colours=False, width=width))


def held(minor: int, *holders: HolderView, free: int = 0) -> InventoryDeviceView:
    return InventoryDeviceView("gpu", minor, free=free, holders=holders)


def test_each_container_is_named_with_what_it_holds_of_a_type() -> None:
    of_all = [held(minor, HolderView(TRAIN, 100)) for minor in range(3)]
    nic = InventoryDeviceView("rdma", 1, free=99, vfs=2, holders=(HolderView(TRAIN, 1, "0000:21:00.1"),))
    assert table(*of_all, held(3, HolderView(SERVE, 100)), InventoryDeviceView("gpu", 4), nic) == (
        "INVENTORY  LISTED  HELD  FREE  HELD BY\n"
        "gpu        5       4     4     default/serve/c: 3\n"
        "                               default/train/c: 0-2\n"
        "rdma       1       1     1:99  default/train/c: 1@0000:21:00.1"
    )


def test_shares_are_units_and_explained() -> None:
    lines = table(held(0, HolderView(SERVE, 50), HolderView(TRAIN, 25), free=25)).splitlines()
    assert [line[31:].strip() for line in lines[1:3]] == ["default/serve/c: 0:50", "default/train/c: 0:25"]
    assert " 0:25 " in lines[1]
    assert lines[3] == "  1:25 is 25 of the 100 units of device 1"


def test_what_is_unhealthy_or_no_longer_listed_is_named_and_not_free() -> None:
    lost = InventoryDeviceView("gpu", 7, is_missing=True, free=0, holders=(HolderView(TRAIN, 100),))
    lines = table(InventoryDeviceView("gpu", 0), InventoryDeviceView("gpu", 1, is_healthy=False), lost).splitlines()
    assert [line.strip() for line in lines[1:]] == [
        "gpu        2       1     0     default/train/c: 7",
        "unhealthy: 1",
        "no longer listed: 7",
    ]


def test_a_device_that_two_hold_is_with_both() -> None:
    text = table(held(0, HolderView(TRAIN, 100), HolderView(SERVE, 100, is_given=True)))
    assert f"{SERVE}: 0" in text and f"{TRAIN}: 0" in text


def test_what_is_cut_into_parts_is_named() -> None:
    lines = table(InventoryDeviceView("gpu", 0, free=0), InventoryDeviceView("gpu", 1)).splitlines()
    assert lines[1].split(None, 4) == ["gpu", "2", "0", "1", "cut into parts (MIG): 0"]


def test_what_a_container_keeps_others_from_is_named() -> None:
    lines = table(held(0, HolderView(TRAIN, 100, exclusive="PCIeLevel")), held(1, HolderView(SERVE, 100))).splitlines()
    assert [line[31:].strip() for line in lines[1:3]] == ["default/serve/c: 1", "default/train/c: 0 (PCIeLevel)"]


def test_without_anything_to_tell_there_is_no_table() -> None:
    assert table(InventoryDeviceView("gpu", 0)) == table() == ""
