from cri_proxy.node.status.device_usage import inventory_views, misplaced_warning
from cri_proxy.node.status.inventory import state_of
from policies.base import Allocations, CpuKind, Grant
from policies.device_grants import DeviceGrant, DeviceHolding, ExclusivePolicy
from policies.devices import DeviceInventory, InventoryDevice, JoinedDevices
from sysfs.descriptions.machine import describe
from tests.fakes.device_policy import two_pairs
from tests.unit.policies.build import request


def grant(name: str, *devices: DeviceGrant) -> Grant:
    return Grant(request(name, 1000), "root", CpuKind.SHARED, devices=devices)


def test_every_device_is_shown_with_what_is_left_and_who_holds_the_rest() -> None:
    held = grant("a/c", DeviceGrant("gpu", 0, 50), DeviceGrant("rdma", 0, 1, vf="0000:10:00.1"))
    views = inventory_views(
        JoinedDevices(two_pairs()), Allocations((held, grant("b/c", DeviceGrant("gpu", 0, 25, is_given=True))))
    )
    assert [(f"{view.type} {view.minor}", view.free, view.free_vfs) for view in views] == [
        ("gpu 0", 25, 0),
        ("gpu 1", 100, 0),
        ("rdma 0", 99, 1),
        ("rdma 1", 100, 2),
    ]
    assert [(holder.amount, holder.is_given) for holder in views[0].holders] == [(50, False), (25, True)]


def test_a_holder_is_shown_with_what_it_keeps_others_from() -> None:
    held = grant("a/c", DeviceGrant("gpu", 0, 100, exclusive=ExclusivePolicy.PCIE_LEVEL), DeviceGrant("rdma", 0, 1))
    views = inventory_views(JoinedDevices(two_pairs()), Allocations((held,)))
    assert [holder.exclusive for view in views for holder in view.holders] == ["PCIeLevel", ""]


def test_what_is_held_and_no_longer_listed_is_missing() -> None:
    held = grant("a/c", DeviceGrant("gpu", 7, 100))
    (view,) = (view for view in inventory_views(JoinedDevices(two_pairs()), Allocations((held,))) if view.is_missing)
    assert (view.type, view.minor, view.free, state_of(view)) == ("gpu", 7, 0, "missing")
    assert {state_of(view) for view in inventory_views(JoinedDevices(two_pairs()), Allocations())} == {"free"}


def test_a_gpu_that_is_cut_into_parts_is_not_free() -> None:
    gpus = DeviceInventory((InventoryDevice("gpu", 0, parts=("MIG-5a",)), InventoryDevice("gpu", 1)))
    held = grant("a/c", DeviceGrant("gpu", 0, 1, "MIG-5a", is_given=True))
    for allocations, state in ((Allocations(), "cut"), (Allocations((held,)), "held")):
        views = inventory_views(JoinedDevices(gpus), allocations)
        assert [(state_of(view), view.free) for view in views] == [(state, 0), ("free", 100)]


def test_a_gpu_of_which_the_kubelet_gave_a_part_is_not_free() -> None:
    held = grant("a/c", DeviceGrant("gpu", 0, 1, "0:1", is_given=True), DeviceGrant("rdma", 0, 1, "0000:11:00.1"))
    views = {
        (view.type, view.minor): view.free for view in inventory_views(JoinedDevices(two_pairs()), Allocations((held,)))
    }
    assert views == {("gpu", 0): 0, ("gpu", 1): 100, ("rdma", 0): 99, ("rdma", 1): 100}


def test_what_a_container_has_that_is_left_alone_is_held() -> None:
    left = DeviceHolding("default/a/c (left alone)", (DeviceGrant("gpu", 1, 100, is_given=True),))
    views = inventory_views(JoinedDevices(two_pairs()), Allocations(holdings=(left,)))
    assert [(state_of(view), view.free) for view in views[:2]] == [("free", 100), ("held", 0)]
    assert [holder.container for holder in views[1].holders] == [left.holder]


def test_devices_on_nodes_that_the_machine_has_not_are_named() -> None:
    machine = describe({"packages": 2, "cores": 2})
    assert misplaced_warning(two_pairs(), machine) == ()
    nics = tuple(InventoryDevice("rdma", n, numa=7) for n in range(6))
    (text,) = misplaced_warning(DeviceInventory((*two_pairs().devices, *nics, InventoryDevice("gpu", 9))), machine)
    assert text.startswith("inventory: rdma 0 (node 7), rdma 1 (node 7), rdma 2 (node 7), rdma 3 (node 7) and 2 more: ")
    assert "this machine has NUMA nodes 0-1, so" in text
