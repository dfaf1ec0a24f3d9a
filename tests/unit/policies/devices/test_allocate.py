from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.device_grants import DeviceGrant, DeviceKey, ExclusivePolicy
from policies.devices import (
    CannotAllocate,
    Closeness,
    DeviceAllocation,
    DeviceAllocator,
    DeviceAttempt,
    DeviceQuestion,
    GpuPartition,
)
from tests.unit.policies.devices.build import (
    GIB,
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
HONOR = {"gpu-partition-policy": "Honor"}
PREFER = {"gpu-partition-policy": "Prefer"}
EXCLUSIVE = {"rdma": {"exclusivePolicy": "PCIeLevel"}}


def test_all_matching_nics_get_the_amount_each() -> None:
    everywhere = {"rdma": {"allocateStrategy": "ApplyForAll", "selector": {"matchLabels": {"speed": "fast"}}}}
    node = inventory(nic(0, speed="fast"), nic(1, speed="slow"), nic(2, 1, speed="fast"))
    found = allocated(node, question({NICS: 100}, hints=everywhere))
    assert [(grant.minor, grant.amount) for grant in found.grants] == [(0, 100), (2, 100)]
    assert refused(node, question({NICS: 100}, hints=everywhere), [DeviceGrant("rdma", 2, 1)]) == (
        "rdma: all that match asked for, 1 can be given (rdma 1: its labels do not match the selector; 2: in use: 99"
        " of 100 units free)"
    )


def test_all_of_none_is_a_refusal() -> None:
    everywhere = {"rdma": {"allocateStrategy": "ApplyForAll", "vfSelector": {}}}
    assert refused(inventory(nic(0)), question({NICS: 1}, hints=everywhere)) == (
        "rdma: all that match with 1 unit each asked for, none can be given (rdma 0: it has no VFs)"
    )


def test_requests_as_count_take_one_vf_from_each_nic() -> None:
    counted = {"rdma": {"vfSelector": {}, "allocateStrategy": "RequestsAsCount"}}
    found = allocated(pairs(4, vfs=2), question({NICS: 2}, hints=counted))
    assert [(grant.minor, grant.amount, grant.vf) for grant in found.grants] == [
        (0, 1, "0000:00:00.1"),
        (1, 1, "0000:01:00.1"),
    ]
    exclusive = {"rdma": counted["rdma"] | {"exclusivePolicy": "DeviceLevel"}}
    assert {grant.amount for grant in allocated(pairs(4, vfs=2), question({NICS: 2}, hints=exclusive)).grants} == {100}


def test_an_exclusive_pcie_keeps_later_containers_away() -> None:
    node = inventory(nic(0, 0, "p0"), nic(1, 0, "p0"), nic(2, 0, "p1"), gpu(0, 0, "p0"))
    first = allocated(node, question({NICS: 1}, hints=EXCLUSIVE))
    assert (minors(first, "rdma"), first.grants[0].exclusive) == ([0], ExclusivePolicy.PCIE_LEVEL)
    second = allocated(node, question({NICS: 1}), first.grants)
    assert minors(second, "rdma") == [2]
    assert refused(node, question({NICS: 200}), first.grants).endswith(
        "1 can be given (rdma 0-1: another pod has its PCIe exclusively (PCIeLevel))"
    )
    assert minors(allocated(node, question({GPUS: 1}), first.grants), "gpu") == [0]


def test_an_exclusive_pcie_is_one_that_no_one_uses_yet() -> None:
    node = inventory(nic(0, 0, "p0"), nic(1, 0, "p0"), nic(2, 0, "p1"))
    held = [DeviceGrant("rdma", 1, 1)]
    assert minors(allocated(node, question({NICS: 1}, hints=EXCLUSIVE), held), "rdma") == [2]
    assert refused(node, question({NICS: 200}, hints=EXCLUSIVE), held).endswith(
        "1 can be given (rdma 0-1: other pods use rdma on its PCIe (PCIeLevel))"
    )


def test_one_container_may_have_two_devices_of_its_exclusive_pcie() -> None:
    node = inventory(nic(0, 0, "p0"), nic(1, 0, "p0"))
    assert minors(allocated(node, question({NICS: 200}, hints=EXCLUSIVE)), "rdma") == [0, 1]


def test_an_exclusive_device_keeps_its_other_vfs_from_others() -> None:
    node = inventory(nic(0, vfs=2))
    asked = question({NICS: 1}, hints={"rdma": {"vfSelector": {}, "exclusivePolicy": "DeviceLevel"}})
    first = allocated(node, asked)
    assert first.grants[0].vf == "0000:00:00.1"
    assert "in use" in refused(node, question({NICS: 1}, hints={"rdma": {"vfSelector": {}}}), first.grants)


def test_a_required_scope_is_kept_or_refused() -> None:
    node = inventory(*(gpu(i, i // 2, f"p{i // 2}") for i in range(4)), gpu(4, None))
    held = [DeviceGrant("gpu", 0, 100)]

    pcie = question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "PCIe"}})
    assert minors(allocated(node, pcie, held), "gpu") == [2, 3]
    three = question({GPUS: 3}, hints={"gpu": {"requiredTopologyScope": "NUMANode"}})
    assert refused(node, three, held) == (
        "gpu: 3 asked for with requiredTopologyScope NUMANode; those that can be given: 1 on NUMA node 0, 2 on NUMA"
        " node 1, 1 on the unknown NUMA node of the unknown PCIe of gpu 4"
    )
    device = question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "Device"}})
    assert refused(node, device).endswith("requiredTopologyScope Device, which is one device; ask for one")
    anywhere = question({GPUS: 4}, hints={"gpu": {"requiredTopologyScope": "Node"}})
    assert minors(allocated(node, anywhere), "gpu") == [0, 1, 2, 3]


def test_the_scope_of_a_second_type_decides_where_the_first_one_is() -> None:
    node = inventory(*pairs(4).devices, nic(4, 1, "p3"))
    asked = question({GPUS: 1, NICS: 200}, BOTH, hints={"rdma": {"requiredTopologyScope": "PCIe"}})
    found = allocated(node, asked)
    assert (minors(found, "gpu"), minors(found, "rdma")) == ([3], [3, 4])


@pytest.mark.parametrize(
    ("resource", "amount", "found"),
    [("nvidia.com/gpu", 2, [0, 3]), ("amd.com/gpu", 2, [1, 3]), ("habana.ai/gaudi", 2, [2, 3]), ("gpu", 400, range(4))],
)
def test_the_resource_of_a_vendor_gives_its_gpus_and_those_of_no_named_vendor(
    resource: str, amount: int, found: Sequence[int]
) -> None:
    vendors = ("nvidia", "amd", "habana", "")
    node = inventory(*(replace(gpu(n), vendor=vendor) for n, vendor in enumerate(vendors)))
    name = f"koordinator.sh/{resource}" if resource == "gpu" else resource
    answer = DeviceAllocator(node).allocate(DeviceQuestion({name: amount}))
    assert isinstance(answer, DeviceAllocation)
    assert [grant.minor for grant in answer.grants] == [*found]


def test_a_refusal_names_the_vendor_of_the_gpus_that_there_are() -> None:
    node = inventory(*(replace(gpu(n), vendor="amd") for n in range(2)))
    answer = DeviceAllocator(node).allocate(DeviceQuestion({"nvidia.com/gpu": 1}))
    assert isinstance(answer, CannotAllocate)
    assert answer.problem == "gpu: 1 asked for, none can be given (gpu 0-1: made by amd, not by nvidia)"


def test_shares_of_one_gpu_add_up() -> None:
    half = question({"koordinator.sh/gpu-core": 50, "koordinator.sh/gpu-memory": 40 * GIB})
    node = inventory(gpu(0), gpu(1))
    first = allocated(node, half)
    second = allocated(node, half, first.grants)
    third = allocated(node, half, (*first.grants, *second.grants))
    assert [minors(found, "gpu") for found in (first, second, third)] == [[0], [0], [1]]
    assert first.grants[0].resources == (("koordinator.sh/gpu-core", 50), ("koordinator.sh/gpu-memory", 40 * GIB))


def test_gpus_are_kept_together_before_low_minors_are_taken() -> None:
    node = inventory(*(gpu(i, i // 4, f"p{i // 2}") for i in range(8)))
    assert minors(allocated(node, question({GPUS: 2}), [DeviceGrant("gpu", 0, 100)]), "gpu") == [2, 3]
    assert minors(allocated(node, question({GPUS: 1}), [DeviceGrant("gpu", 2, 100)]), "gpu") == [3]


def test_nothing_asked_for_is_nothing_given() -> None:
    assert allocated(pairs(2), question({GPUS: 0})).grants == ()


def test_only_the_named_devices_and_vfs_may_be_taken() -> None:
    asked = question({NICS: 1}, hints={"rdma": {"vfSelector": {}}})
    allocator = DeviceAllocator(pairs(4, vfs=3))
    only: dict[DeviceKey, str] = {("rdma", 2): "0000:02:00.3"}
    answer = DeviceAttempt(allocator, asked, allocator.usage(()), None, only).run()
    assert isinstance(answer, DeviceAllocation)
    assert [(grant.minor, grant.vf) for grant in answer.grants] == [(2, "0000:02:00.3")]
    assert isinstance(DeviceAttempt(allocator, asked, allocator.usage(()), 0b01, only).run(), CannotAllocate)


def test_what_the_container_has_itself_is_not_free_and_no_others() -> None:
    allocator = DeviceAllocator(inventory(gpu(0, pcie="one"), gpu(1, pcie="one")))
    alone = question({GPUS: 1}, hints={"gpu": {"exclusivePolicy": "PCIeLevel"}})
    own = [DeviceGrant("gpu", 0, 100)]
    answer = allocator.allocate(alone, own=own)
    assert isinstance(answer, DeviceAllocation)
    assert minors(answer, "gpu") == [1]
    assert isinstance(allocator.allocate(alone, own), CannotAllocate)


def test_choices_say_how_good_they_are() -> None:
    (choice,) = allocated(pairs(4), question({GPUS: 1, NICS: 1}, BOTH)).choices
    assert ((*choice.devices,), choice.closeness, choice.partition) == (BOTH, Closeness.SAME_PCIE, ())
    devices = inventory(*(gpu(i) for i in range(4)), partitions=[GpuPartition((2, 3), score=2)])
    one, other = (
        allocated(devices, asked).choices[0] for asked in (question({GPUS: 2}, partition={}), question({GPUS: 2}))
    )
    assert (one.partition, other.partition) == ((2, 3), ())
    assert one.rank < other.rank


@pytest.mark.parametrize(
    ("asked", "is_constrained"),
    [
        (question({GPUS: 2, NICS: 1}), False),
        (question({GPUS: 2, NICS: 1}, BOTH), False),
        (question({GPUS: 2, NICS: 1}, BOTH, scope="SamePCIe"), True),
        (question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "Node"}}), False),
        (question({GPUS: 2}, hints={"gpu": {"requiredTopologyScope": "NUMANode"}}), True),
        (question({GPUS: 2, NICS: 1}, hints={"rdma": {"requiredTopologyScope": "PCIe"}}), True),
        (question({GPUS: 2}, labels=HONOR), True),
        (question({GPUS: 2}, labels=PREFER), False),
        (question({NICS: 1}, labels=HONOR), False),
    ],
)
def test_enough_devices_are_all_it_takes_but_where_a_place_or_partition_is_required(
    asked: DeviceQuestion, is_constrained: bool
) -> None:
    allocator = DeviceAllocator(pairs(4))
    assert DeviceAttempt(allocator, asked, allocator.usage(())).is_constrained == is_constrained
