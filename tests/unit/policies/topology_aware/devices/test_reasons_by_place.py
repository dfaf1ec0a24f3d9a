from dataclasses import replace

from policies.alignment import Alignment
from policies.base import Grant
from policies.device_grants import DeviceGrant
from policies.devices import (
    Closeness,
    DeviceAllocation,
    DeviceAllocator,
    DeviceInventory,
    InventoryDevice,
    JointChoice,
)
from policies.topology_aware.devices import reasons
from policies.topology_aware.devices.held import DeviceClaim, holder_name
from sysfs.cpuset import NodeSet
from tests.unit.policies.allocations import DEVICE, PCIE, holding, whole

PAIRS = tuple(InventoryDevice(kind, i, i // 2, f"p{i}") for kind in ("gpu", "rdma") for i in range(4))
ALLOCATOR = DeviceAllocator(DeviceInventory((*PAIRS, InventoryDevice("fpga", 0))))
NIC = DeviceGrant("rdma", 1, 1, vf="0000:51:00.1")
WITHIN = Alignment(NodeSet.of([1]), NodeSet.of([1]))


def claims(*grants: Grant) -> list[DeviceClaim]:
    return [DeviceClaim(holder_name(g), g.container.pod_uid, device) for g in grants for device in g.devices]


def allocated(*devices: DeviceGrant, passed_over: int = 0, **choice: object) -> str:
    made = JointChoice({device.kind: () for device in devices})
    answer = DeviceAllocation(devices, (replace(made, **choice),))  # type: ignore[arg-type]  # its own fields
    return reasons.allocated(ALLOCATOR, answer, passed_over).text


def test_chosen_devices_are_named_with_their_place() -> None:
    assert allocated(whole(0)) == "gpu 0: NUMA node 0, PCIe p0"
    assert allocated(whole(1), whole(2)) == "gpu 1, gpu 2: NUMA nodes 0, 1, PCIe p1, p2"
    assert allocated(whole(0, "fpga")) == "fpga 0: NUMA node unknown"


def test_what_decided_is_said() -> None:
    both = (whole(1), NIC)
    begin = "gpu 1, 1 of 100 of rdma 1 VF 0000:51:00.1: NUMA node 0, PCIe p1; gpu and rdma"
    assert allocated(*both) == f"{begin} on the same PCIe"
    assert allocated(*both, closeness=Closeness.SAME_MACHINE).startswith(f"{begin} anywhere on the machine")
    assert allocated(whole(0), partition=(0,)).endswith("; partition 0")
    assert allocated(whole(0), link_score=100).endswith("; links of 100 points")
    assert allocated(whole(2), passed_over=1).endswith("; NUMA node 0 has too little room for its CPUs or memory")


def test_what_a_container_has_alone_is_said() -> None:
    assert allocated(replace(NIC, exclusive=PCIE)).endswith("; rdma alone on its PCIe (PCIeLevel)")
    assert allocated(replace(NIC, exclusive=DEVICE)).endswith("; rdma alone (DeviceLevel)")


def test_kept_and_lost_devices_are_named() -> None:
    assert reasons.kept((whole(0),), runs=True).text == "its gpu 0 stays with it while it runs"
    assert reasons.kept((whole(0), whole(1)), runs=False).text == "its earlier gpu 0, gpu 1 are free and kept"
    assert reasons.lost((whole(0),)).text == "its earlier gpu 0 could not be had again: others are chosen"
    assert reasons.given((whole(0),)).text == "gpu 0: chosen by others, and counted"


def test_a_refusal_names_the_holders_of_these_types() -> None:
    held = claims(holding("a/c", whole(0)), holding("b/c", whole(1), whole(2)), holding("n/c", NIC))
    assert reasons.refused("gpu: 2 asked for", ["gpu"], held).text == (
        "gpu: 2 asked for; held: gpu 1, gpu 2 by default/b/c; gpu 0 by default/a/c"
    )
    assert reasons.refused("gpu: 2 asked for").text == "gpu: 2 asked for"


def test_a_holder_that_has_its_devices_alone_is_named_first_with_its_policy() -> None:
    alone = replace(whole(0), exclusive=PCIE)
    many: list[Grant] = [holding(f"{i:02}/c", whole(i), whole(i + 20)) for i in range(1, 12)]
    held = claims(*many, holding("z/c", alone))
    text = reasons.refused("gpu: none", ["gpu"], held).text
    assert text.startswith("gpu: none; held: gpu 0 (PCIeLevel) by default/z/c; gpu 1, gpu 21 by default/01/c; ")
    kept = reasons.outside("gpu: none", WITHIN, ["gpu"], held).text
    assert kept == "gpu: none; its topology policy keeps it on NUMA node 1; held: gpu 0 (PCIeLevel) by default/z/c"
    assert reasons.outside("rdma: none", WITHIN, ["rdma"], held).text.endswith("keeps it on NUMA node 1")


def test_of_many_holders_the_first_are_named() -> None:
    many: list[Grant] = [holding(f"{i:02}/c", whole(i)) for i in range(12)]
    text = reasons.refused("gpu: 1 asked for", ["gpu"], claims(*many)).text
    assert text.endswith("gpu 7 by default/07/c and 4 more")


def test_nodes_that_could_not_be_kept_are_named() -> None:
    assert reasons.beyond(WITHIN, "gpu: none").text == "its devices are not on NUMA node 1: gpu: none"
    assert reasons.outside("gpu: none", WITHIN).code == "strict-topology"


def test_claims_on_the_same_device_are_told() -> None:
    held = claims(holding("a/c", whole(0)))
    assert reasons.overlap(whole(0), held).text == (
        "others chose gpu 0 for it, which it should not have beside gpu 0 by default/a/c"
    )
    assert "also held by gpu 0 by default/a/c: counted for both" in reasons.claimed_twice((whole(0),), held).text


def test_warnings_are_passed_on() -> None:
    assert reasons.read(("one", "two")).text == "one; two"
