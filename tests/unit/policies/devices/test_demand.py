from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from policies.devices import DemandError, DeviceAllocator, DeviceInventory
from policies.devices.demand import DeviceDemand
from tests.unit.policies.devices.build import GIB, GPUS, NICS, allocated, gpu, inventory, minors, nic, question

UNITS = "koordinator.sh/gpu"
CORE = "koordinator.sh/gpu-core"
MEMORY = "koordinator.sh/gpu-memory"
RATIO = "koordinator.sh/gpu-memory-ratio"
SHARED = "koordinator.sh/gpu.shared"
NODE = inventory(gpu(0), gpu(1), gpu(2, memory=40 * GIB), nic(0))


def demand(requests: Mapping[str, int], strategy: str = "", kind: str = "gpu") -> DeviceDemand:
    hints = {kind: {"allocateStrategy": strategy}} if strategy else None
    (found,) = DeviceAllocator(NODE).demands(question(requests, hints=hints))
    return found


def of_bytes(asked: int, node: DeviceInventory) -> DeviceDemand:
    (found,) = DeviceAllocator(node).demands(question({MEMORY: asked}))
    return found


@pytest.mark.parametrize(
    ("requests", "count", "units", "memory"),
    [
        ({GPUS: 3}, 3, 100, 100),
        ({"dcu.com/gpu": 1}, 1, 100, 100),
        ({UNITS: 50}, 1, 50, 50),
        ({UNITS: 200}, 2, 100, 100),
        ({CORE: 50, RATIO: 30}, 1, 50, 30),
        ({CORE: 200, RATIO: 200}, 2, 100, 100),
        ({CORE: 50, RATIO: 200}, 2, 25, 100),
        ({RATIO: 30}, 1, None, 30),
        ({RATIO: 300}, 3, None, 100),
        ({SHARED: 2, CORE: 100, RATIO: 60}, 2, 50, 30),
        ({SHARED: 3, UNITS: 102}, 3, 34, 34),
    ],
)
def test_units_up_to_100_are_of_one_device_and_multiples_of_it_that_many(
    requests: Mapping[str, int], count: int, units: int | None, memory: int
) -> None:
    found = demand(requests)
    assert (found.count, found.units, found.memory_units) == (count, units, memory)


@pytest.mark.parametrize(
    ("requests", "count", "each"),
    [
        ({MEMORY: 20 * GIB}, 1, 20 * GIB),
        ({MEMORY: 160 * GIB}, 2, 80 * GIB),
        ({MEMORY: 120 * GIB}, 3, 40 * GIB),
        ({MEMORY: 20 * GIB, CORE: 100}, 1, 20 * GIB),
        ({MEMORY: 20 * GIB, CORE: 200}, 2, 10 * GIB),
        ({MEMORY: 20 * GIB, SHARED: 2}, 2, 10 * GIB),
        ({MEMORY: 10, SHARED: 3}, 3, 4),
    ],
)
def test_bytes_of_memory_are_of_one_gpu_or_of_as_many_as_have_them(
    requests: Mapping[str, int], count: int, each: int
) -> None:
    found = demand(requests)
    assert (found.count, found.memory_bytes, found.memory_units) == (count, each, None)


def test_bytes_are_of_as_many_gpus_as_have_them_whole_the_largest_first_and_healthy_ones_alone() -> None:
    sick = replace(gpu(3, memory=60 * GIB), is_healthy=False)
    node = inventory(
        *(gpu(minor, memory=size * GIB) for minor, size in enumerate((10, 20, 30))), sick, gpu(4, memory=0)
    )
    found = of_bytes(60 * GIB, node)
    assert (found.count, found.memory_bytes) == (2, 30 * GIB)
    assert of_bytes(60 * GIB, inventory(gpu(0, memory=0))).count == 1


def test_bytes_of_every_gpu_are_not_shared_out_among_them() -> None:
    found = demand({MEMORY: 160 * GIB}, "ApplyForAll")
    assert (found.is_all, found.memory_bytes) == (True, 160 * GIB)


def test_units_of_gpus_may_be_a_number_of_gpus_with_one_unit_each() -> None:
    found = demand({UNITS: 3}, "RequestsAsCount")
    assert (found.count, found.units, found.memory_units, found.resources) == (3, 1, 1, {UNITS: 1})


def test_bytes_are_parts_of_what_a_gpu_has() -> None:
    found = demand({MEMORY: 20 * GIB})
    assert [found.memory_of(device) for device in NODE.of("gpu")] == [Fraction(25), Fraction(25), Fraction(50)]
    assert found.memory_of(gpu(3, memory=0)) is None


def test_what_was_taken_stands_under_the_names_of_the_request() -> None:
    assert demand({GPUS: 2}).resources == {GPUS: 1}
    assert demand({CORE: 200, MEMORY: 20 * GIB}).resources == {CORE: 100, MEMORY: 10 * GIB}


def test_the_amount_of_a_nic_is_no_number_of_nics_unless_the_hint_says_so() -> None:
    one, two = demand({NICS: 2}), demand({NICS: 200})
    counted = demand({NICS: 2}, "RequestsAsCount", "rdma")
    everywhere = demand({NICS: 100}, "ApplyForAll", "rdma")
    assert [(d.count, d.units) for d in (one, two, counted)] == [(1, 2), (2, 100), (2, 1)]
    assert (everywhere.units, everywhere.is_all, one.is_all) == (100, True, False)
    all_of_them = question({NICS: 100}, hints={"rdma": {"allocateStrategy": "ApplyForAll"}})
    two_nics = inventory(nic(0), nic(1))
    assert minors(allocated(two_nics, all_of_them), "rdma") == [0, 1]
    assert minors(allocated(two_nics, question({NICS: 2})), "rdma") == [0]


def test_amounts_of_nothing_and_of_others_ask_for_nothing() -> None:
    assert DeviceAllocator(NODE).demands(question({GPUS: 0, "cpu": 4, "example.com/x": 1})) == ()


def test_types_are_in_order_whatever_the_order_of_the_request() -> None:
    found = DeviceAllocator(NODE).demands(question({"koordinator.sh/fpga": 1, NICS: 1, GPUS: 1}))
    assert [demand.kind for demand in found] == ["gpu", "rdma", "fpga"]


def test_a_whole_device_is_one_of_which_nothing_is_left() -> None:
    asked: list[dict[str, int]] = [{GPUS: 1}, {UNITS: 100}, {RATIO: 100}, {NICS: 100}, {NICS: 99}]
    assert [demand(requests).is_whole for requests in asked] == [True, True, False, True, False]


@pytest.mark.parametrize(
    ("requests", "strategy", "problem"),
    [
        ({GPUS: 1, UNITS: 100}, "", "nvidia.com/gpu and koordinator.sh/gpu ask for GPUs in different ways"),
        ({GPUS: 1, RATIO: 50}, "", "nvidia.com/gpu and koordinator.sh/gpu-memory-ratio ask for GPUs in different ways"),
        ({CORE: 50}, "", "koordinator.sh/gpu-core alone asks for no memory; add "),
        ({MEMORY: 1, RATIO: 1}, "", "koordinator.sh/gpu-memory and koordinator.sh/gpu-memory-ratio both ask"),
        ({SHARED: 2}, "", "koordinator.sh/gpu.shared: says on how many GPUs; ask for "),
        ({SHARED: 2, GPUS: 2}, "", "nvidia.com/gpu asks for whole GPUs, and koordinator.sh/gpu.shared shares them"),
        ({SHARED: 2, RATIO: 250}, "", "koordinator.sh/gpu-memory-ratio: 250 on 2 GPUs are 125 of each, which has 100"),
        ({SHARED: 2, UNITS: 101}, "", "koordinator.sh/gpu: 101 are no even parts of 2 GPUs; ask for 100 or 102"),
        ({SHARED: 2, CORE: 101, RATIO: 100}, "", "koordinator.sh/gpu-core: 101 are no even parts of 2 GPUs"),
        ({SHARED: 3, RATIO: 100}, "", "koordinator.sh/gpu-memory-ratio: 100 are no even parts of 3 GPUs; ask for 99"),
        ({SHARED: 3, UNITS: 2}, "", "koordinator.sh/gpu: 2 are no even parts of 3 GPUs; ask for 3"),
        ({CORE: 50, RATIO: 300}, "", "koordinator.sh/gpu-core: 50 are no even parts of 3 GPUs; ask for 48 or 51"),
        ({UNITS: 150}, "", "koordinator.sh/gpu: 150 is neither up to 100, an amount of one device, nor a multiple"),
        ({CORE: 200, RATIO: 100}, "", "koordinator.sh/gpu-core: 200 are 2 GPUs, koordinator.sh/gpu-memory-ratio:"),
        ({MEMORY: 90 * GIB}, "", "koordinator.sh/gpu-memory: 90Gi are more than the 80Gi of a GPU"),
        ({GPUS: 2}, "ApplyForAll", "nvidia.com/gpu: 2 of every GPU (ApplyForAll); ask for 1"),
        ({UNITS: 200}, "ApplyForAll", "koordinator.sh/gpu: 200 of every device (ApplyForAll) is more than"),
        ({SHARED: 2, RATIO: 10}, "ApplyForAll", "koordinator.sh/gpu.shared: the hint asks for every GPU (ApplyForAll)"),
        ({RATIO: 2}, "RequestsAsCount", "koordinator.sh/gpu-memory-ratio: cannot be a number of GPUs"),
        ({UNITS: 2, SHARED: 2}, "RequestsAsCount", "koordinator.sh/gpu, koordinator.sh/gpu.shared: cannot be a number"),
    ],
)  # fmt: skip
def test_a_mix_that_says_nothing_sure_is_refused(requests: Mapping[str, int], strategy: str, problem: str) -> None:
    with pytest.raises(DemandError) as caught:
        demand(requests, strategy)
    assert str(caught.value).startswith(problem)


def test_one_that_asks_for_no_whole_number_of_devices_is_told_the_nearest_ones() -> None:
    with pytest.raises(DemandError, match=r"that many whole devices; ask for 200 or 300$"):
        demand({UNITS: 250})
