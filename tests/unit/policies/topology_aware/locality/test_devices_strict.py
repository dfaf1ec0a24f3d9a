import pytest

from policies.base import DeviceLocality
from policies.topology_aware.locality.devices import is_near_each, reach_in
from policies.topology_aware.supply.context import ANYWHERE, PlacementContext
from sysfs.cpuset import CpuSet, NodeSet
from tests.unit.policies.build import context_of, four_nodes, request, tree_of

TREE = tree_of(four_nodes())


def context(mcpu: int, *places: str, strict: bool = True) -> PlacementContext:
    hints = tuple(DeviceLocality(f"/dev/{n}", CpuSet.parse(cpus), NodeSet()) for n, cpus in enumerate(places))
    return context_of(TREE, request("a/c", mcpu, strict_locality=strict, localities=hints))


def reach(pool: str, mcpu: int, *places: str, strict: bool = True) -> str:
    found = reach_in(context(mcpu, *places, strict=strict), TREE.named(pool))
    return "anywhere" if found == ANYWHERE else str(CpuSet(found))


@pytest.mark.parametrize(
    ("pool", "mcpu", "places", "expected"),
    [
        ("NUMA node #0", 500, ("0-3",), "anywhere"),
        ("NUMA node #0", 500, ("0-7",), "anywhere"),
        ("NUMA node #0", 500, ("0-1",), ""),
        ("NUMA node #0", 500, ("0-3", "4-7"), ""),
        ("socket #0", 500, ("0-3", "4-7"), "anywhere"),
        ("root", 500, ("0-3", "4-7"), ""),
        ("root", 2000, ("0-3", "8-11"), "0-3,8-11"),
        ("root", 2500, ("0-3", "8-11"), ""),
        ("NUMA node #3", 2000, ("0-3",), ""),
        ("root", 500, ("0-15",), "anywhere"),
        ("root", 1000, ("99",), ""),
    ],
)
def test_a_pool_is_near_all_devices_or_has_cpus_near_them(
    pool: str, mcpu: int, places: tuple[str, ...], expected: str
) -> None:
    assert reach(pool, mcpu, *places) == expected


def test_without_a_strict_wish_every_pool_will_do() -> None:
    assert reach("NUMA node #3", 500, "0-3", strict=False) == "anywhere"


@pytest.mark.parametrize(("mcpu", "owned", "expected"), [(2000, "0,8", True), (2000, "0-1", False), (1000, "0", False)])
def test_there_is_one_near_each_device(mcpu: int, owned: str, expected: bool) -> None:
    asked = context(mcpu, "0-3", "8-11")
    assert is_near_each(asked, reach_in(asked, TREE.root), CpuSet.parse(owned).mask) is expected
