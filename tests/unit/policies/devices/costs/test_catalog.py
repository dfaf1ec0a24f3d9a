"""What devices cost on a machine of two packages with a node each: CPUs 0-3 and 4-7 (an L3 domain each)."""

from dataclasses import replace

import pytest

from policies.devices.costs import NO_DEVICES, DeviceCatalog, Inventory, Missing
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe
from sysfs.model import Cache
from tests.fakes.machines import small_machine
from tests.unit.policies.cost_devices import GPU, NIC, inventory

MACHINE = small_machine()


def catalog(*costs: tuple[str, int, str], present: str = "", missing: Missing = Missing.ZERO) -> DeviceCatalog:
    return DeviceCatalog(MACHINE, inventory(costs, *present.split(), missing=missing))


def parts(found: DeviceCatalog) -> list[str]:
    return [str(CpuSet(part)) for part in found.parts]


def test_cpus_are_joined_by_l3_domain_and_split_where_a_device_tells_them_apart() -> None:
    assert parts(DeviceCatalog(MACHINE, NO_DEVICES)) == ["0-3", "4-7"]
    assert parts(catalog((f"{GPU}/0", 9, "cpu/cpu0-1"))) == ["0-1", "2-3", "4-7"]
    assert parts(catalog(("cpu/cpu0-1", 9, f"{GPU}/0"))) == ["0-1", "2-3", "4-7"]


def test_costs_that_cpus_have_to_each_other_in_the_inventory_split_nothing() -> None:
    assert parts(catalog(("cpu/cpu0", 9, "cpu/cpu1"), (f"{GPU}/0", 5, "cpu/cpu0-7"))) == ["0-3", "4-7"]


def test_no_machine_has_more_parts_than_a_choice_can_compare() -> None:
    wide = describe({"packages": 2, "cores": 50, "threads": 1, "memory": "1Gi"})
    lines = [(f"{GPU}/0", cpu, f"cpu/cpu{cpu}") for cpu in range(100)]
    found = DeviceCatalog(wide, inventory(lines))
    assert parts(found) == ["0-49", "50-99"]
    assert list(found.row(0)[2:]) == [sum(range(50)) // 50]
    many = describe({"packages": 100, "cores": 1, "threads": 1, "memory": "1Gi"})
    assert len(DeviceCatalog(many, NO_DEVICES).parts) == 64


def test_cpus_cost_each_other_what_the_kernel_says_in_both_directions() -> None:
    rows = [list(DeviceCatalog(MACHINE, NO_DEVICES).row(part)) for part in range(2)]
    assert rows == [[20, 200], [200, 20]]
    small = tuple(Cache(2, CpuSet.of((cpu, cpu + 1)), index=i) for i, cpu in enumerate(range(0, 8, 2)))
    without_l3 = DeviceCatalog(replace(MACHINE, caches=small), NO_DEVICES)
    assert (parts(without_l3), list(without_l3.row(0))) == (["0-3", "4-7"], [30, 200])
    split = catalog((f"{GPU}/0", 9, "cpu/cpu0-1"))
    assert list(split.row(0)[:3]) == [20, 30, 200]


def test_parts_of_several_nodes_cost_each_other_as_their_nearest_nodes() -> None:
    rows = [[10 if a == b else 11 if a // 2 == b // 2 else 20 for b in range(80)] for a in range(80)]
    many = describe({"packages": 80, "cores": 1, "threads": 1, "memory": "1Gi", "distances": rows})
    found = DeviceCatalog(many, NO_DEVICES)
    assert parts(found)[:3] == ["0-1", "2", "3"]
    assert list(found.row(0)[:3]) == [2 * 15, 200, 200]
    assert list(found.row(1)[:3]) == [200, 2 * 10, 2 * 24]


@pytest.mark.parametrize(("missing", "cost"), [(Missing.ZERO, 7), (Missing.MIRROR, 14)])
def test_an_unknown_direction_counts_as_the_option_says(missing: Missing, cost: int) -> None:
    found = catalog((f"{GPU}/0", 7, "cpu/cpu0-7"), (f"{GPU}/0", 7, f"{NIC}/0"), missing=missing)
    assert list(found.row(2)) == [cost, cost, 0, cost]
    assert list(found.row(0))[2:] == [cost, 0]


def test_members_of_a_group_have_the_cost_that_they_have_to_each_other() -> None:
    found = catalog((f"{GPU}/0-1", 3, f"{GPU}/0-1"))
    assert [group.members for group in found.groups] == [(f"{GPU}/0", f"{GPU}/1")]
    assert found.row(2)[2] == 6


def test_a_device_is_near_the_cpus_that_it_costs_least_if_it_tells_any_apart() -> None:
    found = catalog((f"{GPU}/0", 9, "cpu/cpu0-3"), (f"{GPU}/1", 5, "cpu/cpu0-7"), present=f"{GPU}/2")
    assert [found.near(f"{GPU}/{i}") for i in range(4)] == [0xF0, 0, 0, 0]
    assert [found.nodes(f"{GPU}/{i}") for i in range(4)] == [0b10, 0, 0, 0]
    assert catalog((f"{GPU}/0", 9, "cpu/cpu0-3")).nodes(f"{GPU}/1") == 0


def test_a_device_near_a_part_of_each_node_is_on_every_node() -> None:
    found = catalog((f"{GPU}/0", 9, "cpu/cpu0-1"), (f"{GPU}/0", 9, "cpu/cpu4-5"))
    assert (found.near(f"{GPU}/0"), found.nodes(f"{GPU}/0")) == (0b11001100, 0)
    with_memory = describe(
        {"packages": 2, "cores": 2, "memory": "1Gi", "memory_nodes": [{"memory": "1Gi", "near": {0: 17}}]}
    )
    costs = inventory([(f"{GPU}/0", 9, "cpu/cpu0"), (f"{GPU}/0", 9, "cpu/cpu2")])
    assert DeviceCatalog(with_memory, costs).nodes(f"{GPU}/0") == 0


def test_types_without_costs_are_told_from_silent_devices_of_other_types() -> None:
    found = catalog((f"{GPU}/0", 9, "cpu/cpu0-3"), present=f"{GPU}/1 {NIC}/0")
    assert found.costed == {GPU}
    assert found.silent == {f"{GPU}/1"}
    assert catalog(("cpu/cpu0", 9, f"{GPU}/0"), present=f"{GPU}/1").silent == frozenset()
    assert catalog(("cpu/cpu0", 9, f"{GPU}/0"), present=f"{GPU}/1", missing=Missing.MIRROR).silent == {f"{GPU}/1"}


def test_devices_stand_in_the_order_of_their_names() -> None:
    assert catalog((f"{GPU}/10", 9, "cpu/cpu0"), (f"{GPU}/9", 8, "cpu/cpu0")).devices[GPU] == (f"{GPU}/9", f"{GPU}/10")


def test_an_inventory_without_devices_offers_none() -> None:
    assert DeviceCatalog(MACHINE, Inventory(NO_DEVICES.table)).devices == {}
