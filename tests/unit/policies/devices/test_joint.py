"""Places of devices to each other. The worked examples and the faults of other implementations are those of spec C."""

import pytest

from policies.device_grants import DeviceGrant
from policies.devices import GpuPartition, InventoryDevice
from tests.unit.policies.devices.build import (
    GPUS,
    NICS,
    allocated,
    gpu,
    inventory,
    minors,
    nic,
    pairs,
    question,
    refused,
)

BOTH = ("gpu", "rdma")
SAME = "SamePCIe"


def test_gpus_bring_the_nics_of_their_pcie_whatever_the_amount_of_each() -> None:
    found = allocated(pairs(8), question({GPUS: 4, NICS: 1}, BOTH))
    assert (minors(found, "gpu"), minors(found, "rdma")) == ([0, 1, 2, 3], [0, 1, 2, 3])
    assert {grant.amount for grant in found.of("rdma")} == {1}


@pytest.mark.parametrize("nics", [[nic(0, 0, "p2")], [nic(0, 0, "p2"), nic(1, 1, "p6")]])
def test_only_nics_of_the_gpus_numa_node_join_them(nics: list[InventoryDevice]) -> None:
    """One NIC on the machine, or one on each NUMA node: four GPUs get one either way."""
    found = allocated(inventory(*pairs(8).of("gpu"), *nics), question({GPUS: 4, NICS: 1}, BOTH))
    assert (minors(found, "gpu"), minors(found, "rdma")) == ([0, 1, 2, 3], [0])


@pytest.mark.parametrize("switches", ["abcd", "aabb", None])
def test_a_numa_node_in_use_goes_before_an_idle_one(switches: str | None) -> None:
    node = inventory(*(gpu(i, i // 2, switches[i] if switches else None) for i in range(4)))
    assert minors(allocated(node, question({GPUS: 1}), [DeviceGrant("gpu", 2, 100)]), "gpu") == [3]


def test_a_gpu_is_chosen_for_the_nic_on_its_pcie() -> None:
    node = inventory(gpu(0, 0, "p0"), gpu(1, 0, "p1"), nic(0, 0, "p1"))
    found = allocated(node, question({GPUS: 1, NICS: 1}, BOTH))
    assert (minors(found, "gpu"), minors(found, "rdma")) == ([1], [0])


def test_the_same_numa_node_is_next_best_and_the_machine_last() -> None:
    gpus = (gpu(0, 0, "p0"), gpu(1, 1, "p1"))
    near = allocated(inventory(*gpus, nic(0, 1, "p2")), question({GPUS: 1, NICS: 1}, BOTH))
    far = allocated(inventory(*gpus, nic(0, 2, "p2")), question({GPUS: 1, NICS: 1}, BOTH))
    assert (minors(near, "gpu"), minors(far, "gpu"), minors(far, "rdma")) == ([1], [0], [0])


def test_pairs_on_the_same_pcie_come_before_a_single_numa_node() -> None:
    node = inventory(*(gpu(i, i // 2, f"p{i}") for i in range(4)), nic(0, 0, "p0"), nic(1, 1, "p2"))
    assert minors(allocated(node, question({GPUS: 2, NICS: 1}, BOTH)), "gpu") == [0, 2]


def test_nics_on_other_pcie_of_the_node_stand_in_for_missing_ones() -> None:
    node = inventory(gpu(0, 0, "p0"), gpu(1, 0, "p1"), nic(0, 0, "p1"), nic(1, 0, "p8"), nic(2, 1, "p9"))
    assert minors(allocated(node, question({GPUS: 2, NICS: 1}, BOTH)), "rdma") == [0, 1]


def test_same_pcie_finds_the_pair_wherever_it_is() -> None:
    node = inventory(*(gpu(i, 0, f"p{i}") for i in range(4)), *(nic(i, 0, f"p{i}") for i in (1, 2, 3)))
    one = allocated(node, question({GPUS: 1, NICS: 1}, BOTH, scope=SAME))
    three = allocated(node, question({GPUS: 3, NICS: 1}, BOTH, scope=SAME))
    assert (minors(one, "gpu"), minors(three, "gpu"), minors(three, "rdma")) == ([1], [1, 2, 3], [1, 2, 3])
    assert refused(node, question({GPUS: 4, NICS: 1}, BOTH, scope=SAME)).startswith(
        "device-joint-allocate with SamePCIe: no set of 4 GPUs has an rdma device on every PCIe group"
    )


def test_same_pcie_spreads_gpus_as_far_as_the_nics_reach() -> None:
    """Two NICs asked for: one PCIe has both GPUs and one NIC, so the pair is taken from two."""
    node = inventory(gpu(0, 0, "p0"), gpu(1, 0, "p0"), gpu(2, 0, "p1"), nic(0, 0, "p0"), nic(1, 0, "p1"))
    found = allocated(node, question({GPUS: 2, NICS: 200}, BOTH, scope=SAME))
    assert (minors(found, "gpu"), minors(found, "rdma")) == ([0, 2], [0, 1])


def test_gpus_as_the_second_type_are_on_the_pcie_of_the_first() -> None:
    node = inventory(*(gpu(i, 0, f"p{i}") for i in range(4)), nic(0, 0, "p3"))
    found = allocated(node, question({GPUS: 1, NICS: 1}, ("rdma", "gpu")))
    assert minors(found, "gpu") == [3]


def test_three_types_go_together() -> None:
    fpga = InventoryDevice("fpga", 0, 1, "p5")
    node = inventory(*pairs(8).devices, fpga)
    asked = {GPUS: 1, NICS: 1, "koordinator.sh/fpga": 100}
    found = allocated(node, question(asked, ("gpu", "rdma", "fpga"), scope=SAME))
    assert [(grant.kind, grant.minor) for grant in found.grants] == [("gpu", 5), ("rdma", 5), ("fpga", 0)]


def test_a_type_outside_the_joint_ones_is_chosen_alone() -> None:
    node = inventory(*pairs(8).devices, InventoryDevice("fpga", 0, 1, "p5"))
    found = allocated(node, question({GPUS: 1, NICS: 1, "koordinator.sh/fpga": 100}, BOTH))
    assert (minors(found, "gpu"), minors(found, "fpga")) == ([0], [0])


def test_without_the_annotation_types_do_not_look_at_each_other() -> None:
    node = inventory(gpu(0, 0, "p0"), gpu(1, 1, "p1"), nic(0, 1, "p1"))
    assert minors(allocated(node, question({GPUS: 1, NICS: 1})), "gpu") == [0]


def test_a_second_type_that_is_nowhere_free_is_a_refusal() -> None:
    node = pairs(2)
    held = [DeviceGrant("rdma", minor, 100) for minor in range(2)]
    assert refused(node, question({GPUS: 1, NICS: 1}, BOTH), held).startswith(
        "rdma: 1 with 1 unit each asked for, none"
    )


def test_all_nics_may_be_asked_for_beside_gpus() -> None:
    everywhere = {"rdma": {"allocateStrategy": "ApplyForAll"}}
    found = allocated(pairs(4), question({GPUS: 1, NICS: 1}, BOTH, hints=everywhere))
    assert minors(found, "rdma") == [0, 1, 2, 3]
    assert "SamePCIe" in refused(pairs(4), question({GPUS: 1, NICS: 1}, BOTH, scope=SAME, hints=everywhere))
    same = allocated(pairs(4), question({GPUS: 4, NICS: 1}, BOTH, scope=SAME, hints=everywhere))
    assert minors(same, "gpu") == [0, 1, 2, 3]


def test_one_device_stays_one_where_the_gpus_are_on_several_pcie() -> None:
    """Whatever joins by its PCIe, a hint for a single device of the type holds."""
    one = {"rdma": {"requiredTopologyScope": "Device"}}
    node = pairs(4)
    asked = question({GPUS: 3, NICS: 100}, BOTH, hints=one)
    assert minors(allocated(node, asked), "rdma") == [0]
    assert minors(allocated(node, asked, [DeviceGrant("rdma", 0, 1)]), "rdma") == [1]
    both = inventory(*node.devices, gpu(4, 1, "p3"))
    found = allocated(both, question({GPUS: 2, NICS: 100}, BOTH, scope=SAME, hints=one))
    assert (minors(found, "gpu"), minors(found, "rdma")) == ([3, 4], [3])
    assert "SamePCIe" in refused(node, question({GPUS: 2, NICS: 100}, BOTH, scope=SAME, hints=one))


def test_what_is_on_one_pcie_is_on_one_numa_node_though_it_is_not_known_which() -> None:
    node = inventory(gpu(0, None, "p0"), gpu(1, None, "p0"), gpu(2, None, "p1"))
    one, two, three = (question({GPUS: n}, hints={"gpu": {"requiredTopologyScope": "NUMANode"}}) for n in (1, 2, 3))
    assert minors(allocated(node, one), "gpu") == [0]
    assert minors(allocated(node, two, [DeviceGrant("gpu", 2, 1)]), "gpu") == [0, 1]
    places = "2 on the unknown NUMA node of PCIe p0, 1 on the unknown NUMA node of PCIe p1"
    assert refused(node, three).endswith(f"those that can be given: {places}")


def test_devices_without_a_known_place_can_still_be_had() -> None:
    node = inventory(gpu(0, None), nic(0, None))
    assert minors(allocated(node, question({GPUS: 1, NICS: 1}, BOTH)), "rdma") == [0]
    assert "the unknown PCIe of gpu 0" in refused(node, question({GPUS: 1, NICS: 1}, BOTH, scope=SAME))


def test_a_nic_on_a_node_of_the_gpus_counts_for_more_than_gpus_on_one_node() -> None:
    node = inventory(gpu(0, 0, "p0"), gpu(1, 0, "p0"), gpu(2, 1, "p1"), nic(0, 1, "p2"), nic(1, 1, "p3"))
    assert minors(allocated(node, question({GPUS: 2, NICS: 200}, BOTH)), "gpu") == [0, 2]


def test_where_not_all_nics_are_near_a_gpu_near_some_is_better_than_one_near_none() -> None:
    """By NUMA node, then by PCIe."""
    far = nic(1, 9, "p9")
    by_node = inventory(gpu(0, 0, "p0"), gpu(1, 1, "p1"), nic(0, 1, "p2"), far)
    by_pcie = inventory(gpu(0, 0, "p0"), gpu(1, 0, "p1"), nic(0, 0, "p1"), far)
    for node in (by_node, by_pcie):
        assert minors(allocated(node, question({GPUS: 1, NICS: 200}, BOTH)), "gpu") == [1]


@pytest.mark.parametrize(("count", "nics"), [(1, [2]), (2, [2, 3]), (3, [1, 2, 3]), (4, [0, 1, 2, 3])])
def test_more_nics_come_from_the_pcie_of_the_gpus_then_from_their_node(count: int, nics: list[int]) -> None:
    node = inventory(gpu(0, 1, "p5"), nic(0, 0, "p0"), nic(1, 1, "p4"), nic(2, 1, "p5"), nic(3, 1, "p5"))
    assert minors(allocated(node, question({GPUS: 1, NICS: 100 * count}, BOTH)), "rdma") == nics


def test_devices_whose_nodes_are_not_known_are_not_near_each_other() -> None:
    node = inventory(gpu(0, None, "p0"), nic(0, 0, "p1"), nic(1, None, "p2"))
    assert minors(allocated(node, question({GPUS: 1, NICS: 1}, BOTH)), "rdma") == [0]
    node = inventory(gpu(0, None, "p0"), nic(0, 0, "p1"), nic(1, 2, "p2"))  # its group is number 2, after the others
    assert minors(allocated(node, question({GPUS: 1, NICS: 1}, BOTH)), "rdma") == [0]


def test_groups_in_use_by_the_types_that_are_asked_for_are_preferred() -> None:
    held = [DeviceGrant("rdma", 1, 1)]
    assert minors(allocated(pairs(2, 1), question({GPUS: 1}), held), "gpu") == [0]
    assert minors(allocated(pairs(2, 1), question({GPUS: 1, NICS: 1}, BOTH), held), "gpu") == [1]


def test_of_groups_that_cost_the_same_the_lowest_give_the_most() -> None:
    sizes = {"p0": 1, "p1": 3, "p2": 3, "p3": 5}
    groups = [group for group, size in sizes.items() for _ in range(size)]
    node = inventory(*(gpu(minor, 0, group) for minor, group in enumerate(groups)))
    assert minors(allocated(node, question({GPUS: 6})), "gpu") == [0, 7, 8, 9, 10, 11]
    node = inventory(gpu(0, 0, "p8"), gpu(1, 0, "p1"), *(nic(i, 0, f"p{i}") for i in range(9)))
    assert minors(allocated(node, question({GPUS: 1})), "gpu") == [1]


def test_same_pcie_means_a_device_of_every_other_type() -> None:
    node = inventory(*pairs(2, 1).devices, InventoryDevice("fpga", 0, 0, "p1"))
    asked = {NICS: 1, "koordinator.sh/fpga": 100}
    one, two = (question({GPUS: count, **asked}, ("gpu", "rdma", "fpga"), scope=SAME) for count in (1, 2))
    assert minors(allocated(node, one), "gpu") == [1]
    assert "SamePCIe" in refused(node, two)


def test_a_partition_near_a_nic_comes_before_an_equal_one_that_is_not() -> None:
    node = inventory(
        gpu(0, 0, "p0"), gpu(1, 0, "p1"), nic(0, 0, "p1"), partitions=[GpuPartition((0,)), GpuPartition((1,))]
    )
    found = allocated(node, question({GPUS: 1, NICS: 1}, BOTH, labels={"gpu-partition-policy": "Honor"}))
    assert minors(found, "gpu") == [1]


def test_of_equal_sets_the_first_is_taken() -> None:
    on_one_pcie = {"rdma": {"requiredTopologyScope": "PCIe"}}
    node = inventory(gpu(0, 0, "p0"), nic(0, 1, "p1"), nic(1, 1, "p2"))
    assert minors(allocated(node, question({GPUS: 1, NICS: 1}, BOTH, hints=on_one_pcie)), "rdma") == [0]


def test_a_second_pod_of_a_pcie_gets_the_idle_nic() -> None:
    node = inventory(gpu(0, 0, "a"), gpu(1, 0, "a"), nic(0, 0, "a", vfs=2), nic(1, 0, "a", vfs=2))
    asked = question({GPUS: 1, NICS: 1}, BOTH, scope="SamePCIe")
    first = allocated(node, asked)
    second = allocated(node, asked, first.grants)
    assert (minors(first, "rdma"), minors(second, "rdma")) == ([0], [1])
    by_vf = question({GPUS: 1, NICS: 1}, BOTH, hints={"rdma": {"vfSelector": {}}})
    first = allocated(node, by_vf)
    assert [grant.vf for grant in allocated(node, by_vf, first.grants).of("rdma")] == ["0000:01:00.1"]


def test_nics_alone_and_those_of_another_pcie_are_idle_ones_first() -> None:
    node = inventory(gpu(0, 0, "a"), gpu(1, 0, "b"), nic(0, 0, "c"), nic(1, 0, "d"), nic(2, 1, "e"))
    asked, held = question({GPUS: 1, NICS: 1}, BOTH), [DeviceGrant("rdma", 0, 1), DeviceGrant("gpu", 0, 100)]
    assert minors(allocated(node, asked, held), "rdma") == [1]
    both = inventory(nic(0, 0, "a"), nic(1, 0, "a"))
    assert minors(allocated(both, question({NICS: 25}), [DeviceGrant("rdma", 0, 1)]), "rdma") == [1]
    assert minors(
        allocated(both, question({NICS: 25}), [DeviceGrant("rdma", 0, 25), DeviceGrant("rdma", 1, 80)]), "rdma"
    ) == [0]
