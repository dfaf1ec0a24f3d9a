"""Devices of the inventory for a container on four nodes of four CPUs, with a GPU on each."""

from dataclasses import replace

from policies.alignment import Alignment
from policies.base import Rejected, Request
from policies.costs.catalog import DeviceCatalog
from policies.costs.inventory import NO_DEVICES
from policies.device_grants import DeviceAsk, DeviceGrant, HeldDevices
from policies.devices.allocate import DeviceAllocator
from policies.devices.model import DeviceInventory, InventoryDevice
from policies.topology_aware.device_choice.allocation import Allocation, allocate
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import context_of, four_nodes, request, tree_of

MACHINE = four_nodes()
TREE = tree_of(MACHINE)
CATALOG = DeviceCatalog(MACHINE, NO_DEVICES)
GPUS = DeviceInventory(tuple(InventoryDevice("gpu", minor, numa=minor) for minor in range(4)))


def asking(count: int) -> Request:
    wanted = request("new/c", 1000)
    asked = DeviceAsk((("nvidia.com/gpu", count),))
    return replace(wanted, preferences=replace(wanted.preferences, allocation=asked))


def context(count: int) -> PlacementContext:
    return replace(context_of(TREE, asking(count)), catalog=CATALOG, allocator=DeviceAllocator(GPUS))


def allocated(of: PlacementContext) -> Allocation:
    found = allocate(of)
    assert isinstance(found, Allocation), found
    return found


def test_devices_come_with_their_numa_node() -> None:
    found = allocated(context(1))
    assert [str(device) for device in found.allocated] == ["gpu 0"]
    assert [(place.source, place.cpus, place.nodes) for place in found.near] == [
        ("gpu/0", CpuSet.parse("0-3"), NodeSet.of([0]))
    ]


def test_strict_nodes_bound_the_choice() -> None:
    inside = Alignment(NodeSet.of([2]), NodeSet.of([2]), is_strict=True)
    wanted = context(1)
    within = replace(wanted, request=replace(wanted.request, alignment=inside))
    assert [str(device) for device in allocated(within).allocated] == ["gpu 2"]


def test_too_many_are_refused_with_the_sentence_of_the_search() -> None:
    refused = allocate(context(5))
    assert isinstance(refused, Rejected)
    assert refused.reason.text == "gpu: 5 asked for, 4 can be given"


def test_what_runs_keeps_what_it_has() -> None:
    has = (DeviceGrant("gpu", 3, 100),)
    assert allocated(replace(context(1), devices=HeldDevices(allocated=has))).allocated == has
