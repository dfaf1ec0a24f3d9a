"""The hints of devices of the inventory, on four nodes of four CPUs."""

from dataclasses import replace

from policies.alignment import PodSums
from policies.base import Grant
from policies.device_requests import DeviceAsk
from policies.devices import DeviceInventory, InventoryDevice
from policies.topology_aware.alignment.device_hints import device_hints
from policies.topology_aware.alignment.offers import ResourceHints, asked_of
from policies.topology_aware.supply.context import PlacementContext
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.unit.policies.allocations import ask, asking, choosing, gpus_on, holding, whole
from tests.unit.policies.build import four_nodes

MACHINE = four_nodes()


def context(
    devices: DeviceInventory, wanted: DeviceAsk, *others: Grant, machine: Machine = MACHINE, pod: PodSums | None = None
) -> PlacementContext:
    return choosing(machine, devices, asking("new/c", wanted, pod_sums=pod), *others)


def offered(of: PlacementContext, *, is_of_pod: bool = False) -> list[ResourceHints]:
    return list(device_hints(of, asked_of(of, is_of_pod=is_of_pod)))


def sets(offer: ResourceHints) -> list[tuple[str, bool]]:
    assert offer.hints is not None
    return [(f"{hint.nodes or 0:04b}", hint.preferred) for hint in offer.hints]


def test_sets_are_offered_on_which_all_can_be_had_and_the_smallest_are_preferred() -> None:
    (gpu,) = offered(context(gpus_on(0, 0, 1, 2), ask(gpu=2)))
    assert sets(gpu)[:3] == [("0001", True), ("0011", False), ("0101", False)]
    assert (gpu.wanted, gpu.free) == ("2 devices", "2 on node 0, 1 on node 1, 1 on node 2, 0 on node 3")
    assert gpu.field == "devices.requests"


def test_all_types_have_the_same_sets() -> None:
    both = DeviceInventory((*gpus_on(0, 1).devices, InventoryDevice("rdma", 0, 1)))
    gpu, nic = offered(context(both, ask(gpu=1, rdma=1)))
    assert sets(gpu) == sets(nic)
    assert sets(gpu)[0] == ("0010", True)
    assert "0001" not in [mask for mask, _ in sets(gpu)]


def test_what_others_hold_is_not_offered() -> None:
    (gpu,) = offered(context(gpus_on(0, 1), ask(gpu=1), holding("a/c", whole(0))))
    assert sets(gpu)[0] == ("0010", True)
    (none,) = offered(context(gpus_on(0), ask(gpu=1), holding("a/c", whole(0))))
    assert sets(none) == []


def test_for_a_pod_sets_are_offered_that_can_serve_its_containers_one_after_the_other() -> None:
    pod = PodSums(devices=(ask(core=60), ask(core=70)))
    wanted = context(gpus_on(0, 1, 1), ask(core=60), pod=pod)
    (alone,), (together,) = offered(wanted), offered(wanted, is_of_pod=True)
    assert sets(alone)[0] == ("0001", True)
    assert sets(together)[0] == ("0010", True)
    assert together.wanted == "2 devices"


def test_devices_of_unknown_nodes_say_nothing() -> None:
    (gpu,) = offered(context(gpus_on(None, None), ask(gpu=1)))
    assert gpu.hints is None


def test_what_runs_has_nothing_to_choose_and_what_cannot_be_read_no_hints() -> None:
    wanted = context(gpus_on(0), ask(gpu=1))
    assert offered(replace(wanted, devices=(whole(0),))) == []
    assert offered(context(gpus_on(0), ask(core=150))) == []
    assert offered(replace(wanted, machine_devices=None)) == []


def many_nodes() -> Machine:
    return describe({"packages": 10, "cores": 2, "threads": 1, "memory": "1Gi"})


def test_on_machines_with_many_nodes_those_are_offered_that_can_serve_alone() -> None:
    (gpu,) = offered(context(gpus_on(0, 0, 3, 9), ask(gpu=2), machine=many_nodes()))
    assert sets(gpu)[:3] == [("0001", True), ("0011", False), ("0101", False)]
    assert len(sets(gpu)) == 512  # all with node 0


def test_on_machines_with_many_nodes_devices_are_counted_where_none_can_serve_alone() -> None:
    (gpu,) = offered(context(gpus_on(0, 0, 3, 9, None), ask(gpu=4), machine=many_nodes()))
    assert [mask for mask, preferred in sets(gpu) if preferred] == ["1001", "1000000001"]


def test_on_machines_with_few_nodes_only_sets_are_offered_on_which_the_types_can_be_had_together() -> None:
    """Nodes 2 and 3 have enough of each type, though none on the same PCIe."""
    eight = describe({"packages": 8, "cores": 2, "threads": 1, "memory": "1Gi"})
    gpus = (("p0", 0), ("p1", 1), ("p2", 2), ("p3", 2))
    nics = (("p0", 0), ("p1", 1), ("p4", 3), ("p5", 3))
    devices = [InventoryDevice("gpu", i, node, pcie) for i, (pcie, node) in enumerate(gpus)]
    devices += [InventoryDevice("rdma", i, node, pcie) for i, (pcie, node) in enumerate(nics)]
    wanted = ask(("gpu", "rdma"), scope="SamePCIe", gpu=2, rdma=1)
    offers = offered(context(DeviceInventory(tuple(devices)), wanted, machine=eight))
    assert [[mask for mask, preferred in sets(offer) if preferred] for offer in offers] == [["0011"]] * 2
