from dataclasses import replace

from policies.base import CpuKind, DeviceLocality, Grant, Request
from policies.preferences import CpuDistribution, Threads
from policies.topology_aware.cpus.offer import Offer, offers_of
from policies.topology_aware.supply.supply import room_of
from sysfs.cpuset import CpuSet, NodeSet
from tests.fakes.machines import small_machine
from tests.unit.policies.build import BEST_EFFORT, before, context_of, four_nodes, request, supply_of, tree_of
from tests.unit.policies.giving import offered, owned

TREE = tree_of(four_nodes(isolated="3,7,11"), "0")


def offer(pool: str, wanted: Request, *grants: Grant, keep_busy: bool = True) -> Offer:
    return offered(TREE, pool, wanted, *grants, keep_busy=keep_busy)


def test_one_cpu_is_isolated_where_one_is_free_and_sliced_where_none_is() -> None:
    assert offer("NUMA node #1", request(mcpu=1000)) == Offer(True, 0, 0, 0, 1)
    assert offer("NUMA node #3", request(mcpu=1000)) == Offer(True, 0, 0, 1, 0)
    assert offer("NUMA node #1", request(mcpu=1000, prefer_isolated=False)) == Offer(True, 0, 0, 1, 0)


def test_several_isolated_cpus_are_all_or_nothing() -> None:
    wanted = request(mcpu=2000, prefer_isolated=True)
    assert offer("NUMA node #1", wanted) == Offer(True, 0, 0, 2, 0)
    assert offer("socket #0", wanted) == Offer(True, 0, 0, 0, 2)


def test_required_isolated_cpus_are_never_sliced() -> None:
    wanted = request(mcpu=2000, require_isolated=True)
    assert not offer("NUMA node #1", wanted).fits
    assert offer("socket #0", wanted).fits


def test_a_container_without_a_share_needs_a_cpu_in_the_pool_while_others_have_one() -> None:
    full = owned("o/c", "NUMA node #1", "4-6")
    assert not offer("NUMA node #1", request(qos=BEST_EFFORT), full).fits
    assert offer("NUMA node #1", request(qos=BEST_EFFORT), full, keep_busy=False).fits


def test_a_share_needs_that_much_capacity() -> None:
    full = Grant(request("o/c"), "NUMA node #3", CpuKind.SHARED, shared_mcpu=3600)
    assert [offer("NUMA node #3", request(mcpu=mcpu), full).fits for mcpu in (400, 500)] == [True, False]


WHOLE = request("w/c", 2000, threads=Threads.OWN_CORE)


def test_broken_cores_do_not_count_for_a_container_that_owns_its_cores() -> None:
    tree = tree_of(four_nodes())
    one_idle, none_idle = owned("a/c", "NUMA node #0", "0"), owned("b/c", "NUMA node #0", "0,2")
    assert offered(tree, "NUMA node #0", WHOLE, one_idle).fits
    assert not offered(tree, "NUMA node #0", WHOLE, none_idle).fits
    assert offered(tree, "NUMA node #0", request("w/c", 2000), none_idle).fits


def test_cores_with_a_withheld_thread_are_not_whole() -> None:
    tree = tree_of(small_machine(packages=1, cores=3))
    supply = supply_of(tree, withheld="1,3")
    context = replace(context_of(tree, replace(WHOLE, cpu_request_mcpu=4000)), supply=supply)
    room = room_of(supply, keep_busy=False)
    assert (room.give[0], offers_of(context, room, room)[0].fits) == (4, False)


def test_threads_of_broken_cores_that_are_kept_are_as_good_as_whole_ones() -> None:
    tree = tree_of(four_nodes())
    kept = replace(WHOLE, previous=before("NUMA node #3", "12,14"))
    assert offered(tree, "NUMA node #3", kept, owned("b/c", "NUMA node #3", "13,15")).fits


def test_cores_that_are_kept_do_not_count_as_those_that_are_missing() -> None:
    tree = tree_of(four_nodes())
    more = replace(WHOLE, cpu_request_mcpu=4000, previous=before("socket #0", "0-1"))
    assert offered(tree, "socket #0", more).fits
    assert not offered(tree, "socket #0", more, owned("b/c", "socket #0", "2,4,6")).fits


def test_an_isolated_cpu_that_is_kept_completes_no_core_of_ordinary_ones() -> None:
    kept = request("w/c", 2000, threads=Threads.OWN_CORE, previous=before("NUMA node #1", "7"))
    assert offer("NUMA node #1", kept).fits
    assert not offer("NUMA node #1", kept, owned("b/c", "NUMA node #1", "4")).fits


def test_isolated_cpus_far_from_the_devices_are_not_enough_for_a_strict_wish() -> None:
    near = (DeviceLocality("/dev/x", CpuSet.parse("4-7"), NodeSet()),)
    wanted = request(mcpu=2000, prefer_isolated=True, strict_locality=True, localities=near)
    assert offer("socket #0", wanted) == Offer(True, 0, 0, 2, 0)


def test_an_odd_number_is_rounded_up_to_cores() -> None:
    tree = tree_of(four_nodes())
    assert offered(tree, "NUMA node #0", request("w/c", 3000, threads=Threads.HIDE)).sliced == 4


def test_the_shares_of_pools_below_break_no_core() -> None:
    tree = tree_of(four_nodes())
    share = Grant(request("s/c", 500), "NUMA node #0", CpuKind.SHARED, shared_mcpu=500)
    assert offered(tree, "socket #0", request("w/c", 6000, threads=Threads.OWN_CORE), share).fits
    assert not offered(tree, "socket #0", request("w/c", 7000, threads=Threads.OWN_CORE), share).fits
    assert offered(tree, "socket #0", request("w/c", 7000), share).fits
    other = Grant(request("t/c", 500), "NUMA node #1", CpuKind.SHARED, shared_mcpu=500)
    assert offered(tree, "socket #0", request("w/c", 4000, threads=Threads.OWN_CORE), share, other).fits
    assert not offered(tree, "socket #0", request("w/c", 6000, threads=Threads.OWN_CORE), share, other).fits
    assert offered(tree, "socket #0", request("w/c", 6000), share, other).fits


def test_isolated_cpus_are_owned_by_whole_cores_too() -> None:
    tree = tree_of(four_nodes(isolated="2-3,5,7"))
    wanted = request("w/c", 2000, threads=Threads.OWN_CORE, prefer_isolated=True)
    assert offered(tree, "NUMA node #0", wanted).isolated == 2
    assert offered(tree, "NUMA node #1", wanted).isolated == 0


def test_earlier_threads_of_broken_cores_stay_and_are_completed() -> None:
    tree = tree_of(four_nodes())
    wanted = request("w/c", 4000, threads=Threads.OWN_CORE, previous=before("NUMA node #0", "0,2"))
    assert offered(tree, "NUMA node #0", wanted) == Offer(True, 3, 0b101, 4, 0)
    assert not offered(tree, "NUMA node #0", wanted, owned("a/c", "NUMA node #0", "1")).fits
    assert offered(tree, "socket #0", wanted, owned("a/c", "socket #0", "1,3")).fits
    assert not offered(tree, "socket #0", wanted, owned("a/c", "socket #0", "1,3-4,6")).fits


def at(*places: str) -> tuple[DeviceLocality, ...]:
    return tuple(DeviceLocality(f"/dev/{n}", CpuSet.parse(cpus), NodeSet()) for n, cpus in enumerate(places))


def test_under_a_strict_wish_some_of_the_cpus_must_be_near_each_device() -> None:
    tree = tree_of(four_nodes(isolated="2-3,6,10"))
    wanted = request(mcpu=2000, prefer_isolated=True, strict_locality=True, localities=at("0-3", "6-7"))
    taken = Grant(request("o/c"), "NUMA node #1", CpuKind.ISOLATED, isolated=CpuSet.parse("6"))
    assert offered(tree, "socket #0", wanted).fits
    assert not offered(tree, "socket #0", wanted, taken).fits
    assert not offered(tree, "socket #0", replace(wanted, localities=at("0-3", "8-11"))).fits
    ordinary = request(mcpu=3000, prefer_isolated=False, strict_locality=True, localities=at("0-3"))
    assert not offered(tree, "socket #0", ordinary).fits  # of ordinary CPUs 0 and 1 are near


def test_a_strict_wish_for_a_device_that_is_near_all_cpus_is_met_on_the_reserved_ones() -> None:
    tree, full = tree_of(four_nodes(), "0"), owned("a/c", "root", "1-15")
    for cpus, fits in (("0-15", True), ("0-3", False)):
        near = (DeviceLocality("gpu", CpuSet.parse(cpus), NodeSet()),)
        wanted = request("w/c", 0, BEST_EFFORT, localities=near, strict_locality=True)
        assert offered(tree, "NUMA node #0", wanted, full, keep_busy=False).fits is fits


def test_a_strict_wish_for_hints_leaves_pools_near_all_devices_and_cpus_near_any() -> None:
    tree = tree_of(four_nodes())

    def fitting(mcpu: int, *grants: Grant) -> list[str]:
        wanted = request("w/c", mcpu, strict_locality=True, localities=at("0-3", "4-7"))
        return [p.name for p in tree.pools if offered(tree, p.name, wanted, *grants).fits]

    assert fitting(500) == ["socket #0"]
    assert fitting(2000) == ["root", "socket #0"]
    assert fitting(9000) == []
    assert fitting(2000, owned("a/c", "NUMA node #0", "0-3")) == ["socket #0"]


def test_hybrid_cores_of_one_thread_are_whole() -> None:
    tree = tree_of(small_machine(packages=1, cores=4, offline="5,7"))
    assert offered(tree, "root", request("w/c", 6000, threads=Threads.OWN_CORE)).fits


def test_one_on_different_cores_that_must_be_near_its_device_finds_so_many_cores_there() -> None:
    hints = (DeviceLocality("/dev/x", CpuSet.parse("12-15"), NodeSet()),)  # two cores
    keys = {"distribution": CpuDistribution.ACROSS_CORES, "localities": hints, "strict_locality": True}
    fits = [offer("root", request(mcpu=1000 * count, **keys)).fits for count in (2, 3)]  # type: ignore[arg-type]
    assert fits == [True, False]
