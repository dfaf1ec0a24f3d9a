"""Which devices a container gets, on four nodes of four CPUs, with a GPU pair on each and a NIC on nodes 0 and 3."""

from dataclasses import replace

import pytest

from policies.alignment import Alignment
from policies.base import CpuKind, Grant, Previous, Rejected
from policies.device_grants import cost_names
from policies.device_requests import DeviceAmount, DeviceAsk
from policies.devices import DeviceInventory, InventoryDevice
from policies.devices.costs import Inventory
from policies.devices.links import matrix_of
from policies.topology_aware.devices.cost_choice import MOST_GROUPS, DeviceStock, cheapest_anywhere
from policies.topology_aware.devices.held import HeldDevices
from policies.topology_aware.devices.reasons import ChosenDevices
from policies.topology_aware.devices.step import DeviceStep
from policies.topology_aware.supply.context import PlacementContext
from policies.topology_aware.supply.machine_devices import MachineDevices
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.device_policy import listed
from tests.unit.policies.build import context_of, four_nodes, request, tree_of
from tests.unit.policies.cost_devices import GPU, NIC, amounts, asked, inventory, on_node, on_nodes

MACHINE = four_nodes()
TREE = tree_of(MACHINE)
GPUS, NICS = on_nodes(MACHINE, GPU, [0, 0, 1, 1, 2, 2, 3, 3]), on_nodes(MACHINE, NIC, [0, 3])
ALL = inventory([*GPUS, *NICS], "example.com/fpga/f0-3")


def holding(name: str, *devices: str) -> Grant:
    return Grant(request(name), "root", CpuKind.SHARED, devices=listed(*devices))


def context(*grants: Grant, found: Inventory = ALL, mcpu: int = 2000, **keys: object) -> PlacementContext:
    wanted = request("new/c", mcpu, **keys)  # type: ignore[arg-type]  # fields and preferences by name
    return replace(context_of(TREE, wanted, *grants), machine_devices=on_node(MACHINE, found))


def within(nodes: str, *, is_strict: bool) -> Alignment:
    return Alignment(NodeSet.parse(nodes), NodeSet.parse(nodes), is_strict=is_strict)


def chosen(at: PlacementContext) -> ChosenDevices:
    choice = DeviceStep(at).chosen(at)
    assert isinstance(choice, ChosenDevices), choice.reason.text
    return choice


def names(choice: ChosenDevices) -> str:
    return " ".join(name.removeprefix("example.com/") for name in cost_names(choice.devices))


def codes(choice: ChosenDevices) -> list[str]:
    return [reason.code for reason in choice.reasons]


def test_devices_and_cpus_are_on_one_node_where_one_has_them_all() -> None:
    choice = chosen(context(devices=asked(gpu=2, nic=1)))
    assert names(choice) in ("gpu/0 gpu/1 nic/0", "gpu/6 gpu/7 nic/1")
    assert len({str(place.cpus) for place in choice.near}) == 1


def test_a_node_without_free_cpus_is_left_for_another() -> None:
    owner = Grant(request("a/c", 3000), "NUMA node #0", CpuKind.EXCLUSIVE, exclusive=CpuSet.parse("0-2"))
    assert names(chosen(context(owner, devices=asked(gpu=2, nic=1)))) == "gpu/6 gpu/7 nic/1"


def test_costs_between_devices_count_beside_those_to_cpus() -> None:
    linked = inventory([*GPUS, *[(f"{GPU}/{2 * i}", 9 if i != 2 else 1, f"{GPU}/{2 * i + 1}") for i in range(4)]])
    assert names(chosen(context(found=linked, devices=asked(gpu=2)))) == "gpu/4 gpu/5"


def test_what_others_hold_is_not_chosen() -> None:
    held = holding("a/c", f"{GPU}/0", f"{GPU}/6")
    assert names(chosen(context(held, devices=asked(gpu=2)))) in ("gpu/2 gpu/3", "gpu/4 gpu/5")


def test_types_without_costs_come_from_the_front_of_what_is_free() -> None:
    choice = chosen(context(holding("a/c", "example.com/fpga/f0"), devices=asked(fpga=2)))
    assert (names(choice), choice.near, codes(choice)) == ("fpga/f1 fpga/f2", (), ["devices"])


def test_devices_are_listed_by_type_and_name() -> None:
    assert names(chosen(context(devices=asked(nic=1, gpu=1, fpga=1)))).split()[0] == "fpga/f0"


def test_the_nodes_that_it_is_kept_within_bound_the_choice() -> None:
    at = context(devices=asked(gpu=2), alignment=within("2", is_strict=True))
    assert names(chosen(at)) == "gpu/4 gpu/5"


def test_too_few_devices_on_its_nodes_is_a_refusal_under_a_strict_policy() -> None:
    at = context(devices=asked(gpu=3), alignment=within("2", is_strict=True))
    answer = DeviceStep(at).chosen(at)
    assert isinstance(answer, Rejected)
    assert answer.reason.code == "strict-topology"
    assert "wanted 3 of example.com/gpu on NUMA node 2" in answer.reason.text
    assert "free 2 there, 6 elsewhere" in answer.reason.text


def test_under_a_lenient_policy_those_on_its_nodes_come_first() -> None:
    choice = chosen(context(devices=asked(gpu=3), alignment=within("2", is_strict=False)))
    assert {f"{GPU}/4", f"{GPU}/5"} < set(cost_names(choice.devices))
    assert codes(choice)[-1] == "devices-beyond"


@pytest.mark.parametrize("is_strict", [True, False])
def test_types_that_tell_no_nodes_apart_are_on_any(*, is_strict: bool) -> None:
    choice = chosen(context(devices=asked(fpga=2), alignment=within("2", is_strict=is_strict)))
    assert (names(choice), codes(choice)) == ("fpga/f0 fpga/f1", ["devices"])


def test_an_earlier_attempts_devices_are_kept() -> None:
    had = Previous("root", CpuSet(), devices=listed(f"{GPU}/3", f"{GPU}/5"))
    choice = chosen(context(devices=asked(gpu=2), previous=had))
    assert (names(choice), codes(choice)) == ("gpu/3 gpu/5", ["devices-kept"])
    assert [str(place.cpus) for place in choice.near] == ["4-7", "8-11"]


def test_an_earlier_attempts_devices_that_are_taken_or_elsewhere_are_not() -> None:
    had = Previous("root", CpuSet(), devices=listed(f"{GPU}/3"))
    taken = chosen(context(holding("a/c", f"{GPU}/3"), devices=asked(gpu=1), previous=had))
    assert codes(taken)[0] == "devices-lost"
    elsewhere = chosen(context(devices=asked(gpu=1), previous=had, alignment=within("0", is_strict=True)))
    assert names(elsewhere) == "gpu/0"


def test_a_container_that_runs_keeps_devices_that_are_listed_no_more() -> None:
    runs = Previous("root", CpuSet(), devices=listed(f"{GPU}/99"), is_running=True)
    at = context(devices=asked(gpu=1), previous=runs)
    choice = chosen(replace(at, own=holding("new/c", f"{GPU}/99")))
    assert (names(choice), codes(choice), choice.near) == ("gpu/99", ["devices-kept"], ())


def test_silent_devices_that_win_are_named() -> None:
    some = inventory([*GPUS, *[(f"{GPU}/{i}", 1, f"{NIC}/9") for i in range(8)]], f"{GPU}/8")
    choice = chosen(context(found=some, mcpu=0, devices=asked(gpu=1, nic=1)))
    assert "gpu/8" in names(choice)
    assert codes(choice)[-1] == "devices-silent"


def test_of_many_devices_those_nearest_to_free_cpus_are_compared() -> None:
    count = MOST_GROUPS + 40
    lines = [(f"{GPU}/{i}", 1000 - i, "cpu/cpu0-15") for i in range(count)]
    choice = chosen(context(found=inventory(lines), devices=asked(gpu=2)))
    assert names(choice) == f"gpu/{count - 2} gpu/{count - 1}"
    assert "not proved" in choice.reasons[0].text


def test_devices_that_have_to_be_taken_are_never_left_out() -> None:
    lines = [*on_nodes(MACHINE, GPU, [2], far=2000), *((f"{GPU}/{i}", i, "cpu/cpu0-7") for i in range(1, 200))]
    lenient = within("2", is_strict=False)
    choice = chosen(context(found=inventory(lines), devices=asked(gpu=190), alignment=lenient))
    assert f"{GPU}/0" in cost_names(choice.devices)
    assert len(set(choice.devices)) == 190


def test_a_request_beyond_what_is_free_or_listed_is_refused_before_any_placement() -> None:
    few = DeviceStep(context(holding("a/c", f"{NIC}/0"), devices=asked(nic=2))).lacking
    assert few is not None
    assert few.reason.code == "devices-short"
    unknown = DeviceStep(context(devices=DeviceAsk((DeviceAmount("example.com/gpus", 1),)))).lacking
    assert unknown is not None
    assert unknown.reason.text.endswith("did you mean example.com/gpu?")
    assert DeviceStep(context(devices=asked(nic=2))).lacking is None
    assert DeviceStep(replace(context(devices=asked(nic=9)), devices=())).lacking is None


def test_the_same_question_has_the_same_answer() -> None:
    assert len({names(chosen(context(devices=asked(gpu=3, nic=1)))) for _ in range(5)}) == 1


def test_the_cheapest_set_anywhere_is_that_of_all_types_together() -> None:
    at = context()
    assert at.machine_devices is not None
    held = HeldDevices(at, at.machine_devices)
    found = cheapest_anywhere(at, DeviceStock(held, amounts(gpu=2, nic=1)))
    assert {f"{GPU}/0", f"{GPU}/1", f"{NIC}/0"} <= found
    assert cheapest_anywhere(at, DeviceStock(held, amounts(nic=3))) == frozenset()


def linked(*lines: tuple[str, int, str], **keys: object) -> PlacementContext:
    """GPUs of the inventory and of cost files, 0-3 on node 0 and 4-7 on node 1, of which 5 and 6 are linked."""
    gpus = tuple(InventoryDevice("gpu", i, i // 4, f"p{i}") for i in range(8))
    costs = inventory(lines, "nvidia.com/gpu/0-7")
    nvlinks = [[int({a, b} == {5, 6}) for b in range(8)] for a in range(8)]
    wanted = request("new/c", 2000, devices=DeviceAsk((DeviceAmount("nvidia.com/gpu", 2),)), **keys)  # type: ignore[arg-type]
    node = MachineDevices(MACHINE, DeviceInventory(gpus, links=matrix_of(nvlinks, []), costs=costs))
    return replace(context_of(TREE, wanted), machine_devices=node)


def test_of_gpus_with_links_and_costs_the_links_decide_first() -> None:
    cheap = [("nvidia.com/gpu/5-6", 9, "cpu/cpu0-15")]
    choice = chosen(linked(*cheap))
    assert cost_names(choice.devices) == ("nvidia.com/gpu/5", "nvidia.com/gpu/6")
    assert codes(choice) == ["allocated", "devices", "device-costs"]
    assert "links of 100 points" in choice.reasons[0].text
    assert "not proved" in choice.reasons[1].text
    assert cost_names(chosen(linked()).devices) == ("nvidia.com/gpu/5", "nvidia.com/gpu/6")


def test_links_decide_among_the_gpus_on_the_nodes_that_a_container_is_kept_within() -> None:
    costs = [
        ("nvidia.com/gpu/0-3", 1, "cpu/cpu4-15"),
        ("nvidia.com/gpu/4-7", 1, "cpu/cpu0-3"),
        ("nvidia.com/gpu/4-7", 1, "cpu/cpu8-15"),
        ("nvidia.com/gpu/0", 5, "nvidia.com/gpu/1"),
    ]
    inside = chosen(linked(*costs, alignment=within("0", is_strict=True)))
    assert cost_names(inside.devices) == ("nvidia.com/gpu/0", "nvidia.com/gpu/2")


def of_costs(*costs: int, kind: str = GPU) -> list[tuple[str, int, str]]:
    """A device for each of these costs to every CPU."""
    return [(f"{kind}/{i}", cost, "cpu/cpu0-15") for i, cost in enumerate(costs)]


def test_as_many_devices_as_are_compared_at_most_are_all_compared() -> None:
    lines = of_costs(*range(1000, 1000 + MOST_GROUPS + 1))
    all_free = chosen(context(found=inventory(lines), devices=asked(gpu=1)))
    assert "not proved" in all_free.reasons[0].text
    held = context(holding("a/c", f"{GPU}/0"), found=inventory(lines), devices=asked(gpu=1))
    assert names(chosen(held)) == "gpu/1"
    assert "not proved" not in chosen(held).reasons[0].text


def test_of_many_devices_of_two_types_the_nearest_of_each_are_compared() -> None:
    count = MOST_GROUPS
    falling = range(2000, 2000 - count, -1)
    lines = [*of_costs(*falling), *of_costs(*falling, kind=NIC)]
    choice = chosen(context(found=inventory(lines), devices=asked(gpu=2, nic=1)))
    assert names(choice) == f"gpu/{count - 2} gpu/{count - 1} nic/{count - 1}"


def with_cheap_pair(first: int) -> list[tuple[str, int, str]]:
    """More devices than are compared, each farther from the CPUs than the one before; this one is near the next."""
    count = MOST_GROUPS + 40
    between = [
        (f"{GPU}/{i}", 1 if (i, j) == (first, first + 1) else 500, f"{GPU}/{j}")
        for i in range(first + 1)
        for j in range(i + 1, count)
    ]
    return [*of_costs(*range(1000, 1000 + count)), *between]


@pytest.mark.parametrize(("first", "is_found"), [(MOST_GROUPS - 2, True), (MOST_GROUPS - 1, False)])
def test_of_many_devices_the_cheapest_set_of_the_nearest_ones_is_found(first: int, *, is_found: bool) -> None:
    choice = chosen(context(found=inventory(with_cheap_pair(first)), mcpu=1000, devices=asked(gpu=2)))
    assert (names(choice) == f"gpu/{first} gpu/{first + 1}") == is_found


def test_of_many_devices_one_is_as_near_as_the_nearest_free_cpus() -> None:
    count = MOST_GROUPS + 40
    lines = [*of_costs(*range(1000, 1000 + count)), (f"{GPU}/{count}", 0, "cpu/cpu0-3")]
    lines.append((f"{GPU}/{count}", 5000, "cpu/cpu4-15"))
    assert names(chosen(context(found=inventory(lines), mcpu=1000, devices=asked(gpu=1)))) == f"gpu/{count}"
