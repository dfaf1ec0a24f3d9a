"""Which GPU a share is given of: the fullest GPU, or the idlest one where asked."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from policies.device_grants import DeviceGrant
from policies.devices import DeviceAllocation, DeviceAllocator, DeviceAttempt, DeviceInventory
from tests.unit.policies.devices.build import GPUS, NICS, allocated, gpu, inventory, minors, nic, question

BOTH = ("gpu", "rdma")
RATIO, CORE, SHARED = "koordinator.sh/gpu-memory-ratio", "koordinator.sh/gpu-core", "koordinator.sh/gpu.shared"
THIRD = {CORE: 30, RATIO: 30}


def share(of: int, amount: int) -> DeviceGrant:
    return DeviceGrant("gpu", of, amount, resources=((CORE, amount), (RATIO, amount)))


def given(node: DeviceInventory, held: Sequence[DeviceGrant], *, spreads: bool = False, count: int = 1) -> list[int]:
    amounts = {name: units * count for name, units in THIRD.items()}
    asked = question(amounts | ({SHARED: count} if count > 1 else {}))
    return minors(allocated(node, replace(asked, spreads=spreads), held), "gpu")


@pytest.mark.parametrize("switches", ["aaaa", "aabb", "abcd"])
def test_a_gpu_that_is_partly_used_is_filled_before_an_idle_one(switches: str) -> None:
    node = inventory(*(gpu(i, 0, switches[i]) for i in range(4)))
    assert given(node, [share(1, 50)]) == [1]
    assert given(node, [DeviceGrant("gpu", 0, 100), share(3, 50)]) == [3]


def test_of_two_that_are_partly_used_the_fuller_one_that_has_room_is_filled() -> None:
    node = inventory(*(gpu(i, 0, "a") for i in range(4)))
    assert given(node, [share(1, 20), share(2, 60), share(3, 80)]) == [2]
    memory_alone = [DeviceGrant("gpu", 1, 60, resources=((RATIO, 60),)), share(2, 40)]
    assert given(node, memory_alone) == [1]


def test_shares_spread_over_idle_gpus_where_that_is_asked() -> None:
    """The node that has the least in use comes first, then the PCIe, then the number."""
    node = inventory(*(gpu(i, i // 4, f"s{i // 2}") for i in range(8)))
    held: list[DeviceGrant] = []
    for _ in range(8):
        asked = replace(question(THIRD), spreads=True)
        held += allocated(node, asked, held).grants
    assert [grant.number for grant in held] == [0, 4, 2, 6, 1, 5, 3, 7]
    assert given(node, [*held, share(0, 30)], spreads=True) == [4]


def test_shares_on_several_gpus_stay_together_before_they_are_filled_or_spread() -> None:
    node = inventory(*(gpu(i, i // 2, f"s{i // 2}") for i in range(6)))
    held = [share(1, 30), share(2, 30), share(3, 30), share(4, 30)]
    assert given(node, held, count=2) == [2, 3]
    assert given(node, [*held, share(0, 70)], spreads=True, count=2) == [4, 5]


@pytest.mark.parametrize("spreads", [False, True])
def test_the_place_of_a_nic_counts_before_what_is_in_use(spreads: bool) -> None:
    node = inventory(gpu(0, 0, "a"), gpu(1, 0, "b"), gpu(2, 1, "c"), nic(0, 0, "b"))
    asked = replace(question({**THIRD, NICS: 1}, BOTH), spreads=spreads)
    assert minors(allocated(node, asked, [share(0 if not spreads else 1, 50)]), "gpu") == [1]


@pytest.mark.parametrize("spreads", [False, True])
@pytest.mark.parametrize("held", [[], [share(1, 50)], [share(2, 50)]])
def test_shares_are_of_the_gpus_that_the_pod_keeps_before_others(held: list[DeviceGrant], *, spreads: bool) -> None:
    allocator = DeviceAllocator(inventory(*(gpu(i, 0, "a") for i in range(3))))
    asked = replace(question({CORE: 60, RATIO: 60, SHARED: 2}), spreads=spreads)
    answer = DeviceAttempt(allocator, asked, allocator.usage(held), kept={("gpu", 2): ""}).run()
    assert isinstance(answer, DeviceAllocation)
    assert 2 in minors(answer, "gpu")


def test_whole_gpus_and_those_of_other_requests_are_chosen_as_without_shares() -> None:
    node = inventory(*(gpu(i, 0, f"s{i // 2}") for i in range(4)))
    asked = question({GPUS: 1})
    assert minors(allocated(node, asked, [share(2, 50)]), "gpu") == [3]
    assert minors(allocated(node, replace(asked, spreads=True), [share(2, 50)]), "gpu") == [3]
