from dataclasses import replace

import pytest

from policies.base import DeviceLocality, Request
from policies.hardware.pools import PoolTree
from policies.topology_aware.memory.home import ColdStart, Home, LocalMemory, cold_start, home_of, with_enough
from policies.topology_aware.supply.memory_account import empty_account
from policies.topology_aware.supply.memory_nodes import memory_nodes_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import four_nodes, tree_of
from tests.unit.policies.memory.build import DRAM, HBM, PMEM, mask, movable_server, tiered, wanting

TIERED = tree_of(tiered())
MOVABLE = tree_of(tiered(movable=True))
FOUR = tree_of(four_nodes())
SOCKETS = ("socket #0", "socket #1", "root")


def home(tree: PoolTree, pool: str, wanted: Request, *, owns: bool = False) -> Home:
    return home_of(tree.machine, memory_nodes_of(tree.machine), LocalMemory(tree.named(pool).mems, owns), wanted)


def zone(tree: PoolTree, pool: str, owns: bool = False, **preferences: object) -> str:
    return str(NodeSet(home(tree, pool, wanting("a", 0, **preferences), owns=owns).zone))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kinds", "zones"),
    [
        ((), ["0,2", "1,3", "0-3"]),
        ((DRAM,), ["0", "1", "0-1"]),
        ((PMEM,), ["2", "3", "2-3"]),
        ((HBM,), ["4", "4", "4"]),
        ((DRAM, HBM), ["0,4", "1,4", "0-1,4"]),
    ],
)
def test_home_are_the_pools_nodes_of_the_wanted_kinds_and_the_nearest_of_kinds_it_lacks(
    kinds: tuple[object, ...], zones: list[str]
) -> None:
    assert [zone(TIERED, pool, memory_kinds=kinds) for pool in SOCKETS] == zones


def test_a_pool_tells_whether_it_has_the_wanted_kinds_itself() -> None:
    wanted = wanting("a", memory_kinds=(DRAM, HBM))
    assert [home(TIERED, pool, wanted).in_pool for pool in SOCKETS] == [True, False, True]
    assert all(home(TIERED, pool, wanting("a")).in_pool for pool in SOCKETS)
    assert home(FOUR, "root", wanting("a", cold_start_seconds=60)).in_pool  # no pool has PMEM


def test_where_a_pool_has_hbm_only_a_container_that_asks_for_no_kind_gets_what_is_nearest() -> None:
    tree = tree_of(small_machine(memory=[0, "4Gi"], memory_nodes=[{"memory": "1Gi", "kind": "hbm", "near": {0: 15}}]))
    found = home(tree, "socket #0", wanting("a"))
    assert (found.zone, found.in_pool) == (mask("1"), False)


def test_kinds_that_do_not_exist_are_done_without() -> None:
    found = home(FOUR, "NUMA node #1", wanting("a", memory_kinds=(DRAM, PMEM)))
    assert (found.zone, found.absent) == (mask("1"), (PMEM,))
    assert home(FOUR, "NUMA node #1", wanting("a", memory_kinds=(PMEM,))).zone == mask("1")


def test_a_strict_wish_for_a_kind_that_does_not_exist_has_no_home() -> None:
    found = home(FOUR, "root", wanting("a", memory_kinds=(DRAM, PMEM), strict_memory=True))
    assert (found.zone, found.refused) == (0, "this machine has no PMEM")
    only_hbm = tree_of(small_machine(memory=0, memory_nodes=[{"memory": "1Gi", "kind": "hbm", "near": {0: 15}}]))
    assert home(only_hbm, "root", wanting("a", strict_memory=True)).refused == "this machine has no DRAM and PMEM"


def test_movable_memory_alone_gets_normal_memory_beside_it() -> None:
    found = home(MOVABLE, "socket #1", wanting("a", memory_kinds=(PMEM,)))
    assert (found.zone, found.added_normal) == (mask("1,3"), mask("1"))


def test_normal_memory_of_the_wanted_kinds_is_taken_however_far() -> None:
    assert zone(MOVABLE, "socket #1", memory_kinds=(PMEM, HBM)) == "3-4"


def test_normal_memory_of_the_wanted_kinds_goes_before_nearer_memory_of_others() -> None:
    pmem = [{"memory": "16Gi", "kind": "pmem", "near": {node: 17}, "movable": node < 2} for node in range(3)]
    tree = tree_of(small_machine(packages=3, memory_nodes=pmem))
    found = home(tree, "socket #0", wanting("a", memory_kinds=(PMEM,)))
    assert (found.zone, found.added_normal) == (mask("3,5"), mask("5"))


def test_normal_memory_of_any_kind_will_do_where_there_is_no_other() -> None:
    movable = [{"memory": "4Gi", "kind": kind, "near": {0: 17}, "movable": True} for kind in ("pmem", "dram")]
    hbm = {"memory": "1Gi", "kind": "hbm", "near": {0: 15}}
    tree = tree_of(small_machine(memory=0, memory_nodes=[*movable, hbm]))
    assert home(tree, "root", wanting("a", memory_kinds=(PMEM,))).added_normal == mask("4")


def test_a_machine_of_movable_memory_alone_is_used_as_it_is() -> None:
    tree = tree_of(small_machine(memory=0, memory_nodes=[{"memory": "4Gi", "near": {0: 17}, "movable": True}]))
    assert zone(tree, "root", strict_memory=True) == "2"


def test_a_strict_wish_for_kinds_that_are_all_movable_has_no_home() -> None:
    found = home(MOVABLE, "root", wanting("a", memory_kinds=(PMEM,), strict_memory=True))
    assert found.zone == 0
    assert found.refused.startswith("all of it is movable memory")


def test_a_real_server_with_movable_pmem() -> None:
    tree = tree_of(movable_server())
    pools = ("NUMA node #2", "NUMA node #3", "socket #0")
    assert [zone(tree, pool, memory_kinds=(PMEM,)) for pool in pools] == ["2,5", "3,7", "0,2,4-5"]
    assert [zone(tree, pool) for pool in pools] == ["2,5", "3,7", "0,2,4-5"]
    assert home(tree, "root", wanting("a", memory_kinds=(PMEM,), strict_memory=True)).zone == 0


def at_nodes(*nodes: str) -> tuple[DeviceLocality, ...]:
    return tuple(DeviceLocality(f"/dev/{n}", CpuSet(), NodeSet.parse(n)) for n in nodes)


def spread(*nodes: str, pool: str = "root", owns: bool = True, wish: bool | None = None) -> str:
    wanted = replace(wanting("a", spread_by_locality=wish), localities=at_nodes(*nodes))
    return str(NodeSet(home(FOUR, pool, wanted, owns=owns).zone))


def test_owned_cpus_near_several_devices_have_the_memory_of_each() -> None:
    assert spread("0", "2") == "0,2"
    cpus = (DeviceLocality("/dev/a", CpuSet.parse("4-5"), NodeSet()), *at_nodes("3"))
    assert home(FOUR, "root", replace(wanting("a"), localities=cpus), owns=True).zone == mask("1,3")


def test_hints_do_not_choose_the_memory_of_who_owns_no_cpu_or_declines_or_has_one_place() -> None:
    assert spread("0", "2", owns=False) == "0-3"
    assert spread("0", "2", wish=False) == "0-3"
    assert spread("2", "2") == "0-3"
    assert spread("2", "9") == "0-3"  # of the other place nothing is known


def test_hints_outside_the_pool_or_of_other_kinds_do_not_choose_the_memory() -> None:
    assert spread("0", "2", pool="socket #0") == "0-1"
    wanted = replace(wanting("a", memory_kinds=(PMEM,)), localities=at_nodes("0", "1"))
    assert home(TIERED, "root", wanted, owns=True).zone == mask("2-3")


def test_who_starts_cold_belongs_where_there_is_slow_memory() -> None:
    tree = tree_of(small_machine(memory="4Gi", memory_nodes=[{"memory": "16Gi", "kind": "pmem", "near": {0: 17}}]))
    assert [home(tree, pool, wanting("a", cold_start_seconds=60)).in_pool for pool in SOCKETS] == [True, False, True]
    assert all(home(tree, pool, wanting("a")).in_pool for pool in SOCKETS)


def cold(tree: PoolTree, pool: str, *kinds: object) -> ColdStart:
    wanted = wanting("a", memory_kinds=kinds, cold_start_seconds=60)
    return cold_start(memory_nodes_of(tree.machine), home(tree, pool, wanted), wanted)


def test_a_cold_start_is_home_without_dram() -> None:
    assert cold(TIERED, "socket #1") == ColdStart(mask("3"))
    assert cold(TIERED, "root", DRAM, PMEM) == ColdStart(mask("2-3"))


@pytest.mark.parametrize(
    ("tree", "kinds", "why"),
    [
        (TIERED, (PMEM,), "memory-type does not name both DRAM and PMEM"),
        (TIERED, (DRAM,), "memory-type does not name both DRAM and PMEM"),
        (FOUR, (), "its pool has no PMEM"),
        (MOVABLE, (), "the PMEM is movable memory, in which the kernel cannot keep its part"),
        (tree_of(small_machine(memory=0, memory_nodes=[{"memory": "4Gi", "kind": "pmem", "near": {0: 17}}])), (), ""),
    ],
)
def test_a_cold_start_that_cannot_be_says_why(tree: PoolTree, kinds: tuple[object, ...], why: str) -> None:
    found = cold(tree, "root", *kinds)
    assert (found.zone, found.missing) == (0, why or "its pool has no DRAM to withhold")


def test_nobody_starts_cold_who_did_not_ask() -> None:
    assert cold_start(memory_nodes_of(TIERED.machine), home(TIERED, "root", wanting("a")), wanting("a")) == ColdStart()


def test_its_own_nodes_count_for_a_promise_though_no_others_of_their_kind_may_be_added() -> None:
    """6 GiB beside 4 GiB of DRAM, where only the 1 GiB of HBM and what it has may serve; then more than both."""
    account = empty_account(memory_nodes_of(tiered()))
    for gibibytes, zone in ((4.5, "0,4"), (5, "0,4"), (5.5, "0")):
        wanted = wanting("a", gibibytes, memory_kinds=(HBM,), strict_memory=True)
        found = with_enough(account, Home(mask("0"), in_pool=True), wanted)
        assert str(NodeSet(found.zone)) == zone
