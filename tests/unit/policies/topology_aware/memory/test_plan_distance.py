import pytest

from policies.base import Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.memory.plan import memory_distances
from sysfs.descriptions.machine import describe
from tests.fakes.machines import small_machine
from tests.unit.policies.build import four_nodes, supply_of, tree_of
from tests.unit.policies.memory.build import at, tiered, wanting

FOUR = tree_of(four_nodes())  # 2 GiB each; distance 11 in a package, 21 between
TIERED = tree_of(tiered())
EXPANDER = tree_of(small_machine(memory_nodes=[{"memory": "64Gi", "near": {0: 14}}]))


def distances(tree: PoolTree, wanted: Request, *grants: object) -> dict[str, float]:
    account = supply_of(tree, *grants).memory  # type: ignore[arg-type]  # grants
    zones = [pool.mems for pool in tree.pools]
    found = memory_distances(account, wanted, tree.pools, zones)
    return {pool.name: distance for pool, distance in zip(tree.pools, found, strict=True)}


def test_memory_of_ones_own_is_nearest_and_wide_pools_are_as_far_as_their_cpus_are_apart() -> None:
    found = distances(FOUR, wanting("a", 1))
    assert {found[f"NUMA node #{n}"] for n in range(4)} == {0}
    assert (found["socket #0"], found["root"]) == (0.5, 5.75)


@pytest.mark.parametrize("tree", [TIERED, EXPANDER])
def test_more_nodes_beside_a_socket_do_not_make_it_farther(tree: PoolTree) -> None:
    found = distances(tree, wanting("a", 1))
    assert found["socket #0"] == found["socket #1"] == 0


def test_what_does_not_fit_near_is_as_far_as_what_has_room() -> None:
    full = at("socket #0", wanting("b", 1), "0,2")
    assert distances(EXPANDER, wanting("a", 2), full)["socket #0"] == 2  # half of it in the expander, at 14
    assert distances(EXPANDER, wanting("a", 4))["socket #0"] == 2
    assert distances(EXPANDER, wanting("a", 1), full)["socket #0"] == 0


def test_a_container_that_is_promised_nothing_looks_for_some_room() -> None:
    full = at("socket #0", wanting("b", 2), "0,2")
    assert distances(EXPANDER, wanting("a"), full) == {"root": 5.5, "socket #0": 4, "socket #1": 0}


def test_what_has_no_room_at_all_is_as_far_as_the_farthest_node_of_the_zone() -> None:
    full = at("root", wanting("b", 99), "0-2")
    assert distances(EXPANDER, wanting("a", 1), full) == {"root": 9.5, "socket #0": 4, "socket #1": 0}


def test_cpus_without_memory_are_at_no_disadvantage() -> None:
    tree = tree_of(describe({"packages": 3, "cores": 2, "memory": ["2Gi", "2Gi", 0]}))
    assert {distance for name, distance in distances(tree, wanting("a", 1)).items() if name != "root"} == {0}
