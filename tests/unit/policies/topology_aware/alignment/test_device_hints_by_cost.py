"""What requested devices offer to the merge of hints, on four nodes of four CPUs with a GPU pair on nodes 0 and 1."""

from dataclasses import replace

from policies.alignment import TopologyOptions
from policies.base import CpuKind, Grant
from policies.devices.costs import Inventory
from policies.topology_aware.alignment.device_hints import device_hints
from policies.topology_aware.alignment.offers import Asked, ResourceHints
from policies.topology_aware.supply.context import PlacementContext
from sysfs.descriptions.machine import describe
from sysfs.model import Machine
from tests.fakes.device_policy import listed
from tests.unit.policies.build import context_of, four_nodes, request, tree_of
from tests.unit.policies.cost_devices import GPU, NIC, amounts, inventory, on_node, on_nodes

MACHINE = four_nodes()
GPUS = on_nodes(MACHINE, GPU, [0, 0, 1, 1])
ALL = inventory(GPUS, f"{NIC}/0-1")


def holding(name: str, *devices: str) -> Grant:
    return Grant(request(name), "root", CpuKind.SHARED, devices=listed(*devices))


def context(*grants: Grant, found: Inventory = ALL, machine: Machine = MACHINE, **keys: object) -> PlacementContext:
    made = context_of(tree_of(machine), request("new/c", 1000), *grants, **keys)
    return replace(made, machine_devices=on_node(machine, found))


def offered(at: PlacementContext, **counts: int) -> list[ResourceHints]:
    return list(device_hints(at, Asked(1, 0, (), devices=amounts(**counts))))


def sets(offer: ResourceHints) -> list[tuple[str, bool]]:
    assert isinstance(offer.hints, tuple)
    return [(format(hint.nodes or 0, "04b"), hint.preferred) for hint in offer.hints]


def test_nodes_with_enough_free_devices_are_offered_the_fewest_preferred() -> None:
    (offer,) = offered(context(holding("a/c", f"{GPU}/0")), gpu=2)
    assert sets(offer) == [("0010", True), ("0011", False)]
    assert (offer.wanted, offer.free) == ("2 devices", "1 on node 0, 2 on node 1, 0 on node 2, 0 on node 3")


def test_what_there_is_decides_what_is_preferred() -> None:
    (offer,) = offered(context(holding("a/c", f"{GPU}/0"), holding("b/c", f"{GPU}/2")), gpu=2)
    assert sets(offer) == [("0011", False)]


def test_too_few_free_devices_offer_nothing_and_types_without_nodes_have_no_hints() -> None:
    assert [offer.hints for offer in offered(context(holding("a/c", f"{GPU}/0")), gpu=4, nic=1)] == [(), None]


def test_a_silent_device_counts_on_every_node() -> None:
    (offer,) = offered(context(found=inventory(GPUS, f"{GPU}/9")), gpu=1)
    assert sets(offer)[:4] == [("0001", True), ("0010", True), ("0100", True), ("1000", True)]


def test_preferred_sets_decide_the_flags_where_the_option_says_so() -> None:
    linked = inventory([*GPUS, (f"{GPU}/0", 40, f"{GPU}/1")])
    chosen_sets = TopologyOptions(prefers_chosen_sets=True)
    (plain,) = offered(context(found=linked), gpu=2)
    (flagged,) = offered(context(found=linked, topology=chosen_sets), gpu=2)
    assert sets(plain) == [("0001", True), ("0010", True), ("0011", False)]
    assert sets(flagged) == [("0001", False), ("0010", True), ("0011", False)]


def test_a_container_that_runs_has_nothing_to_choose() -> None:
    assert offered(replace(context(), devices=listed(f"{GPU}/0")), gpu=1) == []
    assert offered(replace(context(), machine_devices=None), gpu=1) == []


def test_the_sets_of_many_nodes_are_those_of_nodes_that_have_the_devices() -> None:
    machine = describe({"packages": 10, "cores": 2, "threads": 1, "memory": "1Gi"})
    found = inventory(on_nodes(machine, GPU, [0, 0, 3, 9]), f"{NIC}/0")
    (gpu, nic) = offered(context(holding("a/c", f"{GPU}/1"), found=found, machine=machine), gpu=2, nic=1)
    assert sets(gpu) == [("1001", False), ("1000000001", False), ("1000001000", False), ("1000001001", False)]
    assert nic.hints is None
    assert gpu.free.endswith("0 on node 7 and 2 more")
