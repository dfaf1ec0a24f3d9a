"""The grant of a container with devices, and what the search is given, on four nodes of four CPUs."""

from dataclasses import replace

from policies.alignment import Alignment
from policies.base import CpuKind, Decision, DeviceLocality, Grant, Placed, Previous, Reason, Rejected
from policies.device_grants import DeviceGrant, cost_names
from policies.device_requests import DeviceAsk
from policies.devices import DeviceInventory, InventoryDevice
from policies.topology_aware.devices.step import DeviceStep, join
from policies.topology_aware.supply.context import Place, PlacementContext
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.device_policy import listed
from tests.unit.policies.build import context_of, four_nodes, placed, rejected, request, tree_of
from tests.unit.policies.cost_devices import GPU, NIC, asked, inventory, on_node, on_nodes

MACHINE = four_nodes()
TREE = tree_of(MACHINE)
DEVICES = on_node(MACHINE, inventory(on_nodes(MACHINE, GPU, [1, 2])))
DISK = DeviceLocality("/dev/sda", CpuSet(), NodeSet.of([0]))


def found(context: PlacementContext) -> Decision:
    """Finds the root, and says whether the devices are a condition."""
    why = Reason("pool", "strict" if context.demand.strict_locality else "lenient")
    return Placed(Grant(context.request, "root", CpuKind.SHARED), reasons=(why,))


def nowhere(_: PlacementContext) -> Decision:
    return Rejected(Reason("cpu-full", "no room"))


def beside(context: PlacementContext, place: Place) -> Decision:
    return DeviceStep(context)(context, place)


def context(**keys: object) -> PlacementContext:
    wanted = request("new/c", 1000, devices=asked(gpu=1), **keys)  # type: ignore[arg-type]  # by name
    return replace(context_of(TREE, wanted), machine_devices=DEVICES)


def test_the_place_of_the_devices_is_a_hint_and_stays_with_the_grant() -> None:
    decision = placed(beside(context(localities=(DISK,)), found))
    assert decision.grant.devices == listed(f"{GPU}/0")
    assert decision.grant.request.localities == (DISK, DeviceLocality(f"{GPU}/0", CpuSet.parse("4-7"), NodeSet()))
    assert [reason.code for reason in decision.reasons] == ["devices", "device-costs", "pool"]


def test_a_strict_preference_for_devices_covers_the_chosen_ones() -> None:
    assert placed(beside(context(strict_locality=True), found)).reasons[-1].text == "strict"
    assert placed(beside(context(), found)).reasons[-1].text == "lenient"


def test_a_refusal_of_the_search_is_the_answer() -> None:
    assert rejected(beside(context(), nowhere)).reason.code == "cpu-full"


def test_a_container_without_devices_is_placed_as_ever() -> None:
    at = replace(context_of(TREE, request("new/c", 1000, localities=(DISK,))), machine_devices=DEVICES)
    decision = placed(beside(at, found))
    assert (decision.grant.devices, decision.grant.request) == ((), at.request)


def test_the_place_of_devices_that_it_no_longer_has_goes() -> None:
    had = DeviceLocality(f"{GPU}/1", CpuSet.parse("8-11"), NodeSet())
    own = Grant(request("new/c"), "root", CpuKind.SHARED, devices=listed(f"{GPU}/1", f"{GPU}/9"))
    decision = placed(beside(replace(context(localities=(DISK, had)), own=own), found))
    assert [hint.source for hint in decision.grant.request.localities] == [
        "/dev/sda",
        *cost_names(decision.grant.devices),
    ]


def test_devices_are_chosen_once_for_the_nodes_that_a_container_is_kept_within() -> None:
    step, anywhere = DeviceStep(context()), context()
    inside = context(alignment=Alignment(NodeSet.of([2]), NodeSet.of([2])))
    assert step.chosen(anywhere) is step.chosen(anywhere)
    assert step.chosen(inside) is not step.chosen(anywhere)


def test_a_container_that_joins_its_pod_is_refused_where_too_few_devices_are_free() -> None:
    fellow = Grant(request("new/d"), "root", CpuKind.SHARED, devices=listed(f"{GPU}/0", f"{GPU}/1"))
    assert placed(join(context(), replace(fellow, devices=()))).grant.devices == listed(f"{GPU}/0")
    beside = replace(context(), others=(fellow,))
    assert rejected(join(beside, fellow)).reason.code == "devices-short"


INVENTORY = DeviceInventory(tuple(InventoryDevice(kind, n, numa=n) for kind in ("gpu", "rdma") for n in range(4)))
BOTH = MachineDevices(MACHINE, replace(INVENTORY, costs=inventory(on_nodes(MACHINE, NIC, [0, 1, 2]))))
GPU_3 = DeviceGrant("gpu", 3, 100, is_given=True)


def at_nodes(*held: int, machine_devices: MachineDevices = BOTH, **keys: object) -> set[str]:
    """Place a container beside others that hold GPUs; return its devices."""
    others = Grant(request("other/c"), "root", CpuKind.SHARED, devices=tuple(DeviceGrant("gpu", n, 100) for n in held))
    at = replace(context_of(TREE, request("new/c", 1000, **keys), others), machine_devices=machine_devices)  # type: ignore[arg-type]  # by name
    return {device.source for device in placed(beside(at, found)).grant.devices}


def test_a_gpu_of_the_inventory_and_a_nic_of_cost_files_are_on_one_node() -> None:
    """The cheapest NIC is on node 0, whose GPU is held."""
    wanted = replace(asked(nic=1), requests=(("nvidia.com/gpu", 1),))
    assert at_nodes(devices=wanted) == {"gpu/0", f"{NIC}/0"}
    assert at_nodes(0, devices=wanted) == {"gpu/1", f"{NIC}/1"}
    assert at_nodes(0, 1, devices=wanted) == {"gpu/2", f"{NIC}/2"}


def test_devices_that_cannot_be_together_are_given_all_the_same() -> None:
    wanted = replace(asked(nic=1), requests=(("nvidia.com/gpu", 1),))
    assert at_nodes(0, 1, 2, devices=wanted) == {"gpu/3", f"{NIC}/0"}
    more = replace(asked(nic=1), requests=(("nvidia.com/gpu", 2),))
    assert len(at_nodes(devices=more)) == 3


def test_devices_are_chosen_where_those_of_the_kubelet_are() -> None:
    by_inventory = DeviceAsk(requests=(("koordinator.sh/rdma", 100),))
    assert at_nodes(devices=by_inventory, given=(GPU_3,)) == {"gpu/3", "rdma/3"}
    assert at_nodes(devices=asked(nic=1), given=(replace(GPU_3, minor=2),)) == {"gpu/2", f"{NIC}/2"}
    assert at_nodes(devices=asked(nic=1), given=(GPU_3,)) == {"gpu/3", f"{NIC}/0"}  # it has no NIC


def test_devices_are_chosen_beside_one_that_only_its_place_is_known_of() -> None:
    vf = DeviceLocality("0000:51:00.1", CpuSet(), NodeSet.of([2]), devices=("0000:51:00.1",))
    assert at_nodes(devices=DeviceAsk(requests=(("nvidia.com/gpu", 1),)), localities=(vf,)) == {"gpu/2"}
    volume = replace(vf, source="/mnt/data")
    assert at_nodes(devices=DeviceAsk(requests=(("nvidia.com/gpu", 1),)), localities=(DISK, volume)) == {"gpu/0"}


def test_devices_of_an_earlier_attempt_stay_where_they_are() -> None:
    wanted = replace(asked(nic=1), requests=(("nvidia.com/gpu", 1),))
    gpu = DeviceGrant("gpu", 3, 100, resources=(("nvidia.com/gpu", 1),))
    had = Previous("root", CpuSet(), devices=(*listed(f"{NIC}/0"), gpu))
    assert at_nodes(devices=wanted, previous=had) == {"gpu/3", f"{NIC}/0"}
