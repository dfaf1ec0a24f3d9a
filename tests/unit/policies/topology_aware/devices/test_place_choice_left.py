"""Devices that a pod keeps of ended containers: the next one gets them, and free ones where it asks for more."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.device_grants import DeviceGrant, DeviceHolding
from policies.device_requests import DeviceAsk
from policies.devices import (
    GPU,
    CannotAllocate,
    DeviceInventory,
    GpuPartition,
    InventoryDevice,
    VfGroup,
    VirtualFunction,
)
from policies.topology_aware.devices.held import HeldDevices
from policies.topology_aware.devices.place_choice import FoundAllocation, PlaceSearch
from tests.unit.policies.allocations import ask, asking, choosing, gpus_on, holding, names, whole
from tests.unit.policies.build import four_nodes
from tests.unit.policies.devices.links.machines import kep_690

MACHINE = four_nodes()
PAIRS = DeviceInventory(tuple(InventoryDevice(kind, n, n // 2, f"p{n}") for kind in ("gpu", "rdma") for n in range(8)))


def vf(minor: int, number: int) -> DeviceGrant:
    return DeviceGrant("rdma", minor, 1, f"0000:{minor:02x}:00.{number}", resources=(("koordinator.sh/rdma", 1),))


NICS = DeviceInventory(
    tuple(
        InventoryDevice(
            "rdma", n, n, f"p{n}", vf_groups=(VfGroup(tuple(VirtualFunction(i, vf(n, i).vf) for i in (1, 2))),)
        )
        for n in range(4)
    )
)


def answer(
    devices: DeviceInventory, wanted: DeviceAsk, *left: DeviceGrant, others: Sequence[DeviceGrant] = ()
) -> FoundAllocation | CannotAllocate:
    """What a container gets whose pod keeps ``left``."""
    request = asking("new/c", wanted)
    kept = DeviceHolding("default/new/init (ended, kept for its pod)", left, request.container.pod_uid)
    context = choosing(MACHINE, devices, request, *([holding("a/c", *others)] if others else []))
    context = replace(context, holdings=(kept,))
    assert context.machine_devices is not None
    return PlaceSearch(HeldDevices(context, context.machine_devices), wanted).find(context, None)


def got(
    devices: DeviceInventory, wanted: DeviceAsk, *left: DeviceGrant, others: Sequence[DeviceGrant] = ()
) -> tuple[str, str]:
    """The devices, and those of them that were left."""
    found = answer(devices, wanted, *left, others=others)
    assert isinstance(found, FoundAllocation), found
    return names(found.answer.grants), names(found.left)


def test_what_is_enough_is_all_that_a_container_gets() -> None:
    assert got(gpus_on(0, 0, 0, 0), ask(gpu=2), whole(2), whole(3)) == ("gpu 2, gpu 3", "gpu 2, gpu 3")
    assert got(gpus_on(0, 0, 0, 0), ask(gpu=1), whole(2), whole(3)) == ("gpu 2", "gpu 2")


def test_one_that_asks_for_more_gets_them_with_the_nearest_free_ones() -> None:
    """Without the one that its pod keeps the pair of node 0 would be better."""
    assert got(gpus_on(0, 0, 1, 1), ask(gpu=2), whole(3)) == ("gpu 2, gpu 3", "gpu 3")
    assert got(gpus_on(0, 0, 0, 1), ask(gpu=2), whole(3)) == ("gpu 0, gpu 3", "gpu 3")
    assert got(gpus_on(0, 0, 1, 1), ask(gpu=3), whole(3), others=[whole(0)]) == ("gpu 1, gpu 2, gpu 3", "gpu 3")


def test_links_and_partitions_count_for_the_rest() -> None:
    """On the machine of KEP-690 GPU 5 has its double links to 1 and 6."""
    linked = replace(gpus_on(*[0] * 8), links=kep_690())
    assert got(linked, ask(gpu=2), whole(5), others=[whole(1)]) == ("gpu 5, gpu 6", "gpu 5")
    pairs = tuple(GpuPartition(minors) for minors in ((0, 1), (2, 3)))
    node = DeviceInventory(gpus_on(0, 0, 1, 1).devices, pairs, {"node.koordinator.sh/gpu-partition-policy": "Honor"})
    assert got(node, ask(gpu=2), whole(2)) == ("gpu 2, gpu 3", "gpu 2")


def test_with_nics_beside_them_what_is_kept_of_each_type_is_taken() -> None:
    both = ask(("gpu", "rdma"), gpu=2, rdma=1)
    kept = (whole(5), DeviceGrant("rdma", 5, 1, resources=(("koordinator.sh/rdma", 1),)))
    assert got(PAIRS, both, *kept) == ("gpu 4, gpu 5, rdma 4, rdma 5", "gpu 5, rdma 5")


def test_virtual_functions_that_are_kept_are_taken_themselves() -> None:
    """Each of the NIC that it is of; another function of that NIC is not the one that was kept."""
    hint = {"rdma": {"vfSelector": {}, "allocateStrategy": "RequestsAsCount"}}
    found = got(NICS, ask(hints=hint, rdma=2), vf(2, 2))
    assert found == ("rdma 0 VF 0000:00:00.1, rdma 2 VF 0000:02:00.2", "rdma 2 VF 0000:02:00.2")


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (ask(gpu=2, hints={"gpu": {"requiredTopologyScope": "NUMANode"}}), (whole(0), whole(7))),
        (ask(gpu=3, hints={"gpu": {"requiredTopologyScope": "NUMANode"}}), (whole(0),)),
    ],
)
def test_a_place_that_is_required_comes_before_what_is_kept(wanted: DeviceAsk, left: tuple[DeviceGrant, ...]) -> None:
    devices = gpus_on(0, 0, 1, 1, 1, 2, 2, 3)
    found, _ = got(devices, wanted, *left)
    by_number = {f"gpu {device.minor}": device.numa for device in devices.devices}
    assert len({by_number[name] for name in found.split(", ")}) == 1


def test_what_is_kept_and_ill_keeps_no_container_from_others() -> None:
    first, *others = gpus_on(0, 0, 0).devices
    ill = DeviceInventory((replace(first, is_healthy=False), *others))
    assert got(ill, ask(gpu=2), whole(0)) == ("gpu 1, gpu 2", "")


Places = st.lists(st.integers(0, 7), min_size=1, max_size=7)


@given(Places, st.data())
def test_as_much_as_can_be_is_of_what_is_kept_and_the_rest_is_as_near_as_it_can_be(
    groups: list[int], data: st.DataObject
) -> None:
    """Of all sets with what is kept none is on fewer NUMA nodes, or there on fewer PCIe."""
    devices = DeviceInventory(tuple(InventoryDevice(GPU, n, group // 2, f"p{group}") for n, group in enumerate(groups)))
    numbers = list(range(len(groups)))
    taken = data.draw(st.sets(st.sampled_from(numbers)))
    free = [n for n in numbers if n not in taken]
    kept = data.draw(st.sets(st.sampled_from(free))) if free else set()
    count = data.draw(st.integers(1, len(groups)))
    found = answer(devices, ask(gpu=count), *map(whole, sorted(kept)), others=list(map(whole, sorted(taken))))
    if count > len(free):
        assert isinstance(found, CannotAllocate)
        return
    assert isinstance(found, FoundAllocation)
    chosen = {grant.number for grant in found.answer.grants}
    assert len(chosen & kept) == min(count, len(kept))
    assert {grant.number for grant in found.left} == chosen & kept

    def width(some: set[int]) -> tuple[int, int]:
        return len({groups[n] // 2 for n in some}), len({groups[n] for n in some})

    if len(kept) < count:
        ways = (set(some) | kept for some in combinations([n for n in free if n not in kept], count - len(kept)))
        assert width(chosen) == min(map(width, ways))
