from collections.abc import Mapping, Sequence

from policies.device_grants import DeviceGrant
from policies.devices import (
    CannotAllocate,
    DeviceAllocator,
    DeviceInventory,
    DeviceQuestion,
    GpuPartition,
    can_meet,
    device_hints,
    hints_on,
)
from sysfs.cpuset import NodeSet
from tests.unit.policies.devices.build import GPUS, NICS, gpu, inventory, nic, pairs, question

BOTH = ("gpu", "rdma")


def sets(
    node: DeviceInventory, asked: DeviceQuestion, *held: DeviceGrant
) -> Mapping[str, list[tuple[str, bool]] | None]:
    found = device_hints(DeviceAllocator(node), asked, held)
    assert not isinstance(found, CannotAllocate), found
    return {
        kind: None if hints is None else [(str(NodeSet(hint.nodes or 0)), hint.preferred) for hint in hints]
        for kind, hints in found.items()
    }


def test_sets_are_offered_that_can_serve_the_whole_request() -> None:
    found = sets(pairs(4), question({GPUS: 2, NICS: 1}, BOTH))
    assert found["gpu"] == found["rdma"] == [("0", True), ("1", True), ("0-1", False)]


def test_what_is_in_use_takes_a_node_away_and_the_smallest_left_is_preferred() -> None:
    found = sets(pairs(4), question({GPUS: 2}), DeviceGrant("gpu", 0, 100))
    assert found == {"gpu": [("1", True), ("0-1", False)]}
    assert sets(pairs(4), question({GPUS: 3})) == {"gpu": [("0-1", True)]}


def test_types_on_different_nodes_need_both() -> None:
    node = inventory(gpu(0, 0, "p0"), nic(0, 2, "p1"), gpu(1, 5, "p2"))
    assert sets(node, question({GPUS: 1, NICS: 1}, BOTH))["gpu"] == [("0,2", True), ("2,5", True), ("0,2,5", False)]


def test_nodes_without_a_device_of_the_request_are_in_no_set() -> None:
    assert sets(inventory(gpu(0, 0), nic(0, 1)), question({GPUS: 1})) == {"gpu": [("0", True)]}


def test_all_devices_need_all_of_their_nodes() -> None:
    everywhere = {"gpu": {"allocateStrategy": "ApplyForAll"}}
    assert sets(pairs(4), question({GPUS: 1}, hints=everywhere)) == {"gpu": [("0-1", True)]}


def test_a_device_of_unknown_node_can_be_had_with_any_set() -> None:
    assert sets(inventory(gpu(0, None), gpu(1, 1)), question({GPUS: 1})) == {"gpu": [("1", True)]}
    assert sets(inventory(gpu(0, None)), question({GPUS: 1})) == {"gpu": None}


def test_what_cannot_be_had_at_all_is_a_refusal() -> None:
    found = device_hints(DeviceAllocator(pairs(2)), question({GPUS: 3}))
    assert found == CannotAllocate("gpu: 3 asked for, 2 can be given")


def test_more_nodes_than_are_listed_are_a_refusal() -> None:
    found = device_hints(DeviceAllocator(inventory(*(gpu(i, i) for i in range(17)))), question({GPUS: 1}))
    assert found == CannotAllocate("the devices are on 17 NUMA nodes; hints are listed for 16")


def serving(
    allocator: DeviceAllocator, asked: Sequence[DeviceQuestion], held: Sequence[DeviceGrant], *places: int
) -> list[int]:
    """The sets of these places, bit i for the i-th, that can serve."""
    found = hints_on(allocator, asked, held, dict(enumerate(places)))
    return sorted(hint.nodes or 0 for hint in found)


def test_places_may_be_several_nodes_and_unnamed_ones_belong_to_every_set() -> None:
    allocator, one = DeviceAllocator(inventory(gpu(0, 0), gpu(1, 1), gpu(2, 7))), question({GPUS: 1})
    assert serving(allocator, (one,), (), 0b01, 0b10) == [1, 2, 3]
    full = [DeviceGrant("gpu", 2, 100), DeviceGrant("gpu", 0, 100)]
    assert serving(allocator, (one,), full, 0b01, 0b10) == [2, 3]
    assert serving(allocator, (question({GPUS: 2}),), full[:1], 0b11, 0b10) == [1, 3]


def test_questions_are_met_one_after_the_other() -> None:
    allocator, half = DeviceAllocator(pairs(2)), question({"koordinator.sh/gpu": 60})
    assert can_meet(allocator, (half, half), (), None)
    assert not can_meet(allocator, (half, half), (), 0b01)
    assert not can_meet(allocator, (half, half), (), None, [DeviceGrant("gpu", 0, 100)])
    assert serving(allocator, (half, half), (), 0b01, 0b10) == [3]


def test_questions_of_one_pod_share_a_pcie_that_it_has_exclusively() -> None:
    allocator = DeviceAllocator(inventory(gpu(0, 0, "p0"), gpu(1, 0, "p0")))
    alone = question({GPUS: 1}, hints={"gpu": {"exclusivePolicy": "PCIeLevel"}})
    assert can_meet(allocator, (alone, alone), (), None)
    assert not can_meet(allocator, (alone,), [DeviceGrant("gpu", 0, 100)], None)


def test_enough_devices_do_not_serve_where_a_place_is_required_or_some_are_counted_twice() -> None:
    allocator = DeviceAllocator(pairs(2, 1))
    on_one_pcie = question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "PCIe"}})
    assert serving(allocator, (on_one_pcie,), (), 0b1) == []
    assert serving(allocator, (question({GPUS: 3}),), (), 0b1, 0b1) == []


def test_places_serve_of_which_a_part_does_whatever_the_first_question_would_take_of_them() -> None:
    """The best partition has a GPU of each node; the second question is then left without one."""
    table = [GpuPartition((0, 1, 2)), GpuPartition((3, 4, 5)), GpuPartition((0, 3, 6), score=9)]
    node = inventory(*(gpu(minor, minor // 3) for minor in range(7)), partitions=table)
    three = question({GPUS: 3}, labels={"gpu-partition-policy": "Honor"})
    assert not can_meet(DeviceAllocator(node), (three, three), (), None)
    assert serving(DeviceAllocator(node), (three, three), (), 0b001, 0b010, 0b100) == [0b011, 0b111]
