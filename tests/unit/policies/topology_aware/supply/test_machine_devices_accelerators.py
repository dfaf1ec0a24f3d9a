"""Test which accelerators are free, and which CPUs are kept beside them."""

from dataclasses import replace
from typing import Any

import pytest

from policies.base import Allocations, CpuKind, DeviceLocality, Grant
from policies.device_grants import DeviceGrant, DeviceHolding
from policies.device_requests import DeviceAsk
from policies.devices import DeviceInventory, InventoryDevice, PciePath, RegisteredDevice
from policies.topology_aware import TopologyAware
from policies.topology_aware.supply.machine_devices import accelerators_of, kept_beside
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BURSTABLE, options, placed, rejected, request

GPU_ADDRESS = "0000:9a:00.0"
ONE_GPU = small_machine(pci=[{"address": GPU_ADDRESS, "class": 0x030200, "node": 1}])  # two nodes of four CPUs
KEEPS = TopologyAware(ONE_GPU, options(ONE_GPU, device_cpus="keep=2"))
ON_GPU = DeviceLocality("/dev/gpu0", CpuSet(), NodeSet.of([1]), devices=(GPU_ADDRESS,))


def beside(*devices: tuple[int, int, int]) -> str:
    """The CPUs beside accelerators, of devices by (class, vendor, node) on two nodes of four CPUs."""
    pci = [
        {"address": f"0000:{number:02x}:00.0", "class": code, "vendor": vendor, "node": node}
        for number, (code, vendor, node) in enumerate(devices, 0x10)
    ]
    return ",".join(str(CpuSet(each.cpus)) for each in accelerators_of(small_machine(pci=pci), ()))


@pytest.mark.parametrize(
    ("code", "vendor", "is_one"),
    [
        (0x030200, 0x1002, True),  # 3D controller
        (0x120000, 0x8086, True),  # processing accelerator
        (0x030000, 0x10DE, True),  # display controllers: NVIDIA's, and a console
        (0x038000, 0x10DE, True),
        (0x030000, 0x1A03, False),
        (0x020000, 0x10DE, False),  # a network controller
        (0x010802, 0x144D, False),  # a disk
    ],
)
def test_accelerators_are_told_by_their_pci_class(code: int, vendor: int, is_one: bool) -> None:
    assert beside((code, vendor, 1)) == ("4-7" if is_one else "")


def test_one_whose_node_the_firmware_does_not_tell_counts_nowhere() -> None:
    assert beside((0x030200, 0x1002, -1)) == ""


def test_those_of_the_inventory_count_by_type_once_and_while_they_are_healthy() -> None:
    gpu = InventoryDevice("gpu", 0, numa=0, path=PciePath(bus=GPU_ADDRESS))
    nic = InventoryDevice("rdma", 0, numa=0)
    assert [each.cpus for each in accelerators_of(ONE_GPU, (gpu, nic))] == [0xF]  # where the inventory has it
    assert accelerators_of(ONE_GPU, (replace(gpu, is_healthy=False),)) == ()
    assert len(accelerators_of(ONE_GPU, (InventoryDevice("fpga", 0, numa=0),))) == 2


@pytest.mark.parametrize(
    "holder",
    [
        Grant(request("g/c"), "root", CpuKind.SHARED, devices=(DeviceGrant("gpu", 0, 50),)),
        Grant(request("g/c", localities=(ON_GPU,)), "root", CpuKind.SHARED),
    ],
    ids=["part of it by the inventory", "the kubelet gave it"],
)
def test_one_that_a_container_holds_is_not_free(holder: Grant) -> None:
    inventory = DeviceInventory((InventoryDevice("gpu", 0, numa=1, path=PciePath(bus=GPU_ADDRESS)),))
    policy = TopologyAware(ONE_GPU, options(ONE_GPU), inventory)
    assert placed(policy.decide(Allocations(), request("a/c", 1000))).grant.owned == CpuSet.parse("0")
    held = Allocations((replace(holder, pool="root"),))
    taken = Allocations(
        (Grant(request("b/c", 1000), "socket #0", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("0")), *held.grants)
    )
    assert placed(policy.decide(taken, request("z/c", 1000))).grant.owned == CpuSet.parse("4")


@pytest.mark.parametrize(("rule", "owned"), [("avoid", "4-5"), ("ignore", "0-1"), ("keep=2", "4-5")])
def test_a_container_without_devices_leaves_the_cpus_beside_a_free_one_unless_that_is_ignored(
    rule: str, owned: str
) -> None:
    machine = small_machine(pci=[{"address": GPU_ADDRESS, "class": 0x030200, "node": 0}])
    policy = TopologyAware(machine, options(machine, device_cpus=rule))
    assert str(placed(policy.decide(Allocations(), request("a/c", 2000))).grant.owned) == owned
    asks = request("a/c", 2000, localities=(replace(ON_GPU, nodes=NodeSet.of([0])),))
    assert str(placed(policy.decide(Allocations(), asks)).grant.owned) == "0-1"


def test_a_device_of_a_container_without_a_grant_is_not_free() -> None:
    inventory = DeviceInventory((InventoryDevice("gpu", 0, numa=1),))
    machine = small_machine()
    policy = TopologyAware(machine, options(machine, device_cpus="keep=4"), inventory)
    assert rejected(policy.decide(Allocations(), request("a/c", 6000)))
    held = Allocations(holdings=(DeviceHolding("left", (DeviceGrant("gpu", 0, 100),)),))
    assert len(placed(policy.decide(held, request("a/c", 6000))).grant.owned) == 6


def test_the_highest_cpus_are_kept_in_whole_cores_and_no_more_than_there_are() -> None:
    (gpu,) = accelerators_of(ONE_GPU, ())
    pairs = ((2, 0b11001100),)  # threads 0,2 / 1,3 / 4,6 / 5,7
    assert kept_beside((gpu,), 2, 0xFF, pairs) == 0b10100000
    assert kept_beside((gpu,), 2, 0b01111111, pairs) == 0b01010000
    assert kept_beside((gpu, gpu), 3, 0xFF, pairs) == 0xF0
    assert kept_beside((gpu,), 0, 0xFF, pairs) == 0


def test_an_owner_without_devices_is_refused_for_kept_cpus_and_learns_why() -> None:
    refusal = rejected(KEEPS.decide(Allocations(), request("a/c", 7000)))
    assert refusal.reason.code == "device-cpus-kept"
    assert refusal.reason.text == (
        "wanted 7 exclusive CPUs; CPUs 6-7 are kept for containers that ask for a device (topologyAware.DeviceCPUs: "
        "keep=2): share CPUs (prefer-shared-cpus: true), keep fewer, or taint the node for pods without devices"
    )
    assert placed(KEEPS.decide(Allocations(), request("a/c", 7000, prefer_shared=True)))
    assert rejected(KEEPS.decide(Allocations(), request("a/c", 9000))).reason.code == "cpu-full"  # without them too


def test_an_owner_beside_kept_cpus_has_them_in_its_reasons() -> None:
    decision = placed(KEEPS.decide(Allocations(), request("a/c", 6000)))
    assert decision.grant.owned == CpuSet.parse("0-5")
    assert [r.text for r in decision.reasons if r.code == "device-cpus-kept"] == [
        "CPUs 6-7 are kept for containers that ask for a device (topologyAware.DeviceCPUs: keep=2)"
    ]


@pytest.mark.parametrize(
    "keys",
    [
        {"localities": (ON_GPU,)},
        {"devices": DeviceAsk(requests=(("nvidia.com/gpu", 1),))},
        {"given": (DeviceGrant("gpu", 0, 100, is_given=True),)},
    ],
    ids=["near", "asks", "given"],
)
def test_a_container_with_a_device_owns_kept_cpus(keys: dict[str, Any]) -> None:
    inventory = DeviceInventory((InventoryDevice("gpu", 0, numa=1, path=PciePath(bus=GPU_ADDRESS)),))
    policy = TopologyAware(ONE_GPU, options(ONE_GPU, device_cpus="keep=2"), inventory)
    decision = placed(policy.decide(Allocations(), request("a/c", 4000, **keys)))
    assert decision.grant.owned == CpuSet.parse("4-7")
    assert "device-cpus-kept" not in {r.code for r in decision.reasons}


def test_sharers_are_not_refused_for_kept_cpus() -> None:
    held = Allocations((Grant(request("a/c", 6000), "root", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("0-5")),))
    decision = placed(KEEPS.decide(held, request("b/c", 1900, BURSTABLE)))
    assert decision.pinning.cpus == CpuSet.parse("6-7")


def test_an_owner_keeps_kept_cpus_that_it_has_and_grows_into_none() -> None:
    own = Grant(request("a/c", 3000), "socket #1", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("5-7"))
    held = Allocations((own,))
    again = replace(request("a/c", 2000), previous=own.as_previous)
    assert placed(KEEPS.decide(held, again)).grant.owned <= CpuSet.parse("5-7")
    assert KEEPS.reinstate(held).allocations.grants[0].owned == CpuSet.parse("5-7")


def test_what_is_kept_stands_among_the_notes() -> None:
    assert KEEPS.kept_cpus == CpuSet.parse("6-7")
    assert KEEPS.notes[-1] == (
        "topologyAware.DeviceCPUs: keep=2 keeps up to 2 CPUs beside accelerators for containers that ask for a device; "
        "others share these, and own none of them"
    )
    assert not TopologyAware(ONE_GPU, options(ONE_GPU)).kept_cpus


def by_plugin(*names: str, node: int = 1, **keys: str) -> RegisteredDevice:
    return RegisteredDevice(node, tuple(f"podresapi:{name}" for name in names), **keys)


def counted(*registered: RegisteredDevice, devices: tuple[InventoryDevice, ...] = ()) -> str:
    """The CPUs beside each accelerator of a machine that has one GPU of AMD's on node 1."""
    return ",".join(str(CpuSet(each.cpus)) for each in accelerators_of(OF_AMD, devices, registered))


OF_AMD = small_machine(pci=[{"address": GPU_ADDRESS, "class": 0x030200, "vendor": 0x1002, "node": 1}])


@pytest.mark.parametrize(
    ("device", "cpus"),
    [
        (by_plugin("gpu.intel.com/i915/card0", node=0), "4-7,0-3"),
        (by_plugin("gpu.intel.com/i915/card0"), "4-7"),  # it may be the one on PCI
        (by_plugin("nvidia.com/gpu/0", vendor="nvidia"), "4-7,4-7"),
        (by_plugin("amd.com/gpu/0", vendor="amd"), "4-7"),
        (by_plugin("amd.com/gpu/0", node=0, vendor="amd"), "4-7,0-3"),
        (by_plugin("amd.com/gpu/a", node=0, identity=GPU_ADDRESS), "4-7"),
        (by_plugin("gpu.intel.com/i915/card0", node=9), "4-7"),  # no such node
    ],
)
def test_a_device_that_only_a_plugin_knows_counts(device: RegisteredDevice, cpus: str) -> None:
    assert counted(device) == cpus


def test_one_that_the_inventory_lists_is_not_counted_again_and_not_while_it_is_unhealthy() -> None:
    listed = InventoryDevice("gpu", 0, numa=0, uuid="GPU-5a")
    known = by_plugin("nvidia.com/gpu/GPU-5a", node=0, identity="gpu5a", vendor="nvidia")
    assert counted(known, devices=(listed,)) == "0-3,4-7"
    assert counted(known, devices=(replace(listed, is_healthy=False),)) == "4-7"
    unnamed = by_plugin("nvidia.com/gpu/0", node=0, vendor="nvidia")  # whose vendor the inventory does not tell
    assert counted(unnamed, devices=(listed,)) == "0-3,4-7"


def test_one_of_a_plugin_is_free_until_a_container_holds_a_part_of_it() -> None:
    machine = small_machine()
    inventory = DeviceInventory((), registered=(by_plugin("a.com/gpu/card0-0", "a.com/gpu/card0-1"),))
    policy = TopologyAware(machine, options(machine, device_cpus="keep=2"), inventory)
    assert policy.kept_cpus == CpuSet.parse("6-7")
    part = DeviceLocality(
        "podresapi:a.com/gpu/card0-1", CpuSet(), NodeSet.of([1]), devices=("podresapi:a.com/gpu/card0-1",)
    )
    held = Allocations((Grant(request("g/c", localities=(part,)), "root", CpuKind.SHARED),))
    assert rejected(policy.decide(Allocations(), request("z/c", 7000))).reason.code == "device-cpus-kept"
    assert placed(policy.decide(held, request("z/c", 7000))).grant.owned
