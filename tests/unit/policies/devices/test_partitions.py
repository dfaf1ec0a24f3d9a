from collections.abc import Mapping
from dataclasses import replace

import pytest

from policies.device_grants import DeviceGrant, ExclusivePolicy
from policies.devices import DeviceInventory, GpuPartition
from tests.unit.policies.devices.build import GPUS, NICS, allocated, gpu, inventory, minors, nic, question, refused

HONOR = {"node.koordinator.sh/gpu-partition-policy": "Honor"}
PREFER = {"node.koordinator.sh/gpu-partition-policy": "Prefer"}
HOPPER = {"node.koordinator.sh/gpu-model": "H100"}
EIGHT = inventory(*(gpu(i, i // 4, f"p{i}") for i in range(8)))


def table(*partitions: GpuPartition) -> DeviceInventory:
    return inventory(*EIGHT.devices, partitions=partitions)


def used(*of: int) -> list[DeviceGrant]:
    return [DeviceGrant("gpu", minor, 100) for minor in of]


def test_a_hopper_node_gives_pairs_and_quads_that_belong_together() -> None:
    asked = question({GPUS: 2}, labels=HOPPER | HONOR)
    assert minors(allocated(EIGHT, asked, used(0)), "gpu") == [2, 3]
    assert minors(allocated(EIGHT, question({GPUS: 4}, labels=HOPPER | HONOR), used(0)), "gpu") == [4, 5, 6, 7]
    assert minors(allocated(EIGHT, question({GPUS: 1}, labels=HOPPER | HONOR), used(0, 2)), "gpu") == [1]


@pytest.mark.parametrize("model", ["H800", "NVIDIA-H20-96GB", "nvidia_h100"])
def test_the_model_may_stand_within_a_longer_name(model: str) -> None:
    labels = {"gpu-model": model, "gpu-partition-policy": "Honor"}
    assert refused(EIGHT, question({GPUS: 3}, labels=labels)) == (
        "gpu: the node's gpu-partition-policy Honor asks for a partition of 3; the partition table has sizes 1, 2, 4, 8"
    )


def test_a_larger_score_wins_whatever_the_order_of_the_table() -> None:
    low, high = GpuPartition((0, 1), 1), GpuPartition((2, 3), 5)
    for node in (table(low, high), table(high, low)):
        assert minors(allocated(node, question({GPUS: 2}, labels=HONOR)), "gpu") == [2, 3]


def test_of_partitions_that_are_equal_that_with_the_lowest_minor_is_first() -> None:
    """The minors in numerical order: a set of 1 and 8 yields 8 first."""
    ten = inventory(*(gpu(i, 0, f"p{i}") for i in range(10)), partitions=(GpuPartition((2, 3)), GpuPartition((1, 8))))
    asked = question({GPUS: 2}, labels=HONOR)
    assert [minors(allocated(ten, asked, held), "gpu") for held in ([], used(1))] == [[1, 8], [2, 3]]


def test_of_equal_scores_the_partition_is_taken_that_leaves_the_most_to_others() -> None:
    """Of the pair next to a used GPU nothing larger is left: the pair of the broken half keeps the whole half."""
    labels = HOPPER | HONOR
    assert minors(allocated(EIGHT, question({GPUS: 2}, labels=labels), used(4)), "gpu") == [6, 7]


def test_a_size_that_the_table_lacks_is_refused_under_honor_and_free_under_prefer() -> None:
    pair = table(GpuPartition((6, 7)))
    assert minors(allocated(pair, question({GPUS: 2}, labels=PREFER)), "gpu") == [6, 7]
    assert minors(allocated(pair, question({GPUS: 3}, labels=PREFER)), "gpu") == [0, 1, 2]
    assert "sizes 2" in refused(pair, question({GPUS: 3}, labels=HONOR))


def test_a_table_without_a_policy_does_not_matter() -> None:
    assert minors(allocated(table(GpuPartition((6, 7))), question({GPUS: 2})), "gpu") == [0, 1]


@pytest.mark.parametrize(
    ("spec", "held", "found"),
    [
        ({}, (), [0, 1]),
        ({}, (0,), [2, 3]),
        ({"allocatePolicy": "BestEffort"}, (0,), [2, 3]),
        ({"ringBusBandwidth": "300"}, (), [2, 3]),
    ],
)
def test_a_pod_may_ask_for_a_partition_itself(
    spec: Mapping[str, object], held: tuple[int, ...], found: list[int]
) -> None:
    node = table(GpuPartition((0, 1), 9, 200), GpuPartition((2, 3), 1, 400), GpuPartition((4, 5), 1))
    assert minors(allocated(node, question({GPUS: 2}, partition=spec), used(*held)), "gpu") == found


def test_restricted_means_the_largest_score_only() -> None:
    node = table(GpuPartition((0, 1), 9), GpuPartition((2, 3), 1))
    asked = question({GPUS: 2}, partition={"allocatePolicy": "Restricted"})
    assert refused(node, asked, used(0)) == (
        "gpu: the pod's scheduling.koordinator.sh/gpu-partition-spec asks for a partition of 2; none with the largest"
        " score can be given: 0-1 (0: in use)"
    )


def test_refusals_say_what_the_table_lacks() -> None:
    fast = question({GPUS: 2}, partition={"ringBusBandwidth": "900"})
    assert refused(table(GpuPartition((0, 1), 1, 200)), fast).endswith(
        "with a ring bandwidth of 900, which none has; ask for less"
    )
    assert "has no partition table" in refused(EIGHT, question({GPUS: 2}, labels=HONOR))


def test_shares_of_gpus_are_given_without_partitions() -> None:
    share = {"koordinator.sh/gpu": 50}
    assert minors(allocated(EIGHT, question(share, labels=HOPPER | HONOR)), "gpu") == [0]
    beside = [DeviceGrant("gpu", 3, 30)]
    assert minors(allocated(EIGHT, question(share, labels=HOPPER | HONOR), beside), "gpu") == [3]


def test_a_gpu_of_which_a_share_is_in_use_is_in_no_partition() -> None:
    asked = question({"koordinator.sh/gpu": 200}, labels=HOPPER | HONOR)
    assert minors(allocated(EIGHT, asked, [DeviceGrant("gpu", 1, 1)]), "gpu") == [2, 3]


def test_a_partition_is_chosen_for_its_nics() -> None:
    node = inventory(*EIGHT.devices, nic(0, 1, "p4"), nic(1, 1, "p5"))
    asked = question({GPUS: 2, NICS: 1}, ("gpu", "rdma"), scope="SamePCIe", labels=HOPPER | HONOR)
    found = allocated(node, asked)
    assert (minors(found, "gpu"), minors(found, "rdma")) == ([4, 5], [0, 1])


def test_a_partition_has_to_be_within_the_required_scope() -> None:
    across = table(GpuPartition((3, 4), 9), GpuPartition((5, 6), 1))
    asked = question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "NUMANode"}}, labels=HONOR)
    assert minors(allocated(across, asked), "gpu") == [5, 6]


def test_a_pair_outside_a_free_quad_is_taken_first() -> None:
    """The pair 4-5 would break the quad."""
    even = table(GpuPartition((4, 5)), GpuPartition((6, 7)), GpuPartition((0, 1, 4, 5), 1))
    assert minors(allocated(even, question({GPUS: 2}, labels=HONOR)), "gpu") == [6, 7]


def test_a_bandwidth_that_is_just_enough_will_do_and_all_gpus_need_no_partition() -> None:
    node = table(GpuPartition((2, 3), 1, 400))
    assert minors(allocated(node, question({GPUS: 2}, partition={"ringBusBandwidth": "400"})), "gpu") == [2, 3]
    everywhere = {"gpu": {"allocateStrategy": "ApplyForAll"}}
    assert len(allocated(node, question({GPUS: 1}, hints=everywhere, labels=HONOR)).grants) == 8


def test_partitions_stay_free_that_this_container_may_not_have_itself() -> None:
    """Its selector keeps it from 1 and 3: with 3 in use, GPU 2 is the one that breaks no free pair."""
    labels = [{"model": "a"}, {"model": "b"}, {"model": "a"}, {"model": "b"}]
    gpus = [replace(device, labels=label) for device, label in zip(EIGHT.devices, labels, strict=False)]
    asked = question({GPUS: 1}, hints={"gpu": {"selector": {"matchLabels": {"model": "a"}}}}, labels=HOPPER | HONOR)
    assert minors(allocated(inventory(*gpus), asked, used(3)), "gpu") == [2]


@pytest.mark.parametrize("is_sick", [False, True])
def test_a_partition_with_a_gpu_that_nobody_can_have_is_none_that_stays_free(is_sick: bool) -> None:
    """GPU 2 is sick, or on a PCIe that another pod has: GPU 1 is of its pair and breaks nothing, GPU 0 breaks 0-3."""
    pairs = [GpuPartition((0, 3)), GpuPartition((1, 2))]
    at = {0: "p0", 1: "p1", 2: "p2", 3: "p3", 4: "p2"}
    gpus = [replace(gpu(minor, 0, pcie), is_healthy=minor != 2 or not is_sick) for minor, pcie in at.items()]
    node = inventory(*gpus, nic(2), partitions=[*pairs, *(GpuPartition((minor,)) for minor in range(4))])
    held = [DeviceGrant("gpu", 4, 100, exclusive=ExclusivePolicy.DEFAULT if is_sick else ExclusivePolicy.PCIE_LEVEL)]
    assert minors(allocated(node, question({GPUS: 1}, labels=HONOR), held), "gpu") == [1]


def test_a_nic_of_the_same_number_makes_no_gpu_idle() -> None:
    pairs = [GpuPartition((0, 3)), GpuPartition((1, 2)), GpuPartition((0,)), GpuPartition((1,))]
    node = inventory(*(gpu(minor, 0, f"p{minor}") for minor in range(4)), nic(2), partitions=pairs)
    assert minors(allocated(node, question({GPUS: 1}, labels=HONOR), used(2)), "gpu") == [1]


def best(size: int, *partitions: GpuPartition) -> list[int]:
    """The minors of the partition that is taken first of a table, with eight idle GPUs."""
    return minors(allocated(table(*partitions), question({GPUS: size}, labels=HONOR)), "gpu")


def of(*partitions: tuple[int, ...]) -> list[GpuPartition]:
    return [GpuPartition(minors) for minors in partitions]


def test_what_stays_free_counts_by_its_score() -> None:
    assert best(1, *of((0,), (1,)), GpuPartition((0, 2), 5), GpuPartition((1, 3), 1)) == [1]


def test_what_stays_free_counts_from_the_size_that_is_asked_for() -> None:
    assert best(2, *of((0, 1), (1, 2), (3, 4))) == [3, 4]
    assert best(4, *of((0, 1, 2, 3), (4, 5, 6, 7), (0, 1))) == [0, 1, 2, 3]


def test_only_pairs_quads_and_eights_that_stay_free_count() -> None:
    assert best(1, *of((0,), (1,), (0, 2, 3))) == [0]
    assert best(1, *of((0,), (1,), (0, 2, 3, 4), (1, 5))) == [1]


def test_all_gpus_may_be_a_partition() -> None:
    assert minors(allocated(EIGHT, question({GPUS: 8}, labels=HOPPER | HONOR)), "gpu") == list(range(8))
