"""Which devices a container may have, on four nodes of four CPUs."""

from dataclasses import replace

import pytest

from policies.base import Allocations, CpuKind, Grant, Previous
from policies.device_grants import DeviceGrant, DeviceHolding, ExclusivePolicy
from policies.devices import CUT, DeviceInventory, InventoryDevice, JoinedDevices
from policies.topology_aware.devices.cost_choice import DeviceStock
from policies.topology_aware.devices.held import UNHEALTHY, HeldDevices, earlier_devices, fixed_devices, held_twice
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.cpuset import CpuSet
from tests.fakes.device_policy import listed
from tests.unit.policies.build import context_of, four_nodes, request, tree_of
from tests.unit.policies.cost_devices import GPU, NIC, amounts, asked, inventory, on_node, on_nodes

MACHINE = four_nodes()
TREE = tree_of(MACHINE)
DEVICES = on_node(MACHINE, inventory(on_nodes(MACHINE, GPU, [0, 1]), f"{GPU}/2", f"{NIC}/0-1"))


def holding(name: str, *devices: str) -> Grant:
    return Grant(request(name), "root", CpuKind.SHARED, devices=listed(*devices))


def context(*grants: Grant, previous: Previous | None = None, **counts: int) -> PlacementContext:
    wanted = request("new/c", 1000, previous=previous, devices=asked(**counts))
    return replace(context_of(TREE, wanted, *grants), machine_devices=DEVICES)


def stock_of(at: PlacementContext, **counts: int) -> DeviceStock:
    assert at.machine_devices is not None
    return DeviceStock(HeldDevices(at, at.machine_devices), amounts(**counts))


def test_what_others_hold_is_not_free() -> None:
    at = context(holding("a/c", f"{GPU}/1", f"{NIC}/0"))
    stock = stock_of(at, gpu=1, nic=1)
    assert stock.free == {GPU: (f"{GPU}/0", f"{GPU}/2"), NIC: (f"{NIC}/1",)}
    assert HeldDevices(at, DEVICES).holder(DEVICES.joined.named(f"{GPU}/1")) == "default/a/c"


def test_an_unknown_type_has_no_device() -> None:
    assert stock_of(context(), fpga=1).free == {"example.com/fpga": ()}


@pytest.mark.parametrize(
    ("devices", "serves"),
    [("0 1", True), ("0", False), ("0 1 2", False), ("0 3", False), ("0 9", False)],
    ids=["all", "too-few", "too-many", "of-another", "gone"],
)
def test_earlier_devices_serve_if_they_are_as_many_as_wanted_and_free(devices: str, *, serves: bool) -> None:
    found = on_node(MACHINE, inventory((), f"{GPU}/0-3"))
    stock = stock_of(replace(context(holding("a/c", f"{GPU}/3")), machine_devices=found), gpu=2)
    assert stock.still_serve(tuple(f"{GPU}/{i}" for i in devices.split())) == serves


def test_a_container_that_runs_has_what_it_has() -> None:
    own = holding("new/c", f"{GPU}/0")
    runs = Previous("root", CpuSet(), devices=listed(f"{GPU}/0"), is_running=True)
    assert fixed_devices(replace(context(previous=runs, gpu=2), own=own)) == listed(f"{GPU}/0")
    assert fixed_devices(replace(context(gpu=2), own=own)) is None
    assert fixed_devices(replace(context(gpu=2), own=own, machine_devices=None)) == listed(f"{GPU}/0")
    assert fixed_devices(replace(context(gpu=2), devices=listed(f"{GPU}/1"))) == listed(f"{GPU}/1")
    assert fixed_devices(replace(context(gpu=2), machine_devices=None)) == ()


def test_an_earlier_attempt_had_those_of_its_grant_or_of_the_record() -> None:
    had = Previous("root", CpuSet(), devices=listed(f"{GPU}/0"))
    assert earlier_devices(context(previous=had)) == listed(f"{GPU}/0")
    assert earlier_devices(replace(context(previous=had), own=holding("new/c", f"{GPU}/1"))) == listed(f"{GPU}/1")
    assert earlier_devices(context()) == ()


def test_a_silent_device_counts_on_every_node_where_others_tell_nodes_apart() -> None:
    assert DEVICES.nodes_by_cost(GPU) == {f"{GPU}/0": 0b1, f"{GPU}/1": 0b10, f"{GPU}/2": 0b1111}
    assert DEVICES.nodes_by_cost(NIC) == {f"{NIC}/0": None, f"{NIC}/1": None}


def test_who_has_a_device_that_is_not_free_is_told_by_whatever_is_in_the_way() -> None:
    """GPU 0 and 1 are on one PCIe; cost files list all."""
    gpus = tuple(InventoryDevice("gpu", i, 0, f"p{i // 2}", is_healthy=i != 3) for i in range(4))
    node = MachineDevices(MACHINE, DeviceInventory(gpus, costs=inventory((), "nvidia.com/gpu/0-3")))
    alone = DeviceGrant("gpu", 0, 50, exclusive=ExclusivePolicy.PCIE_LEVEL)
    part = Grant(request("a/c"), "root", CpuKind.SHARED, devices=(alone,))
    held = HeldDevices(context(part), node)
    pieces = [node.joined.named(f"nvidia.com/gpu/{i}") for i in range(4)]
    assert [held.is_free(piece) for piece in pieces] == [False, False, True, False]
    assert [held.holder(piece) for piece in pieces if not held.is_free(piece)] == [
        "default/a/c",
        "default/a/c",
        UNHEALTHY,
    ]
    cut = replace(node.allocator.inventory, devices=(*gpus[:2], replace(gpus[2], parts=("MIG-5a",)), gpus[3]))
    whole = HeldDevices(context(), MachineDevices(MACHINE, cut))
    piece = whole.node.joined.named("nvidia.com/gpu/2")
    assert (whole.is_free(piece), whole.holder(piece)) == (False, CUT)
    fellow = replace(part, request=request("new/d"))
    assert HeldDevices(context(fellow), node).is_free(pieces[1])


def test_what_a_container_without_a_grant_uses_is_held() -> None:
    at = replace(context(), holdings=(DeviceHolding("default/a/c (left alone)", listed(f"{GPU}/2")),))
    piece = DEVICES.joined.named(f"{GPU}/2")
    assert HeldDevices(at, DEVICES).holder(piece) == "default/a/c (left alone)"
    assert not HeldDevices(at, DEVICES).is_free(piece)


def test_what_an_ended_container_had_its_pod_alone_may_have() -> None:
    devices = listed(f"{GPU}/2")
    piece = DEVICES.joined.named(f"{GPU}/2")
    for pod, is_free in (("a", False), ("new", True)):
        at = replace(context(), holdings=(DeviceHolding("default/a/c (ended)", devices, pod),))
        held = HeldDevices(at, DEVICES)
        assert (held.is_free(piece), held.left_to_pod) == (is_free, devices if is_free else ())
        assert [claim.holder for claim in held.claims] == ([] if is_free else ["default/a/c (ended)"])


def has(name: str, *devices: DeviceGrant) -> Grant:
    return Grant(request(name), "root", CpuKind.SHARED, devices=devices)


GPU_0, ITS_GIVEN = DeviceGrant("gpu", 0, 100), DeviceGrant("gpu", 0, 100, is_given=True)
VF = DeviceGrant("rdma", 0, 1, vf="0000:10:00.1")
PART = DeviceGrant("gpu", 0, 1, vf="0:1", is_given=True)


@pytest.mark.parametrize(
    ("one", "other", "is_twice"),
    [
        (has("a/c", GPU_0), has("b/c", ITS_GIVEN), True),
        (has("a/c", ITS_GIVEN), has("b/c", ITS_GIVEN), True),
        (has("a/c", ITS_GIVEN), has("a/d", ITS_GIVEN), False),  # the kubelet hands devices of init containers on
        (has("a/c", replace(ITS_GIVEN, is_shared=True)), has("b/c", replace(ITS_GIVEN, is_shared=True)), False),
        (has("a/c", replace(ITS_GIVEN, is_shared=True)), has("b/c", GPU_0), True),
        (has("a/c", replace(GPU_0, amount=50)), has("b/c", replace(GPU_0, amount=50)), False),
        (has("a/c", replace(GPU_0, amount=50)), has("b/c", replace(ITS_GIVEN, amount=60)), True),
        (has("a/c", VF), has("b/c", replace(VF, is_given=True)), True),
        (has("a/c", VF), has("b/c", replace(VF, vf="0000:10:00.2")), False),
        (has("a/c", *listed(f"{GPU}/1")), has("b/c", *listed(f"{GPU}/1")), True),
        (has("a/c", GPU_0), has("b/c", DeviceGrant("gpu", 7, 100)), False),
        (has("a/c", PART), has("b/c", replace(PART, vf="0:2")), False),
        (has("a/c", PART), has("b/c", PART), True),
        (has("a/c", GPU_0), has("b/c", PART), True),
        (has("a/c", replace(GPU_0, amount=20)), has("b/c", PART), True),
    ],
)
def test_a_device_is_held_twice_where_its_holders_should_not_stand_beside_each_other(
    one: Grant, other: Grant, *, is_twice: bool
) -> None:
    gpu, nic = InventoryDevice("gpu", 0), InventoryDevice("rdma", 0)
    joined = JoinedDevices(DeviceInventory((gpu, nic), costs=inventory((), f"{GPU}/1")))
    found = list(held_twice(Allocations((one, other)), joined))
    names = {str(one.request.full_name), str(other.request.full_name)}
    assert [{claim.holder for claim in claims} for claims in found] == ([names] if is_twice else [])


@pytest.mark.parametrize("device", [GPU_0, ITS_GIVEN, replace(GPU_0, amount=60)], ids=["chosen", "given", "a-share"])
def test_what_an_ended_container_left_to_its_pod_is_not_held_twice_by_it(device: DeviceGrant) -> None:
    joined = JoinedDevices(DeviceInventory((InventoryDevice("gpu", 0),)))
    left = DeviceHolding("default/a/init (ended, kept for its pod)", (device,), has("a/c").container.pod_uid)
    assert not list(held_twice(Allocations((has("a/c", device),), holdings=(left,)), joined))
    assert list(held_twice(Allocations((has("b/c", device),), holdings=(left,)), joined))
    both = Allocations((has("a/c", device), has("b/c", device)), holdings=(left,))
    assert [[claim.holder for claim in claims] for claims in held_twice(both, joined)] == [
        ["default/a/c", "default/b/c"]
    ]
