"""Devices beside free CPUs, on four nodes of four CPUs."""

from policies.base import CpuKind, Grant
from policies.device_grants import DeviceGrant
from policies.device_requests import DeviceAsk
from policies.devices import CannotAllocate, DeviceInventory, InventoryDevice
from policies.topology_aware.devices.held import HeldDevices
from policies.topology_aware.devices.place_choice import FoundAllocation, PlaceSearch
from policies.topology_aware.supply.context import PlacementContext
from sysfs.cpuset import CpuSet
from tests.unit.policies.allocations import ask, asking, choosing, gpus_on, holding, names, whole
from tests.unit.policies.build import four_nodes, request

MACHINE = four_nodes()
PAIRS = DeviceInventory(
    tuple(InventoryDevice(kind, node, node, f"p{node}") for kind in ("gpu", "rdma") for node in range(4))
)

Search = tuple[PlaceSearch, PlacementContext]


def search(devices: DeviceInventory, wanted: DeviceAsk, *others: Grant, mcpu: int = 2000) -> Search:
    context = choosing(MACHINE, devices, asking("new/c", wanted, mcpu), *others)
    assert context.machine_devices is not None
    return PlaceSearch(HeldDevices(context, context.machine_devices), wanted), context


def found(of: Search, within: int | None = None, *earlier: DeviceGrant) -> FoundAllocation:
    answer = of[0].find(of[1], within, earlier)
    assert isinstance(answer, FoundAllocation), answer
    return answer


def full(*nodes: int) -> Grant:
    """A container that owns all CPUs of these nodes."""
    cpus = CpuSet.of(cpu for node in nodes for cpu in range(4 * node, 4 * node + 4))
    return Grant(request("full/c", 1000 * len(cpus)), "root", CpuKind.EXCLUSIVE, cpus)


def test_a_device_beside_a_full_node_loses_to_one_beside_a_free_node() -> None:
    answer = found(search(gpus_on(0, 1, 2, 3), ask(gpu=1), full(0)))
    assert (names(answer.answer.grants), answer.passed_over) == ("gpu 1", 0b1)


def test_room_decides_before_devices_in_use_are_filled() -> None:
    shared = holding("a/c", DeviceGrant("gpu", 0, 50))
    assert names(found(search(gpus_on(0, 1), ask(core=50), shared)).answer.grants) == "gpu 0"
    assert names(found(search(gpus_on(0, 1), ask(core=50), shared, full(0))).answer.grants) == "gpu 1"


def test_devices_on_one_node_are_better_than_room() -> None:
    assert names(found(search(gpus_on(0, 0, 1, 2), ask(gpu=2), full(0))).answer.grants) == "gpu 0, gpu 1"


def test_devices_on_the_same_pcie_are_better_than_room() -> None:
    both = ask(("gpu", "rdma"), gpu=1, rdma=1)
    nics = holding("a/c", *(whole(minor, "rdma") for minor in (1, 2, 3)))
    assert names(found(search(PAIRS, both, nics, full(0))).answer.grants) == "gpu 0, rdma 0"


def test_types_that_are_not_asked_for_jointly_are_on_one_node_where_they_can_be() -> None:
    nics = holding("a/c", whole(0, "rdma"), whole(1, "rdma"))
    assert names(found(search(PAIRS, ask(gpu=1, rdma=1), nics)).answer.grants) == "gpu 2, rdma 2"


def test_of_several_nodes_those_with_the_most_room_are_taken() -> None:
    assert names(found(search(gpus_on(0, 1, 2, 3), ask(gpu=2), full(0, 2), mcpu=6000)).answer.grants) == "gpu 1, gpu 3"


def test_where_nothing_has_room_the_first_choice_stays() -> None:
    answer = found(search(gpus_on(0, 1), ask(gpu=1), full(0, 1)))
    assert (names(answer.answer.grants), answer.passed_over) == ("gpu 0", 0)


def test_the_nodes_bound_the_search() -> None:
    assert names(found(search(gpus_on(0, 1, 2), ask(gpu=1), full(1)), 0b110).answer.grants) == "gpu 2"
    two, context = search(gpus_on(0, 1), ask(gpu=2))
    assert isinstance(two.find(context, 0b10), CannotAllocate)


def test_earlier_devices_are_kept_though_others_are_better() -> None:
    answer = found(search(gpus_on(0, 1), ask(gpu=1), full(1)), None, whole(1))
    assert (names(answer.answer.grants), answer.is_earlier) == ("gpu 1", True)
    assert not found(search(gpus_on(0, 1), ask(gpu=1)), 0b1, whole(1)).is_earlier
